"""Two shot: a reduce_scatter in one round, then an all_gather in another; every rank sends to all others at once."""

from __future__ import annotations

from typing import Final

import numpy as np

from meshwright.workload.collectives import one_shot
from meshwright.workload.collectives._shared import check
from meshwright.workload.programs import Program

OPERATIONS: Final = ("all_reduce",)


def permits(operation: str, ranks: int) -> bool:
    """As many ranks as one shot takes."""
    return operation in OPERATIONS and one_shot.permits(operation, ranks)


def program(operation: str, ranks: int) -> Program:
    """Two rounds with the bytes of a ring. Raises COL002, COL010."""
    check("two_shot", OPERATIONS, operation, ranks, permitted=permits(operation, ranks))
    halves = ("reduce_scatter", "all_gather") if ranks > 1 else ()
    steps = tuple(one_shot.at_once(half, ranks) for half in halves)
    return Program(operation=operation, ranks=ranks, message_pieces=ranks, home=np.arange(ranks), steps=steps)
