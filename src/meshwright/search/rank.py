"""Columns of scores go in; the order of the rows, best first, comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshwright.base.numbers import Ints


def order(scores: Sequence[Any], names: Sequence[str]) -> Ints:
    """Row indices by rising scores, the first score first; NaN is last, and ties break by name."""
    by_name = np.argsort(np.argsort(np.array(names, dtype=object), kind="stable"), kind="stable")
    keys = [
        np.where(np.isnan(score), np.inf, score) for score in (np.asarray(item, dtype=np.float64) for item in scores)
    ]
    return np.lexsort([by_name, *reversed(keys)])
