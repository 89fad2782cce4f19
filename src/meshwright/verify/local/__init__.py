"""This machine, measured on real processes: exchanges, rates, overlap, and what a step costs beside its products."""
