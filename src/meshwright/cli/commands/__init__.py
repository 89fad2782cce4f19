"""One file a verb: parse, call one public function, print."""
