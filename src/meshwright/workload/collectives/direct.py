"""Direct: every rank sends to each other one in turn, to r + 1, r + 2 .. r + n - 1, n - 1 rounds of a rotation.

Over equal boxes the rotation goes box by box, as NCCL's does: in a round either no rank sends beyond its box, or each
does, by its own NIC, to one box. Source: NCCL, src/enqueue.cc (p2pSchedule): entered from general knowledge.

An all_to_all of blocks of one size, or of a matrix of sizes as experts' tokens have them; an all_gather of blocks; a
reduce_scatter of blocks, and both one after the other for an all_reduce.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.base.errors import CollectiveError
from meshwright.workload.collectives import _grid
from meshwright.workload.collectives._grid import Way, along_dims, turned
from meshwright.workload.collectives._shared import any_count, check, check_node, each, in_a_row, once
from meshwright.workload.programs import Program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshwright.base.numbers import Ints
    from meshwright.workload.programs import Step

OPERATIONS: Final = (*_grid.OPERATIONS, "all_to_all")
_MOST_PIECES: Final = 1 << 24


def permits(operation: str, ranks: int) -> bool:
    """Any number of ranks."""
    return operation in OPERATIONS and any_count(ranks)


def program(operation: str, ranks: int, *, box_size: int = 0, sizes: Sequence[Sequence[int]] = ()) -> Program:
    """One block to one other rank each round.

    box_size: neighbouring ranks of a box, by which the rotation goes; 0 for one box.   sizes: of an all_to_all what row
    s sends to column d, in any unit (bytes, tokens); the message is then what the rank with the most sends in all, its
    own block included. Where there are none, all blocks are equal. Raises COL002, COL010, COL012 (a box that does not
    divide the ranks), COL014 (a matrix that is not ranks x ranks, or without a common unit that is large enough).
    """
    check("direct", OPERATIONS, operation, ranks, permitted=permits(operation, ranks))
    box = box_size or ranks
    check_node(box, ranks)
    if operation != "all_to_all":
        return along_dims(operation, (ranks,), (Way(order=(0,), turn=1),), direct=frozenset({0}), box=box)
    if len(sizes):
        return _uneven(ranks, _units(ranks, sizes), box)
    turns = range(1, ranks)
    return Program(
        operation=operation,
        ranks=ranks,
        message_pieces=ranks,
        home=np.zeros(0, dtype=np.int64),
        steps=tuple(_round(ranks, box, turn) for turn in turns),
    )


def _round(ranks: int, box: int, turn: int) -> Step:
    rank = np.arange(ranks)
    target = turned(rank, turn, ranks, box)
    return once(rank, target, each(ranks, 1), lambda: rank * ranks + target, reduce=False)


def _units(ranks: int, sizes: Sequence[Sequence[int]]) -> Ints:
    """The matrix in its largest common unit. Raises COL014."""
    square = len(sizes) == ranks and all(len(row) == ranks for row in sizes)
    if not square or min(min(row) for row in sizes) < 0:
        cause = f"sizes of {len(sizes)} rows for {ranks} ranks, or one below zero"
        raise CollectiveError(14, cause, "give as many rows and columns as ranks, of 0 or more")
    unit = gcd(*(int(size) for row in sizes for size in row)) or 1
    total = sum(sum(row) for row in sizes) // unit
    if not 0 < total <= _MOST_PIECES:
        cause = f"sizes of {total} units of {unit} in all"
        raise CollectiveError(14, cause, f"give sizes above zero, in a unit that makes 1 to {_MOST_PIECES} of them")
    return np.array(sizes, dtype=np.int64) // unit


def _uneven(ranks: int, units: Ints, box: int) -> Program:
    """Pieces are numbered by sender, then by receiver."""
    count = units.reshape(-1)
    first = (np.cumsum(count) - count).reshape(ranks, ranks)
    source, target = np.divmod(np.arange(ranks * ranks), ranks)
    steps = [_uneven_round(units, first, turned(np.arange(ranks), turn, ranks, box)) for turn in range(1, ranks)]
    return Program(
        operation="all_to_all",
        ranks=ranks,
        message_pieces=int(units.sum(axis=1).max()),
        home=np.repeat(target, count),
        origin=np.repeat(source, count),
        steps=tuple(step for step in steps if len(step.sender)),
    )


def _uneven_round(units: Ints, first: Ints, targets: Ints) -> Step:
    """What there is to send: an empty block is not sent."""
    rank = np.arange(len(targets))
    rank = rank[units[rank, targets] > 0]
    target = targets[rank]
    count, begin = units[rank, target], first[rank, target]
    return once(rank, target, count, lambda: in_a_row(begin, count), reduce=False)
