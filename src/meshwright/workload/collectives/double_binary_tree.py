"""Double binary tree: two trees, half of the message in each, in segments; who passes on in one is a leaf in the other.

Source: Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan" (2009).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.workload.collectives._pipeline import Edges, joined, pipelined
from meshwright.workload.collectives._shared import SEGMENTS, any_count, check, check_segments, owners
from meshwright.workload.programs import Program

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints

OPERATIONS: Final = ("all_reduce",)
IN_CHANNELS: Final = True
"""Over boxes libraries lay it in channels: see `workload.channels`."""


def permits(operation: str, ranks: int) -> bool:
    """Any number of ranks."""
    return operation in OPERATIONS and any_count(ranks)


def program(operation: str, ranks: int, *, segments: int = SEGMENTS) -> Program:
    """Segments up to the root and down again; the first goes down while later ones still go up.

    segments: equal parts of each half of the message, which follow each other. Raises COL002, COL010, COL011.
    """
    check("double_binary_tree", OPERATIONS, operation, ranks, permitted=permits(operation, ranks))
    check_segments(segments)
    rank = np.arange(ranks)
    own = _parents(ranks)
    other = (rank - 1) % ranks if ranks % 2 else ranks - 1 - rank  # who a rank is in the second tree
    edges = joined(_edges(own, rank, 0), _edges(own, np.argsort(other), segments))
    return Program(
        operation=operation,
        ranks=ranks,
        message_pieces=2 * segments,
        home=owners(ranks, 2 * segments, 0),
        steps=pipelined(edges, segments, stride=1),
    )


def _parents(ranks: int) -> Ints:
    """Of each place its parent, -1 of the root 0: halves above and below, so that odd places are leaves."""
    place = np.arange(ranks)
    low = place & -place
    up = (place ^ low) | (low << 1)
    parents = np.where(up >= ranks, place ^ low, up)
    parents[0] = -1
    return parents


def _edges(parents: Ints, ranks: Ints, first: int) -> Edges:
    """One tree: to the parent once all children have sent, and down from it.   ranks: who stands at each place."""
    depth, height = np.zeros_like(parents), np.zeros_like(parents)
    for _ in range(len(parents).bit_length() + 1):
        depth[1:] = depth[parents[1:]] + 1
        np.maximum.at(height, parents[1:], height[1:] + 1)
    child, parent = ranks[1:], ranks[parents[1:]]
    count = len(child)
    return Edges(
        sender=np.concatenate([child, parent]),
        receiver=np.concatenate([parent, child]),
        start=np.concatenate([height[1:], height[0] + depth[1:] - 1]),
        first=np.full(2 * count, first, dtype=np.int64),
        width=np.ones(2 * count, dtype=np.int64),
        reduce=np.repeat(np.array([True, False]), count),
    )
