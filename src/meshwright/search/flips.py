"""Where does the choice change? A judge of rows and values goes in; the values at which another row is chosen come out.

Nothing is left to a grid: between two values a row's goal lies between known bounds, and a row that another beats by
its bounds cannot be chosen there. A cell in which more than one row is left is divided again among those.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.search.rank import TIE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from meshwright.base.numbers import Bools, Floats, Ints

RESOLUTION: Final = 1e-3
"""The choice may change and change back unseen only within this share of a value."""
_NARROW: Final = 1e-10
_FIRST: Final = 61
_FEWEST, _MOST, _ASKED = 17, 513, 2048
"""Parts of a cell, at least and at most; and about how many rows all cells of one depth ask about together."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Goal:
    """What is least where a row is chosen. value: what is compared.   over / under: the same, or in the same order.

    Both are positive, and each moves one way only with the parameter; except that `over` may go either way where
    `under` moves, by no more than the parameter does in proportion (a time that is a + b * x or a + b / x of a batch
    whose size moves as well).
    """

    value: Any
    over: Any
    under: Any


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judged:
    """Columns by which rows are chosen among: eligible ones, of least first goal, then second, then rank.

    eligible: moves one way with the parameter, too: no row comes and goes again.
    """

    eligible: Bools
    goals: tuple[Goal, Goal]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """`before` is chosen just below `value`, `after` from it on (just above it, where values are continuous).

    A row, or -1 for none.
    """

    value: float
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Cells:
    """Intervals, and the rows that may be chosen in each: [cells, most rows], -1 where there are fewer."""

    low: Floats
    high: Floats
    rows: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Scores:
    """[cells, values, rows]: what decides, not a number where there is no row; `rank` is infinite there."""

    eligible: Bools
    values: Sequence[Floats]
    over: Sequence[Floats]
    under: Sequence[Floats]
    rank: Floats


