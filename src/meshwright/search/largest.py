"""A value that rises with whole numbers, and its bound, one a row, go in; the largest numbers within come out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshwright.base.numbers import Floats, Ints

_TURNS: Final = 3


def largest(value: Callable[[Ints, Ints], Floats], bound: Any, most: Ints) -> Ints:
    """For each row the largest number from 1 to `most` whose value is at most `bound` (one, or a column), or 0.

    value: numbers, and the places of their rows in `most`, to what each row has there. All rows are asked together, and
    one that is settled no more: one that is within its bound at `most` is asked once. Between a number within and one
    beyond, the next is where a straight line meets the bound; every third halves, so that a bent line ends soon too.
    """
    limit: Floats = np.broadcast_to(np.asarray(bound, dtype=np.float64), most.shape)
    within, beyond = np.zeros_like(most), most + 1
    value_within, value_beyond = np.full(most.shape, np.nan), np.full(most.shape, np.nan)
    turn = 0
    while True:
        rows = np.flatnonzero(beyond - within > 1)
        if not len(rows):
            return within
        first, last = within[rows], beyond[rows]
        asked = _between(first, last, value_within[rows], value_beyond[rows], limit[rows], halve=turn % _TURNS == 0)
        asked = last - 1 if turn == 0 else asked
        found = value(asked, rows)
        keeps = found <= limit[rows]
        within[rows], beyond[rows] = np.where(keeps, asked, first), np.where(keeps, last, asked)
        value_within[rows] = np.where(keeps, found, value_within[rows])
        value_beyond[rows] = np.where(keeps, value_beyond[rows], found)
        turn += 1


def _between(first: Ints, last: Ints, low: Floats, high: Floats, limit: Floats, *, halve: bool) -> Ints:
    """A number strictly between two: in the middle, or where the line through both values meets the limit.

    Where nothing is known of the lower end, the least number.
    """
    line = (limit - low) / np.where(high > low, high - low, np.nan)
    line = np.where(np.isnan(low), 0.0, np.where(np.isfinite(line), line, 0.5))
    share = np.full(first.shape, 0.5) if halve else line
    return np.clip(first + ((last - first) * np.clip(share, 0.0, 1.0)).astype(np.int64), first + 1, last - 1)
