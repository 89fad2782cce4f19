"""Samples of one figure go in; their median, quartiles and count come out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """median, low and high: the quartiles.   count: of samples."""

    median: float
    low: float
    high: float
    count: int

    def times(self, factor: float) -> Spread:
        """The same of a figure that is `factor` of this one."""
        return Spread(median=self.median * factor, low=self.low * factor, high=self.high * factor, count=self.count)


def spread_of(samples: Sequence[float]) -> Spread:
    """Of at least one sample; between two of them as numpy's linear quantiles."""
    low, median, high = np.quantile(np.asarray(samples, dtype=np.float64), (0.25, 0.5, 0.75)).tolist()
    return Spread(median=median, low=low, high=high, count=len(samples))
