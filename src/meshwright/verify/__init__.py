"""How far apart the answers are: parity, traces, this machine's calibration, published tables, and why."""
