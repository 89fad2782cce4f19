"""Columns of scores go in; the order of the rows, best first, comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshwright.base.numbers import Floats, Ints

TIE: Final = 1e-12
"""Scores nearer than this share of them are equal: what is left between them is the rounding of sums."""


def order(scores: Sequence[Any], names: Sequence[str]) -> Ints:
    """Row indices by rising scores, the first score first; NaN is last, and ties (see `TIE`) break by name."""
    by_name = np.argsort(np.argsort(np.array(names, dtype=object), kind="stable"), kind="stable")
    keys = [_levels(np.asarray(item, dtype=np.float64)) for item in scores]
    return np.lexsort([by_name, *reversed(keys)])


def _levels(score: Floats) -> Ints:
    """The place of each score among those that differ: equal scores have one place."""
    score = np.where(np.isnan(score), np.inf, score)
    rising = np.argsort(score, kind="stable")
    held = score[rising]
    with np.errstate(invalid="ignore"):
        above = np.diff(held, prepend=held[:1]) > TIE * np.abs(np.where(np.isinf(held), 0.0, held))
    places = np.empty(len(score), dtype=np.int64)
    places[rising] = np.cumsum(above)
    return places
