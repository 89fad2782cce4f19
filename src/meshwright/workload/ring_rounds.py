"""A sequence over ranks of a ring goes in; the pairs that each rank scores in each of its rounds come out, exactly.

In round t rank r has the keys and values that rank r - t owns; round 0 is its own. What follows waits for the rank that
has most in a round, so a step takes the sum of the rounds' busiest ranks: as much as the busiest rank alone where one
is so in every round, more where they take turns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np

from meshwright.workload.context_split import context_parts
from meshwright.workload.pairs import positions_pairs

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints
    from meshwright.model.mixers.told import Span
    from meshwright.workload.context_split import ContextSplit
    from meshwright.workload.pairs import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Shares of the work of the busiest rank. excess: what the rounds' busiest ranks take together beyond it.

    sending: of each round that a message runs beside, all but the last, and how many rounds have it.
    """

    excess: float
    sending: tuple[tuple[float, int], ...]


@cache
def ring_rounds(split: ContextSplit, tokens: int, ranks: int, span: Span) -> Rounds:
    """The rounds of a ring. Raises JOB131."""
    found = ring_pairs(split, tokens, ranks, span)
    most, busiest = found.max(axis=0), max(found.sum(axis=1).max(), 1)
    shares, counts = np.unique(most[:-1] / busiest, return_counts=True)
    return Rounds(
        excess=max(float((most.sum() - busiest) / busiest), 0.0),
        sending=tuple(zip(shares.tolist(), counts.tolist(), strict=True)),
    )


def ring_pairs(split: ContextSplit, tokens: int, ranks: int, span: Span) -> Any:
    """[ranks, rounds]: pairs under a causal mask. Raises JOB131 for more ranks than positions.

    Rows that tokens choose, or that stand for several positions, are taken to be alike in all rounds.
    """
    parts = context_parts(split, tokens, ranks)
    if span.stride > 1 or span.top is not None:
        whole = [positions_pairs(part, (tokens,), "causal", span) for part in parts]
        return np.array(whole)[:, None] / ranks * np.ones(ranks)
    chunk = tokens if span.chunk is None else span.chunk
    found = np.zeros((ranks, ranks), dtype=np.int64)
    runs = max(len(part) for part in parts)
    columns = [_columns([part[place] if place < len(part) else None for part in parts]) for place in range(runs)]
    for start, stop in pairwise([*range(0, tokens, chunk), tokens]):
        inside = [_inside(column, start, stop) for column in columns]
        for asked, read in product(inside, inside):
            found += _met(asked, read, span.window)
    rank = np.arange(ranks)
    return found[rank[:, None], (rank[:, None] - rank) % ranks]


def _columns(runs: list[Run | None]) -> Ints:
    """[3, ranks]: first position, count and step of one run of each rank."""
    return np.array([(0, 0, 1) if run is None else (run.first, run.count, run.step) for run in runs]).T


def _inside(runs: Ints, start: int, stop: int) -> Ints:
    """What lies in a chunk of positions."""
    first, count, step = runs
    before = np.clip(-(-(start - first) // step), 0, count)
    beyond = np.clip(-(-(stop - first) // step), 0, count)
    return np.stack([first + before * step, beyond - before, step])


def _met(asked: Ints, read: Ints, window: int | None) -> Ints:
    """[ranks, ranks]: pairs of queries of one run with keys of another, of which none is after its query.

    All steps are one: the i-th query of f + s i sees keys up to number i + (f - f') // s.
    """
    (first, count, step), (other, keys, _) = (side[:, :, None] if place == 0 else side[:, None, :]
                                              for place, side in enumerate((asked, read)))  # fmt: skip
    found = _sum_of_clipped((first - other) // step, count, keys)
    if window is not None:
        found = found - _sum_of_clipped((first - other - window) // step, count, keys)
    return found


def _sum_of_clipped(ahead: Ints, count: Ints, most: Ints) -> Ints:
    """Sum over i from 0 to count - 1 of i + ahead + 1, at least 0 and at most `most`."""
    return _sum_up_to(ahead + count, most) - _sum_up_to(ahead, most)


def _sum_up_to(last: Ints, most: Ints) -> Ints:
    inside = np.clip(last, 0, most)
    return inside * (inside + 1) // 2 + np.maximum(last - most, 0) * most
