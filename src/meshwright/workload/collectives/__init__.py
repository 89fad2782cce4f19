"""One file a collective algorithm: how many rounds it takes and what a rank sends in each. The file name is its name."""
