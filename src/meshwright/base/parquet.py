"""The path of a Parquet file goes in; its columns of numbers come out. The one file that touches pyarrow."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.errors import FileError, JobError

if TYPE_CHECKING:
    from pathlib import Path

    from meshwright.base.numbers import Floats

_EXTRA: Final = "pip install 'meshwright[results]'"


def read_columns(path: Path) -> dict[str, Floats]:
    """Every column of numbers by name, as float64, which holds whole numbers up to 2^53 exactly.

    Raises IO010 (a file that is missing, or no Parquet), JOB126 (the extra `results` is not installed), JOB127 (a
    column with gaps, or of other things than numbers).
    """
    try:
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError as problem:
        raise JobError(126, f"{path} is Parquet, and the extra results is not installed", _EXTRA) from problem
    try:
        if not path.is_file():
            raise FileError(10, f"cannot read {path}: no such file", "check the path")
        table = parquet.read_table(str(path))
    except (OSError, ValueError) as problem:  # what pyarrow raises for a broken file is one of the two
        raise FileError(10, f"cannot read {path}: {str(problem).splitlines()[0]}", "give a Parquet file") from problem
    return {str(name): _numbers(table.column(name), str(name), path) for name in table.column_names}


def _numbers(column: Any, name: str, path: Path) -> Floats:
    if column.null_count:
        raise JobError(127, f"{path}: column {name} has {column.null_count} gaps", "fill them, or leave the rows out")
    if not len(column):
        return np.zeros(0)
    types: Any = import_module("pyarrow.types")
    if not (types.is_integer(column.type) or types.is_floating(column.type)):
        raise JobError(127, f"{path}: column {name} is {column.type}: no column of numbers", "give whole numbers")
    return np.asarray(column.to_numpy(), dtype=np.float64)
