"""Steps: samples by global index, micro-batches, the optimizer, and what a step reports."""
