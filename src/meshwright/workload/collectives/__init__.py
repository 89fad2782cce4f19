"""One file a collective algorithm: its program, the rounds of sends by operation and ranks. Its name is the file's."""