def changes(
    judge: Callable[[Floats, Ints], Judged], rank: Ints, low: float, high: float, *, whole: bool
) -> tuple[Change, ...]:
    """Every change of the choice between two values of a parameter, by value.

    judge: values and rows, one row a value, to what decides.   rank: of each row, where goals are equal.   whole: the
    parameter takes whole numbers. Leaves out what comes and goes within `RESOLUTION` of a value.
    """
    cells = _Cells(low=np.array([low]), high=np.array([high]), rows=np.arange(len(rank))[None, :])
    grid = np.geomspace(low, high, _FIRST)[None, :]
    found: list[Change] = []
    while len(cells.low):
        grid = np.round(grid) if whole else grid
        scores = _scores(judge, rank, grid, cells.rows)
        chosen = _chosen(scores, cells.rows)
        left = _contenders(scores, grid)
        cells, ended = _next(grid, cells.rows, chosen, left, whole=whole)
        found += ended
        parts = min(max(_ASKED // max(cells.rows.size, 1), _FEWEST), _MOST)
        grid = np.linspace(cells.low, cells.high, parts, axis=1)
    return tuple(sorted(found, key=lambda change: change.value))


def _scores(judge: Callable[[Floats, Ints], Judged], rank: Ints, grid: Floats, rows: Ints) -> _Scores:
    shape = (*grid.shape, rows.shape[1])
    taken = np.broadcast_to(rows[:, None, :], shape)
    known = taken >= 0
    judged = judge(np.broadcast_to(grid[:, :, None], shape)[known], taken[known])

    def spread(column: Any) -> Floats:
        cells = np.full(shape, np.nan)
        cells[known] = column
        return cells

    return _Scores(
        eligible=spread(judged.eligible) == 1,
        values=[spread(goal.value) for goal in judged.goals],
        over=[spread(goal.over) for goal in judged.goals],
        under=[spread(goal.under) for goal in judged.goals],
        rank=np.where(known, rank[taken], np.inf),
    )


def _chosen(scores: _Scores, rows: Ints) -> Ints:
    """[cells, values]: the eligible row of least goals, then rank; -1 for none."""
    left = scores.eligible
    for score in (*scores.values, scores.rank):
        left = _least(score, left)
    best = np.take_along_axis(rows, left.argmax(axis=2), axis=1)
    return np.where(left.any(axis=2), best, -1)


def _least(score: Floats, left: Bools) -> Bools:
    """Of the rows that are left, those of the least score, and those that only rounding keeps from it."""
    held = np.where(left, score, np.inf)
    least = held.min(axis=2, keepdims=True)
    return left & (held <= least + TIE * np.abs(least))


def _contenders(scores: _Scores, grid: Floats) -> Bools:
    """[cells, values - 1, rows]: which rows may be chosen between two neighbouring values.

    All that are eligible at one end, but those that the same row beats there for certain. A row whose goals at both
    ends are those of a row before it is taken for its twin.
    """
    low, high = slice(None, -1), slice(1, None)
    maybe = scores.eligible[:, low] | scores.eligible[:, high]
    always = scores.eligible[:, low] & scores.eligible[:, high]
    ratio = (grid[:, low] / grid[:, high])[:, :, None]
    moves = np.any([under[:, low] != under[:, high] for under in scores.under], axis=0)
    slack = np.where(moves, ratio, 1.0)
    best, worst = zip(
        *(_bounds(over, under, slack) for over, under in zip(scores.over, scores.under, strict=True)), strict=True
    )
    ranks = scores.rank[:, low]
    surest = always
    for score in (*worst, ranks):
        surest = _least(score, surest)
    at = surest.argmax(axis=2)[:, :, None]
    known = surest.any(axis=2, keepdims=True)
    first, second, rank = (np.take_along_axis(score, at, axis=2) for score in (*worst, ranks))
    later = (best[1] > second * (1 + TIE)) | ((best[1] >= second) & (ranks > rank))
    beaten = (best[0] > first * (1 + TIE)) | ((best[0] >= first) & later)
    twins = always & (ranks > rank)
    for score in scores.values:
        own, its = (score[:, side] for side in (low, high))
        twins &= _equal(own, np.take_along_axis(own, at, axis=2)) & _equal(its, np.take_along_axis(its, at, axis=2))
    return maybe & ~(known & (beaten | twins))


def _equal(one: Floats, other: Floats) -> Bools:
    """Where two scores differ by no more than rounding."""
    return np.isclose(one, other, rtol=TIE, atol=0.0)


def _bounds(over: Floats, under: Floats, slack: Floats) -> tuple[Floats, Floats]:
    """The least and the most that a goal can be between two neighbouring values."""
    first, last = over[:, :-1], over[:, 1:]
    below, above = under[:, :-1], under[:, 1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.fmin(first, last) * slack / np.fmax(below, above)
        most = np.fmax(first, last) / slack / np.fmin(below, above)
    return least, most


def _next(grid: Floats, rows: Ints, chosen: Ints, left: Bools, *, whole: bool) -> tuple[_Cells, list[Change]]:
    """The cells that must be divided again, and the changes that are as narrow as they need be."""
    low, high = grid[:, :-1], grid[:, 1:]
    differ = chosen[:, :-1] != chosen[:, 1:]
    width = high - low
    end = width <= 1 if whole else width <= _NARROW * high
    coarse = width > np.maximum(RESOLUTION * high, 1 if whole else 0)
    ended = [
        Change(value=float(high[at]), before=int(chosen[:, :-1][at]), after=int(chosen[:, 1:][at]))
        for at in zip(*np.nonzero(differ & end), strict=True)
    ]
    settled = left.sum(axis=2) <= 1  # a row that is eligible at one end alone shows, as another choice there
    places = np.nonzero((differ & ~end) | (~differ & ~settled & coarse))
    kept = left[places]
    most = int(kept.sum(axis=1).max(initial=0))
    first = np.argsort(~kept, axis=1, kind="stable")[:, :most]
    taken = np.where(np.take_along_axis(kept, first, axis=1), np.take_along_axis(rows[places[0]], first, axis=1), -1)
    return _Cells(low=low[places], high=high[places], rows=taken), ended
