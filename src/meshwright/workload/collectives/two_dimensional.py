"""Rings in two dims: reduce_scatter along rows, then along columns; all_gather along columns, then along rows."""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING

from meshwright.workload.collectives._grid import OPERATIONS, Way, along_dims
from meshwright.workload.collectives._shared import any_count, check, check_node, divisor_below

if TYPE_CHECKING:
    from meshwright.workload.programs import Program


def permits(operation: str, ranks: int) -> bool:
    """Any number of ranks: a prime one is a single row."""
    return operation in OPERATIONS and any_count(ranks)


def program(operation: str, ranks: int, *, node_size: int = 0) -> Program:
    """As many bytes as a ring, in rows + columns - 2 rounds that reduce and as many that gather.

    node_size: neighbouring ranks of a row; 0 takes rows and columns as equal as whole numbers allow. Raises COL002,
    COL010, COL012 (a size that does not divide the ranks).
    """
    check("two_dimensional", OPERATIONS, operation, ranks, permitted=permits(operation, ranks))
    row = node_size or ranks // divisor_below(ranks, isqrt(ranks))
    check_node(row, ranks)
    return along_dims(operation, (ranks // row, row), (Way(order=(1, 0), turn=1),))
