"""The tests, one folder a kind: unit, laws, golden, oracle, runtime, ui."""
