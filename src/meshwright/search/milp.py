"""Loads and bins go in; what HiGHS finds and proves comes out. The one file that touches highspy (extra `solver`)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.errors import LayoutError

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints

_NODES: Final = 200
_ROUNDING: Final = 1e-6


def fill(loads: Ints, bins: int, least: int, most: int) -> tuple[Ints | None, int]:
    """The bin of each item with the least load in the fullest, and what it has at least; the same number in each bin.

    least, most: between which the fullest bin is sought. None where nothing was found within a number of nodes; one
    thread and no clock, so the answer is the same on any machine. Raises LAY042 (the extra is not installed).
    """
    try:
        highs: Any = import_module("highspy")
    except ImportError as problem:
        cause = "--placement exact needs the extra solver, and it is not installed"
        raise LayoutError(42, cause, "pip install 'meshwright[solver]', or --placement greedy") from problem
    solver = _quiet(highs)
    _fill_in(highs, solver, loads, bins, (least, most))
    solver.run()
    bound = int(np.ceil(solver.getInfo().mip_dual_bound - _ROUNDING))
    values: Any = np.array(solver.getSolution().col_value)[:-1]
    if len(values) < len(loads) * bins:
        return None, bound
    shares = values.reshape(len(loads), bins)
    found = np.argmax(shares, axis=1)
    whole = bool((np.bincount(found, minlength=bins) == len(loads) // bins).all())
    return (found if whole else None), bound


def _quiet(highs: Any) -> Any:
    """A solver that prints nothing: it greets as soon as it is connected, before its maker could tell it not to."""

    def connect(solver: Any) -> None:
        solver.silent()
        highs.Highs.enableCallbacks(solver)

    solver = type("Quiet", (highs.Highs,), {"enableCallbacks": connect})()
    options = {"output_flag": False, "threads": 1, "random_seed": 0, "mip_max_nodes": _NODES, "mip_rel_gap": 0.0}
    for name, value in options.items():
        solver.setOptionValue(name, value)
    return solver


def _fill_in(highs: Any, solver: Any, loads: Ints, bins: int, between: tuple[int, int]) -> None:
    """Columns: whether item i stands in bin b, then the load of the fullest bin, of which the least is sought.

    Rows: every item stands once, every bin has its number of items and no more load than the fullest. Bins are alike,
    so the largest item stands in the first.
    """
    count, size = len(loads), len(loads) // bins
    fullest = count * bins
    upper = np.ones(fullest)
    first = int(np.argmax(loads)) * bins
    upper[first + 1 : first + bins] = 0.0
    solver.addVars(fullest, np.zeros(fullest), upper)
    solver.addVar(float(between[0]), float(between[1]))
    solver.changeColCost(fullest, 1.0)
    whole = np.array([highs.HighsVarType.kInteger] * fullest)
    solver.changeColsIntegrality(fullest, np.arange(fullest, dtype=np.int32), whole)
    for item in range(count):
        own = np.arange(item * bins, (item + 1) * bins, dtype=np.int32)
        solver.addRow(1.0, 1.0, bins, own, np.ones(bins))
    for each in range(bins):
        own = np.arange(each, fullest, bins, dtype=np.int32)
        solver.addRow(float(size), float(size), count, own, np.ones(count))
        held = np.append(own, np.int32(fullest))
        solver.addRow(-highs.kHighsInf, 0.0, count + 1, held, np.append(loads.astype(np.float64), -1.0))
