"""A test of whole numbers, one a row, goes in; the largest number of each row that passes comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshwright.base.numbers import Bools, Ints


def largest(holds: Callable[[Ints, Ints], Bools], most: Ints) -> Ints:
    """For each row the largest number from 1 to `most` that holds, or 0; what holds for a number holds below it.

    holds: (numbers, rows) to which of them hold; `rows` are the places in `most`. All rows are halved together, and a
    row that is settled is not asked about again: one whose `most` holds is asked once.
    """
    low, high = np.zeros_like(most), np.maximum(most, 0)  # `low` holds, all above `high` do not
    tried = high
    while True:
        open_rows = np.flatnonzero(low < high)
        if not len(open_rows):
            return low
        asked = tried[open_rows]
        passed = holds(asked, open_rows)
        low[open_rows] = np.where(passed, asked, low[open_rows])
        high[open_rows] = np.where(passed, high[open_rows], asked - 1)
        tried = (low + high + 1) // 2
