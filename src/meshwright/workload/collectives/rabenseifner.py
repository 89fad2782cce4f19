"""Rabenseifner's all_reduce: recursive halving reduces, recursive doubling gathers.

Source: Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH" (2005), section 4.4.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from meshwright.workload.collectives._butterfly import doubling, halving, xor_peers
from meshwright.workload.collectives._fold import fold
from meshwright.workload.collectives._shared import any_count, check
from meshwright.workload.programs import Program

OPERATIONS: Final = ("all_reduce",)


def permits(operation: str, ranks: int) -> bool:
    """Any number of ranks; those beyond a power of two go through a neighbour, with their whole message."""
    return operation in OPERATIONS and any_count(ranks)


def program(operation: str, ranks: int) -> Program:
    """2 log2 n rounds with the bytes of a ring; two rounds more for no power of two. Raises COL002, COL010."""
    check("rabenseifner", OPERATIONS, operation, ranks, permitted=permits(operation, ranks))
    blocks = 1 << (ranks.bit_length() - 1)
    folded, peers = fold(ranks, blocks), xor_peers(blocks)
    steps = (*folded.before, *halving(peers, folded.members), *doubling(peers, folded.members), *folded.after)
    return Program(
        operation=operation, ranks=ranks, message_pieces=blocks, home=np.asarray(folded.members), steps=steps
    )
