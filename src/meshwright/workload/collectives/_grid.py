"""A grid of ranks, and ways through its dims, go in; exchanges along one dim after the other come out, as rounds.

Ranks are numbered with the last dim fastest. A piece has a place in the grid as a rank has, and one part of the message
for every way: way 0 has pieces 0 .. ranks - 1, the next way those that follow. In a dim of ranks x = 0 .. n - 1, in
round t, rank x sends the pieces at place x - t to x + 1 (a ring), or those at place x + 1 + t to their owner (direct).
Source: chapter "Supernodes", section 6.4.2, for the ring.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.workload.collectives._shared import each
from meshwright.workload.programs import Program, Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshwright.base.numbers import Bools, Ints

OPERATIONS: Final = ("all_reduce", "reduce_scatter", "all_gather")


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How one part of the message goes: the dims in the order in which they reduce, and 1 or -1 around each."""

    order: tuple[int, ...]
    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grid:
    """places: of each rank its coordinate in each dim.   strides: how far neighbours along a dim are in rank."""

    extents: tuple[int, ...]
    places: tuple[Ints, ...]
    strides: tuple[int, ...]
    direct: frozenset[int]
    box: int
    shift: int

    def owned(self, dim: int, turn: int) -> Ints:
        """Of each rank the place of the pieces that it owns in a dim."""
        if dim in self.direct:
            return self.places[dim]
        return (self.places[dim] + turn * self.shift) % self.extents[dim]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Move:
    """Rounds in which every rank sends the same number of pieces to one other rank. carried: [ranks, pieces]."""

    times: int
    receiver: Ints
    pieces: int
    carried: Callable[[int], Ints]
    reduce: bool


def along_dims(
    operation: str,
    extents: tuple[int, ...],
    ways: tuple[Way, ...],
    *,
    direct: frozenset[int] = frozenset(),
    box: int = 0,
    launches: int = 1,
) -> Program:
    """The program of an operation, all ways at once, each with an equal part of the message.

    direct: dims in which a rank sends to each other one in turn, instead of around a ring.   box: neighbours in these
    dims by which the turns go (`turned`); 0 for all.
    """
    assert operation in OPERATIONS
    ranks = prod(extents)
    grid = _Grid(
        extents=extents,
        places=np.unravel_index(np.arange(ranks), extents),
        strides=tuple(prod(extents[dim + 1 :]) for dim in range(len(extents))),
        direct=direct,
        box=box,
        shift=0 if operation == "all_gather" else 1,
    )
    lines = [_moves(operation, grid, way) for way in ways]
    home = np.empty(len(ways) * ranks, dtype=np.int64)
    for number, way in enumerate(ways):
        place = sum((grid.owned(dim, way.turn) * grid.strides[dim] for dim in way.order), np.zeros(ranks, np.int64))
        home[number * ranks + place] = np.arange(ranks)
    return Program(
        operation=operation,
        ranks=ranks,
        message_pieces=len(ways) * ranks,
        home=home,
        steps=_together(lines, ranks),
        launches=launches,
    )


def turned(place: Ints, turn: int, extent: int, box: int) -> Ints:
    """Of each place the one that it sends to in a turn: first around its box, then around one box after another.

    Over all turns but 0 every other place once, and in each turn every place is sent to once.
    """
    boxes, places = divmod(turn, box)
    return (place // box + boxes) * box % extent + (place % box + places) % box


def _moves(operation: str, grid: _Grid, way: Way) -> list[_Move]:
    """What one part of the message does."""
    moves: list[_Move] = []
    if operation != "all_gather":
        for number in range(len(way.order)):
            moves += _along(grid, way, number, reduce=True)
    if operation != "reduce_scatter":
        for number in reversed(range(len(way.order))):
            moves += _along(grid, way, number, reduce=False)
    return moves


def _along(grid: _Grid, way: Way, number: int, *, reduce: bool) -> list[_Move]:
    """The rounds along one dim: dims before it are at the pieces that a rank owns, those after it are whole."""
    dim = way.order[number]
    extent, place, stride = grid.extents[dim], grid.places[dim], grid.strides[dim]
    if extent == 1:
        return []
    fixed = np.zeros(len(place), dtype=np.int64)
    for before in way.order[:number]:
        fixed = fixed + grid.owned(before, way.turn) * grid.strides[before]
    whole = np.zeros(1, dtype=np.int64)
    for after in way.order[number + 1 :]:
        whole = np.add.outer(whole, np.arange(grid.extents[after]) * grid.strides[after]).reshape(-1)
    own = grid.owned(dim, way.turn)
    base = np.arange(len(place)) - place * stride

    def sent(at: Ints) -> Ints:
        return (fixed + at * stride)[:, None] + whole

    if dim not in grid.direct:

        def around(turns: int) -> Ints:
            return sent(((place if reduce else own) - way.turn * turns) % extent)

        receiver = base + (place + way.turn) % extent * stride
        return [_Move(times=extent - 1, receiver=receiver, pieces=len(whole), carried=around, reduce=reduce)]

    def to(turns: int) -> _Move:
        target = turned(place, way.turn * (turns + 1), extent, grid.box or extent)
        return _Move(
            times=1,
            receiver=base + target * stride,
            pieces=len(whole),
            carried=lambda _: sent(target if reduce else own),
            reduce=reduce,
        )

    return [to(turns) for turns in range(extent - 1)]


def _together(lines: list[list[_Move]], ranks: int) -> tuple[Step, ...]:
    """All parts at once: a step ends where any part goes on to its next move. All have the same number of rounds."""
    starts = [np.cumsum([0, *(move.times for move in moves)]).tolist() for moves in lines]
    assert len({line[-1] for line in starts}) == 1
    marks = sorted({mark for line in starts for mark in line})
    steps: list[Step] = []
    for begin, end in pairwise(marks):
        running = [
            (move, begin - start)
            for moves, line in zip(lines, starts, strict=True)
            for move, start, stop in zip(moves, line[:-1], line[1:], strict=True)
            if start <= begin < stop
        ]
        steps.append(_step(running, ranks, end - begin))
    return tuple(steps)


def _step(running: list[tuple[_Move, int]], ranks: int, times: int) -> Step:
    reduces = [move.reduce for move, _ in running]
    reduce: bool | Bools = reduces[0] if len(set(reduces)) == 1 else np.repeat(np.array(reduces), ranks)
    return Step(
        sender=np.tile(np.arange(ranks), len(running)),
        receiver=np.concatenate([move.receiver for move, _ in running]),
        pieces=np.concatenate([each(ranks, move.pieces) for move, _ in running]),
        times=times,
        carried=lambda turn: _carried(running, ranks, turn),
        reduce=reduce,
    )


def _carried(running: list[tuple[_Move, int]], ranks: int, turn: int) -> Ints:
    return np.concatenate(
        [move.carried(late + turn).reshape(-1) + part * ranks for part, (move, late) in enumerate(running)]
    )
