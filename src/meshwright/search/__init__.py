"""Generic search, given the function it evaluates: candidates, rank, Pareto front, flips, sensitivity, assignment."""
