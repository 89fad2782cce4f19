"""A `Result` goes in; one table as CSV (RFC 4180) comes out: the candidates, the items, the rows, or else the fields.

Of an explained number: its formulas, then its inputs, a row each. Names are the paths of the JSON document
(`memory.per_rank_bytes`), units at their end; numbers keep every digit. An empty cell is null, true and false are
words, and a list within a cell is JSON.
"""

from __future__ import annotations

import csv
import json
from dataclasses import fields
from io import StringIO
from typing import TYPE_CHECKING, Final, cast

from meshwright.base.leaves import cells, leaves, records
from meshwright.base.result import Excluded, as_json, plain
from meshwright.output.columns import FORMULA_COLUMNS, INPUT_COLUMNS
from meshwright.output.expressions import EXACT, formulas, inputs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from meshwright.base.result import Json, Result

_TABLES: Final = ("items", "schedules", "changes", "answer", "saves", "intervals", "rows")
"""Blocks of a verb that are its table, when they hold rows."""
_TABLE_OF: Final = {
    "experts": ("layers",),
    "pool": ("regions",),
    "rack": ("steps",),
    "run train": ("steps",),
    "topology": ("links",),
    "verify parity": ("layouts",),
}
"""Of verbs whose block is called as others call another."""


def as_csv(result: Result) -> str:
    """The table, its header first; every line but the last ends in CR LF. A table without rows is an empty line."""
    rows = _rows(result)
    names = _names(rows)
    return _written([names, *([_cell(row.get(name)) for name in names] for row in rows)])


def _rows(result: Result) -> Sequence[Mapping[str, Json]]:
    body = cast("dict[str, Json]", plain(result.body))
    if result.command == "explain":
        return _explained(result)
    if result.candidates:
        return [cells(_whole(item)) for item in cast("list[dict[str, Json]]", as_json(result)["candidates"])]
    for name in _TABLE_OF.get(result.command, _TABLES):
        if body.get(name) == [] or records(body.get(name)):
            return [cells(item) for item in records(body[name]) or ()]
    return [{"field": path, "value": value} for path, value in leaves(body).items()]


def _explained(result: Result) -> list[dict[str, Json]]:
    """The formulas of an explained number with every digit, then its inputs."""
    names = ("kind", "name", "formula", "values", "value", "basis", "source")
    tables = (
        ("formula", FORMULA_COLUMNS, formulas(result, EXACT)),
        ("input", INPUT_COLUMNS, inputs(result)),
    )
    return [
        dict.fromkeys(names) | {"kind": kind, **{column.name: column.value(row) for column in columns}}
        for kind, columns, rows in tables
        for row in rows
    ]


def _whole(candidate: Mapping[str, Json]) -> dict[str, Json]:
    """A candidate with the fields of `excluded` even where nothing excludes it, so that each table has them."""
    empty: dict[str, Json] = {item.name: None for item in fields(Excluded)}
    return {**candidate, "excluded": candidate["excluded"] or empty}


def _names(rows: Sequence[Mapping[str, Json]]) -> list[str]:
    """Every column, in order; a block that is null in some rows has the columns of the others."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    blocks = {name.rsplit(".", depth)[0] for name in names for depth in range(1, name.count(".") + 1)}
    return [name for name in names if name not in blocks]


def _cell(value: Json) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _written(rows: Iterable[Sequence[str]]) -> str:
    stream = StringIO(newline="")
    csv.writer(stream, lineterminator="\r\n").writerows(rows)
    return stream.getvalue().removesuffix("\r\n")
