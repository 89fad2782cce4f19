"""Columns of goals go in; the rows that no other row beats in all of them come out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshwright.base.numbers import Ints


def front(goals: Sequence[Any]) -> Ints:
    """The rows that no other row equals or exceeds in every goal, best in the first goal first; more is better.

    Of rows that are equal in all goals the first stands for them. A row with a NaN is on no front.
    """
    table = np.stack([np.asarray(goal, dtype=np.float64) for goal in goals])
    known = np.flatnonzero(~np.isnan(table).any(axis=0))
    left = known[np.lexsort([*-table[::-1, known]])]
    found: list[int] = []
    while len(left):
        best = left[0]  # what remains exceeds it nowhere in the first goal, and no row before it beats it in all
        found.append(int(best))
        left = left[(table[:, left] > table[:, [best]]).any(axis=0)]
    return np.array(found, dtype=np.int64)
