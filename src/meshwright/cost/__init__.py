"""How long and how much: roofline, memory ledger, collectives, overlap, money, and the one estimator."""
