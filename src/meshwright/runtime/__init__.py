"""The same layout on real PyTorch processes: modules, parallel, pipeline, state and the loop (extra: torch)."""
