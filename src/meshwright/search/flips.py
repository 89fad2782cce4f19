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

PARTS: Final = 257
_NARROW: Final = 1e-10


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """`before` is chosen just below `value`, `after` from it on (just above it, where values are continuous)."""

    value: float
    before: int
    after: int


def changes(choose: Callable[[Floats], Ints], divide: Callable[[Floats], Floats], grid: Floats) -> tuple[Change, ...]:
    """Every change of `choose` that the grid shows, by value. divide: `real` or `whole`, by what values are.

    All cells of one depth are asked about together.
    """
    found: list[Change] = []
    cells = [grid]
    while cells:
        ends = np.cumsum([len(cell) for cell in cells])
        chosen = np.split(choose(np.concatenate(cells)), ends[:-1])
        deeper: list[Floats] = []
        for cell, own in zip(cells, chosen, strict=True):
            for left in np.flatnonzero(own[1:] != own[:-1]).tolist():
                inside = divide(cell[left : left + 2])
                if len(inside) > 2:  # noqa: PLR2004 - the two ends
                    deeper.append(inside)
                else:
                    found.append(Change(value=float(inside[1]), before=int(own[left]), after=int(own[left + 1])))
        cells = deeper
    return tuple(sorted(found, key=lambda change: change.value))


def real(ends: Floats, parts: int = PARTS) -> Floats:
    """`parts` values from one to the other, evenly; the two alone once they are as close as they need be."""
    low, high = float(ends[0]), float(ends[-1])
    if high - low <= _NARROW * abs(high):
        return ends
    return np.linspace(low, high, parts, dtype=np.float64)


def whole(ends: Floats, parts: int = PARTS) -> Floats:
    """Whole numbers from one to the other, evenly; the two alone once nothing lies between them."""
    between: Floats = np.linspace(float(ends[0]), float(ends[-1]), parts, dtype=np.float64)
    return np.unique(np.round(between))
