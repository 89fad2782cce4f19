"""Layouts go in; the column table comes out: one row a layout, one numpy column a field. One layout is one row."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from meshwright.base.traced import values
from meshwright.layout.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from meshwright.base.numbers import Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layouts:
    """Columns of equal length, in the order of the fields of `Layout`; degrees are int64."""

    columns: Mapping[str, NDArray[Any]]

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.columns["tp"])

    def degree(self, axis: str) -> Ints:
        """The column of an axis or of another whole-number field."""
        return self.columns[axis]

    def take(self, rows: Any) -> Layouts:
        """The chosen rows (a mask, or indices), in that order."""
        return Layouts(columns={name: column[rows] for name, column in self.columns.items()})

    def plain(self) -> Layouts:
        """The same table without traces, for what only decides."""
        return Layouts(columns={name: values(column) for name, column in self.columns.items()})

    def rows(self) -> tuple[Layout, ...]:
        """Every row as a `Layout`, in order."""
        names = tuple(self.columns)
        cells = zip(*(column.tolist() for column in self.columns.values()), strict=True)
        return tuple(Layout(**dict(zip(names, values, strict=True))) for values in cells)

    def row(self, index: int) -> Layout:
        """One row as a `Layout`."""
        return Layout(**{name: column[index : index + 1].tolist()[0] for name, column in self.columns.items()})


def table(layouts: Sequence[Layout]) -> Layouts:
    """Layouts as columns."""
    names = [item.name for item in fields(Layout)]
    return Layouts(columns={name: _column([getattr(layout, name) for layout in layouts]) for name in names})


def columns(degrees: Mapping[str, Ints]) -> Layouts:
    """A table from some columns; every other field holds its default."""
    count = len(next(iter(degrees.values())))
    plain = table([Layout()]).take(np.zeros(count, dtype=np.int64))
    return Layouts(columns={**plain.columns, **degrees})


def _column(values: list[Any]) -> NDArray[Any]:
    if values and (values[0] is None or isinstance(values[0], str)):
        return np.array(values, dtype=object)
    return np.array(values, dtype=np.bool_ if values and isinstance(values[0], bool) else np.int64)
