"""One file a recompute policy: what a layer keeps, and what its backward runs again. The file name is its name."""
