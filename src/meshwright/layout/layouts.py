"""Layouts go in; the column table comes out: one row a layout, one numpy column a field. One layout is one row."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.traced import values
from meshwright.layout.axes import MESH_AXES
from meshwright.layout.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from meshwright.base.numbers import Ints

_LONGER: Final = 8
"""Values are looked up in a table of all smaller ones while it is not so many times longer than the column."""

APART: Final = "apart"
"""The column that tells a table that is set `apart`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Numbered:
    """A column as numbers: `values[numbers[row]]` is what the row holds. Some of the values may occur in no row."""

    numbers: Ints
    values: tuple[Any, ...]

    def take(self, rows: Any) -> Numbered:
        """The chosen rows."""
        return Numbered(numbers=self.numbers[rows], values=self.values)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layouts:
    """Columns of equal length, in the order of the fields of `Layout`; degrees are int64.

    order: of the axes that multiply ranks, outermost first, for all rows.
    numbered: of those columns that whoever built a long table numbered already, so that nobody compares words again.
    """

    columns: Mapping[str, NDArray[Any]]
    order: tuple[str, ...] = MESH_AXES
    numbered: Mapping[str, Numbered] = field(default_factory=dict[str, Numbered])

    def __len__(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values())))

    def degree(self, axis: str) -> Ints:
        """The column of an axis or of another whole-number field."""
        return self.columns[axis]

    def take(self, rows: Any) -> Layouts:
        """The chosen rows (a mask, or indices), in that order."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        known = {name: column.take(rows) for name, column in self.numbered.items()}
        return Layouts(columns=columns, order=self.order, numbered=known)

    def changed(self, columns: Mapping[str, NDArray[Any]]) -> Layouts:
        """The table with these columns in place of its own; all of them are as long as these."""
        return Layouts(columns={**self.columns, **columns}, order=self.order)

    def values_of(self, name: str) -> Numbered:
        """A column by the distinct values that it holds."""
        known = self.numbered.get(name)
        return numbered(values(self.columns[name])) if known is None else known

    def plain(self) -> Layouts:
        """The same table without traces, for what only decides."""
        plain = {name: values(column) for name, column in self.columns.items()}
        return Layouts(columns=plain, order=self.order, numbered=self.numbered)

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
    return plain.changed(degrees)


def apart(layouts: Layouts) -> Layouts:
    """The same rows, of which none is taken for another: numbers beside the table, as of a system, differ by row."""
    return layouts.changed({APART: np.arange(len(layouts))})


def distinct(layouts: Layouts, fields: Sequence[str]) -> tuple[Layouts, Ints]:
    """One row for each combination of `fields` that occurs, and for every row the number of the one it is like.

    `f(few)[place]` is `f(layouts)` for whatever depends on these fields alone; of the other fields the few rows hold
    what the first row of their kind holds. Of a table that is set `apart` every row stands for itself.
    """
    if APART in layouts.columns:
        return layouts, np.arange(len(layouts))
    keys: Ints = np.zeros(len(layouts), dtype=np.int64)
    count = 1
    for name in fields:
        known = layouts.numbered.get(name)
        own, ways = _places(values(layouts.columns[name])) if known is None else (known.numbers, len(known.values))
        if count * ways > _LONGER * len(layouts):
            keys, count = _places(keys)
        keys, count = (keys * ways + own, count * ways) if ways > 1 else (keys, count)
    keys, count = _places(keys)
    first = np.zeros(count, dtype=np.int64)
    first[keys[::-1]] = np.arange(len(layouts))[::-1]
    return layouts.take(first), keys


def numbered(column: NDArray[Any]) -> Numbered:
    """A column of plain values by those that occur."""
    places, count = _places(column)
    first = np.zeros(count, dtype=np.int64)
    first[places[::-1]] = np.arange(len(column))[::-1]
    return Numbered(numbers=places, values=tuple(column[first].tolist()))


def _places(column: NDArray[Any]) -> tuple[Ints, int]:
    """Each row's value as a number below the count of those that occur, and that count."""
    if column.dtype == np.object_:
        known: dict[Any, int] = {}
        return np.array([known.setdefault(item, len(known)) for item in column.tolist()], dtype=np.int64), len(known)
    whole = column.astype(np.int64, copy=False)
    most = int(whole.max(initial=0))
    if most > _LONGER * len(whole):
        found, places = np.unique(whole, return_inverse=True)
        return places, len(found)
    seen = np.zeros(most + 1, dtype=np.int64)
    seen[whole] = 1
    count = int(seen.sum())
    return (whole if count == len(seen) else (np.cumsum(seen) - 1)[whole]), count


def _column(values: list[Any]) -> NDArray[Any]:
    if values and (values[0] is None or isinstance(values[0], str)):
        return np.array(values, dtype=object)
    return np.array(values, dtype=np.bool_ if values and isinstance(values[0], bool) else np.int64)
