"""The local web page, thin: parse, call one public function, show."""
