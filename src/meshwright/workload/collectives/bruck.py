"""Bruck: an all_gather or all_to_all of any number of ranks in ceil(log2 n) rounds.

Source: Bruck et al., "Efficient Algorithms for All-to-All Communications in Multiport Message-Passing Systems" (1997).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.workload.collectives._shared import any_count, check, each, once
from meshwright.workload.programs import Program

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints
    from meshwright.workload.programs import Step

OPERATIONS: Final = ("all_gather", "all_to_all")


def permits(operation: str, ranks: int) -> bool:
    """Any number of ranks."""
    return operation in OPERATIONS and any_count(ranks)


def program(operation: str, ranks: int) -> Program:
    """A gather sends all that it holds; an exchange what still has a way with a bit set. Raises COL002, COL010."""
    check("bruck", OPERATIONS, operation, ranks, permitted=permits(operation, ranks))
    make = _gather if operation == "all_gather" else _exchange
    steps = tuple(make(ranks, 1 << bit) for bit in range((ranks - 1).bit_length()))
    home = np.arange(ranks) if operation == "all_gather" else np.zeros(0, dtype=np.int64)
    return Program(operation=operation, ranks=ranks, message_pieces=ranks, home=home, steps=steps)


def _gather(ranks: int, distance: int) -> Step:
    """Rank r holds blocks r .. r + distance - 1, and sends r - distance as many as that one lacks."""
    rank, count = np.arange(ranks), min(distance, ranks - distance)

    def carried() -> Ints:
        return ((rank[:, None] + np.arange(count)) % ranks).reshape(-1)

    return once(rank, (rank - distance) % ranks, each(ranks, count), carried, reduce=False)


def _exchange(ranks: int, distance: int) -> Step:
    """Blocks whose way has this bit go on by it; they have already gone by the lower bits of their way."""
    rank, way = np.arange(ranks), np.arange(ranks)
    way = way[(way & distance) != 0]

    def carried() -> Ints:
        source = (rank[:, None] - (way & (distance - 1))) % ranks
        return (source * ranks + (source + way) % ranks).reshape(-1)

    return once(rank, (rank + distance) % ranks, each(ranks, len(way)), carried, reduce=False)
