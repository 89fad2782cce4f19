"""One file a collective algorithm: its rounds, and what a rank sends in each. The file name is its name."""
