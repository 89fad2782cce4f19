"""One question a file; each takes the four nouns and returns a `Result`."""
