"""In-switch reduction: the switch adds what all ranks send, and sends one answer to all.

An all_reduce is what NVLink SHARP does: rank r asks for the sum of block r, for which all ranks send theirs, and gives
it back to the switch, which sends it to all. So every link carries the message and an n-th of it, each way. The switch
is participant n; it adds at the rate of its links.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.workload.collectives._pipeline import Edges, joined, pipelined
from meshwright.workload.collectives._shared import SEGMENTS, any_count, check, check_segments, each, owners
from meshwright.workload.programs import Program

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints

OPERATIONS: Final = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce")


def permits(operation: str, ranks: int) -> bool:
    """Any number of ranks at one switch."""
    return operation in OPERATIONS and any_count(ranks)


def program(operation: str, ranks: int, *, segments: int = SEGMENTS) -> Program:
    """Up to the switch and down again, segment by segment.

    segments: equal parts of the message that follow each other. The root of a broadcast or reduce is rank 0. Raises
    COL002, COL010, COL011.
    """
    check("in_switch", OPERATIONS, operation, ranks, permitted=permits(operation, ranks))
    check_segments(segments)
    rooted = operation in {"broadcast", "reduce"}
    blocks = 1 if rooted else ranks
    rank, pieces = np.arange(ranks), blocks * segments
    home = owners(ranks, pieces, 0) if rooted else np.tile(rank, segments)
    return Program(
        operation=operation,
        ranks=ranks,
        message_pieces=pieces,
        home=home,
        steps=pipelined(_edges(operation, ranks), segments, stride=blocks) if ranks > 1 else (),
        switches=1,
    )


def _edges(operation: str, ranks: int) -> Edges:
    """Of one segment: whose links carry which pieces, a round after the other."""
    everyone, root = np.arange(ranks), np.zeros(1, dtype=np.int64)
    none = np.zeros_like(everyone)
    blocks = 1 if operation in {"broadcast", "reduce"} else ranks

    def up(rank: Ints, first: Ints, width: int, late: int, *, reduce: bool) -> Edges:
        switch = np.full_like(rank, ranks)
        return _links(rank, switch, (first, width), late, reduce=reduce)

    def down(rank: Ints, first: Ints, width: int, late: int) -> Edges:
        switch = np.full_like(rank, ranks)
        return _links(switch, rank, (first, width), late, reduce=False)

    adds = up(everyone, none, blocks, 0, reduce=True)
    if operation == "reduce":
        return joined(adds, down(root, root, 1, 1))
    if operation == "broadcast":
        return joined(up(root, root, 1, 0, reduce=False), down(everyone, none, 1, 1))
    if operation == "all_gather":
        return joined(up(everyone, everyone, 1, 0, reduce=False), down(everyone, none, blocks, 1))
    asked = joined(adds, down(everyone, everyone, 1, 1))
    if operation == "reduce_scatter":
        return asked
    return joined(asked, up(everyone, everyone, 1, 2, reduce=False), down(everyone, none, blocks, 3))


def _links(sender: Ints, receiver: Ints, pieces: tuple[Ints, int], late: int, *, reduce: bool) -> Edges:
    count = len(sender)
    return Edges(
        sender=sender,
        receiver=receiver,
        start=each(count, late),
        first=pieces[0],
        width=each(count, pieces[1]),
        reduce=np.full(count, reduce),
    )
