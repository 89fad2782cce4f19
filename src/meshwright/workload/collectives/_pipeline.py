"""Edges that pass on segments one after the other, and the round in which each starts, go in; steps come out."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from meshwright.workload.collectives._shared import in_a_row
from meshwright.workload.programs import Step

if TYPE_CHECKING:
    from meshwright.base.numbers import Bools, Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Edges:
    """Columns, one row an edge: it sends its segment s in round start + s.

    first, width: of segment 0 the first of the pieces, and how many with numbers in a row.
    """

    sender: Ints
    receiver: Ints
    start: Ints
    first: Ints
    width: Ints
    reduce: Bools


def joined(*parts: Edges) -> Edges:
    """The edges of all parts."""
    names = [item.name for item in fields(Edges)]
    return Edges(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def pipelined(edges: Edges, segments: int, *, stride: int) -> tuple[Step, ...]:
    """The rounds of all segments; a step ends where an edge starts or has sent its last one.

    stride: by how much the numbers of pieces of a segment are above those of the one before.
    """
    if not len(edges.start):
        return ()
    marks = np.unique(np.concatenate([edges.start, edges.start + segments])).tolist()
    return tuple(_step(edges, segments, stride, begin, end) for begin, end in pairwise(marks))


def _step(edges: Edges, segments: int, stride: int, begin: int, end: int) -> Step:
    runs = np.flatnonzero((edges.start <= begin) & (begin < edges.start + segments))
    first, width = edges.first[runs] + (begin - edges.start[runs]) * stride, edges.width[runs]
    reduce = edges.reduce[runs]

    def carried(turn: int) -> Ints:
        return in_a_row(first + turn * stride, width)

    return Step(
        sender=edges.sender[runs],
        receiver=edges.receiver[runs],
        pieces=width,
        times=end - begin,
        carried=carried,
        reduce=bool(reduce[0]) if (reduce == reduce[0]).all() else reduce,
    )
