"""A run of nccl-tests goes in; the operation that it may have been, by its columns and rates, comes out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from meshwright.cost.collectives import busbw_factor
from meshwright.system.nccl_tests import PROGRAMS

if TYPE_CHECKING:
    from meshwright.system.nccl_tests import Line, Measurement

_ROUNDING: Final = 0.06
"""Of a rate that is printed with two decimals, between 0.1 and 1 GB/s."""


def operations_of(found: Measurement, ranks: int) -> tuple[str, ...]:
    """Operations that the columns and the ratio of busbw to algbw allow; all that are known where no row tells."""
    largest = max(found.lines, key=lambda line: line.size)
    timed = largest.out_of_place or largest.in_place
    names = [name for name in PROGRAMS.values() if _columns_allow(name, largest)]
    if timed is None or not timed.algbw:
        return tuple(names)
    ratio = timed.busbw / timed.algbw
    return tuple(name for name in names if math.isclose(busbw_factor(name, ranks), ratio, rel_tol=_ROUNDING))


def _columns_allow(operation: str, line: Line) -> bool:
    """What redop and root say: sums have an operator, broadcast and reduce a root."""
    if line.redop is None:
        return True
    sums = line.redop not in {"none", ""}
    rooted = line.root is not None and line.root >= 0
    return sums == (operation in {"all_reduce", "reduce_scatter", "reduce"}) and (
        line.root is None or rooted == (operation in {"broadcast", "reduce"})
    )
