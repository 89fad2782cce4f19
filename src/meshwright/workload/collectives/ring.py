"""Ring: reduce_scatter, then all_gather, around neighbours; broadcast and reduce as a chain, in segments.

Source: chapter "Supernodes", section 6.4.2, equation 6-9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.workload.collectives import _grid
from meshwright.workload.collectives._grid import Way, along_dims
from meshwright.workload.collectives._pipeline import Edges, pipelined
from meshwright.workload.collectives._shared import SEGMENTS, any_count, check, check_segments, owners
from meshwright.workload.programs import Program

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints

OPERATIONS: Final = (*_grid.OPERATIONS, "broadcast", "reduce")
IN_CHANNELS: Final = True
"""Over boxes libraries lay it in channels: see `workload.channels`."""


def permits(operation: str, ranks: int) -> bool:
    """Any number of ranks."""
    return operation in OPERATIONS and any_count(ranks)


def program(operation: str, ranks: int, *, segments: int = SEGMENTS) -> Program:
    """n - 1 rounds that reduce, n - 1 that gather, a block of the message cut into n in each.

    segments: equal parts that follow each other down the chain of a broadcast or reduce, whose root is rank 0.
    Raises COL002, COL010, COL011.
    """
    check("ring", OPERATIONS, operation, ranks, permitted=permits(operation, ranks))
    if operation in _grid.OPERATIONS:
        return along_dims(operation, (ranks,), (Way(order=(0,), turn=1),))
    check_segments(segments)
    near: Ints = np.arange(ranks - 1)
    inward = operation == "reduce"
    edges = Edges(
        sender=near + 1 if inward else near,
        receiver=near if inward else near + 1,
        start=near[::-1] if inward else near,
        first=np.zeros_like(near),
        width=np.ones_like(near),
        reduce=np.full(len(near), inward),
    )
    return Program(
        operation=operation,
        ranks=ranks,
        message_pieces=segments,
        home=owners(ranks, segments, 0),
        steps=pipelined(edges, segments, stride=1),
    )
