"""Binomial tree, unsegmented: reduce to rank 0, then broadcast from it, whole messages.

Source: chapter "Supernodes", equation 6-10; the chapter defines it for powers of two only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.workload.collectives._shared import check, each, once, owners, power_of_two
from meshwright.workload.programs import Program

if TYPE_CHECKING:
    from meshwright.workload.programs import Step

OPERATIONS: Final = ("all_reduce", "broadcast", "reduce")
IN_CHANNELS: Final = True
"""Over boxes libraries lay it in channels: see `workload.channels`."""


def permits(operation: str, ranks: int) -> bool:
    """Powers of two."""
    return operation in OPERATIONS and power_of_two(ranks)


def program(operation: str, ranks: int) -> Program:
    """log2(n) rounds towards the root, log2(n) away from it; the root is rank 0. Raises COL002, COL010."""
    check("tree", OPERATIONS, operation, ranks, permitted=permits(operation, ranks))
    distances = [1 << bit for bit in range(ranks.bit_length() - 1)]
    inward = () if operation == "broadcast" else tuple(_round(ranks, far, reduce=True) for far in distances)
    outward = tuple(_round(ranks, far, reduce=False) for far in reversed(distances))
    return Program(
        operation=operation,
        ranks=ranks,
        message_pieces=1,
        home=owners(ranks, 1, 0),
        steps=(*inward, *(() if operation == "reduce" else outward)),
    )


def _round(ranks: int, distance: int, *, reduce: bool) -> Step:
    near = np.arange(0, ranks, 2 * distance)
    sender, receiver = (near + distance, near) if reduce else (near, near + distance)
    return once(sender, receiver, each(len(near), 1), lambda: np.zeros(len(near), dtype=np.int64), reduce=reduce)
