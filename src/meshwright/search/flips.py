"""Where does the choice change? A function from values to choices goes in; the values where they change come out.

The function takes many values at once, so a fine grid costs little. Each cell whose ends choose differently is divided
again until it is as narrow as a number allows; a cell that hides a third choice falls apart on the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshwright.base.numbers import Floats, Ints

_PARTS: Final = 513
_NARROW: Final = 1e-11


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """`before` is chosen just below `value`, `after` from it on (just above it, where values are continuous)."""

    value: float
    before: int
    after: int


def changes(choose: Callable[[Floats], Ints], divide: Callable[[Floats], Floats], grid: Floats) -> tuple[Change, ...]:
    """Every change of `choose` that the grid shows, refined. divide: `real` or `whole`, by what values are."""
    found: list[Change] = []
    chosen = choose(grid)
    for left in np.flatnonzero(chosen[1:] != chosen[:-1]).tolist():
        inside = divide(grid[left : left + 2])
        if len(inside) > 2:  # noqa: PLR2004 - the two ends
            found += changes(choose, divide, inside)
        else:
            found.append(Change(value=float(inside[1]), before=int(chosen[left]), after=int(chosen[left + 1])))
    return tuple(found)


def real(ends: Floats) -> Floats:
    """Values between two, evenly; the two alone once they are as close as they need be."""
    low, high = float(ends[0]), float(ends[-1])
    if high - low <= _NARROW * abs(high):
        return ends
    return np.linspace(low, high, _PARTS, dtype=np.float64)


def whole(ends: Floats) -> Floats:
    """Whole numbers between two, evenly; the two alone once nothing lies between them."""
    between: Floats = np.linspace(float(ends[0]), float(ends[-1]), _PARTS, dtype=np.float64)
    return np.unique(np.round(between))
