"""Axes with the degrees to try go in; every combination that a filter keeps comes out, as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from meshwright.base.numbers import Bools, Ints


def combinations(axes: Mapping[str, Sequence[int]], keep: Callable[[Mapping[str, Ints]], Bools]) -> dict[str, Ints]:
    """The product of the axes, last one fastest, reduced to the rows for which `keep` is True."""
    mesh = np.meshgrid(*(np.array(values) for values in axes.values()), indexing="ij")
    columns = {name: grid.reshape(-1) for name, grid in zip(axes, mesh, strict=True)}
    kept = keep(columns)
    return {name: column[kept] for name, column in columns.items()}


def divisors(number: int) -> tuple[int, ...]:
    """Every divisor, rising."""
    small = [value for value in range(1, int(number**0.5) + 1) if number % value == 0]
    return tuple(sorted({*small, *(number // value for value in small)}))
