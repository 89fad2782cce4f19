"""Recursive doubling, with ranks at distance 1, 2, 4 ..: an all_reduce of messages; an all_gather of what is held.

Source: Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH" (2005), 4.1, 4.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.workload.collectives._butterfly import doubling, xor_peers
from meshwright.workload.collectives._fold import fold
from meshwright.workload.collectives._shared import any_count, check, each, once, power_of_two
from meshwright.workload.programs import Program

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints
    from meshwright.workload.programs import Step

OPERATIONS: Final = ("all_reduce", "all_gather")


def permits(operation: str, ranks: int) -> bool:
    """An all_gather of powers of two; an all_reduce of any number, the odd ones through a neighbour."""
    return operation in OPERATIONS and (any_count if operation == "all_reduce" else power_of_two)(ranks)


def program(operation: str, ranks: int) -> Program:
    """log2 n rounds; two more of an all_reduce whose ranks are no power of two. Raises COL002, COL010."""
    check("recursive_doubling", OPERATIONS, operation, ranks, permitted=permits(operation, ranks))
    if operation == "all_gather":
        own = np.arange(ranks)
        steps = doubling(xor_peers(ranks)[::-1], own)
        return Program(operation=operation, ranks=ranks, message_pieces=ranks, home=own, steps=steps)
    folded = fold(ranks, 1)
    swaps = tuple(_whole(folded.members, peer) for peer in xor_peers(len(folded.members)))
    steps = (*folded.before, *swaps, *folded.after)
    return Program(operation=operation, ranks=ranks, message_pieces=1, home=np.zeros(1, dtype=np.int64), steps=steps)


def _whole(members: Ints, peer: Ints) -> Step:
    count = len(members)
    return once(members, members[peer], each(count, 1), lambda: np.zeros(count, dtype=np.int64), reduce=True)
