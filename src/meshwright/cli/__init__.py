"""The command line, thin: parse, call one public function, print."""
