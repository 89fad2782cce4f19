"""Recursive halving: a reduce_scatter in log2 n rounds with ranks at distance 1, 2, 4 .., of halves, quarters, eighths.

Source: chapter "Supernodes", section 6.5.1 (partner r xor 2^i).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from meshwright.workload.collectives._butterfly import halving, xor_peers
from meshwright.workload.collectives._shared import check, power_of_two
from meshwright.workload.programs import Program

OPERATIONS: Final = ("reduce_scatter",)


def permits(operation: str, ranks: int) -> bool:
    """Powers of two."""
    return operation in OPERATIONS and power_of_two(ranks)


def program(operation: str, ranks: int) -> Program:
    """Every round the half of what a rank still holds. Raises COL002, COL010."""
    check("recursive_halving", OPERATIONS, operation, ranks, permitted=permits(operation, ranks))
    members = np.arange(ranks)
    steps = halving(xor_peers(ranks), members)
    return Program(operation=operation, ranks=ranks, message_pieces=ranks, home=members, steps=steps)
