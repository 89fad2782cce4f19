"""Flows and the links that they cross go in; max-min fair rates of those that move come out, by progressive filling.

All rates rise together; where a link is full, those that cross it stop, and the others rise on. So every flow has a
link that is full and on which none is faster: that is what max-min fair means. Source: Bertsekas and Gallager, "Data
Networks", 2nd edition (1992), section 6.5.2.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshwright.base.numbers import Floats, Ints

    Solver = Callable[[Ints], Floats]

LOG: Final = logging.getLogger(__name__)
COMPILED_FROM: Final = 10_000
"""Crossings from which loading numba is repaid; below it the same function runs as it is (docs/collective-speed.md)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Crossings:
    """What crosses what. Those of flow f are the rows first[f] to first[f + 1].

    link: crossed.   load: how many flows like f cross each link like this one.   capacity_bytes_per_s: of each link.
    """

    first: Ints
    link: Ints
    load: Ints
    capacity_bytes_per_s: Floats


def solver(crossings: Crossings, *, compiled: bool | None = None) -> Solver:
    """A function from the flows that move (numbers, each once, each crossing something) to a rate for each of them.

    compiled: by numba or as it is; None decides by size, and by whether numba (extra `numba`) is installed.
    """
    flows, links = len(crossings.first) - 1, len(crossings.capacity_bytes_per_s)
    order = np.argsort(crossings.link, kind="stable")
    by_first = np.searchsorted(crossings.link[order], np.arange(links + 1))
    flow = np.repeat(np.arange(flows), np.diff(crossings.first))[order]
    if compiled is None:
        compiled = len(crossings.link) >= COMPILED_FROM and find_spec("numba") is not None
    call = _compiled() if compiled else None
    columns = (
        np.asarray(crossings.first, np.int64),
        np.asarray(crossings.link, np.int64),
        np.asarray(crossings.load, np.int64),
        by_first.astype(np.int64),
        flow.astype(np.int64),
        np.asarray(crossings.capacity_bytes_per_s, np.float64),
    )
    scratch = (
        np.zeros(flows),
        np.ones(flows, np.bool_),
        np.zeros(links),
        *(np.zeros(links, np.int64) for _ in range(4)),
    )
    return _on_lists(columns, scratch) if call is None else _on_arrays(call, columns, scratch)


def _on_arrays(call: Callable[..., int], columns: tuple[Any, ...], scratch: tuple[Any, ...]) -> Solver:
    def rates(moving: Ints) -> Floats:
        call(moving, *columns, *scratch)
        return scratch[0][moving]

    return rates


def _on_lists(columns: tuple[Any, ...], scratch: tuple[Any, ...]) -> Solver:
    """`fill` as it is, on lists, which Python reads faster than arrays."""
    lists = tuple(item.tolist() for item in (*columns, *scratch))
    found = lists[len(columns)]

    def rates(moving: Ints) -> Floats:
        flows = moving.tolist()
        fill(flows, *lists)
        return np.array([found[flow] for flow in flows])

    return rates


@cache
def _compiled() -> Callable[..., int] | None:
    """`fill` compiled, and kept on disk for the next process; None, and a warning, where numba does not work."""
    one, real = np.zeros(1, np.int64), np.ones(1)
    offsets = np.array([0, 1])
    for keep in (True, False):
        try:
            import numba  # noqa: PLC0415 - an extra, loaded where a problem repays it

            call = numba.njit(cache=keep)(fill)
            scratch = (real.copy(), np.ones(1, np.bool_), real.copy(), *(np.zeros(1, np.int64) for _ in range(4)))
            call(one, offsets, one, one + 1, offsets, one, real, *scratch)
        except Exception as problem:  # noqa: BLE001 - whatever a foreign compiler raises, there is a twin
            refused = f"{type(problem).__name__}: {problem}".partition("\n")[0]
        else:
            return call
    LOG.warning("numba does not work here (%s): flows are worked out uncompiled, many times slower", refused)
    return None


def fill(  # noqa: C901, PLR0912, PLR0917 - one loop, which numba compiles as a whole
    moving: Any,
    first: Any,
    link: Any,
    load: Any,
    by_first: Any,
    by_flow: Any,
    capacity: Any,
    rate: Any,
    frozen: Any,
    left: Any,
    count: Any,
    rising: Any,
    touched: Any,
    full: Any,
) -> int:
    """Writes `rate` of each flow in `moving`, and returns how often a link became full.

    by_flow: the flows that cross link l are rows by_first[l] to by_first[l + 1].   frozen: true for all, before and
    after.   count: flows that still rise on a link, zero before and after.   The rest is scratch, a place a link.
    """
    links = 0
    for flow in moving:
        frozen[flow] = False
        for row in range(first[flow], first[flow + 1]):
            at = link[row]
            if count[at] == 0:
                left[at] = capacity[at]
                touched[links] = at
                links += 1
            count[at] += load[row]
    for place in range(links):
        rising[touched[place]] = count[touched[place]]
    rest = len(moving)
    levels = 0
    while rest > 0:
        levels += 1
        share = left[touched[0]] / count[touched[0]]
        for place in range(1, links):
            at = touched[place]
            share = min(share, left[at] / count[at])
        filled = 0
        for place in range(links):
            at = touched[place]
            if left[at] <= share * (1 + 1e-12) * count[at]:
                full[filled] = at
                filled += 1
        for place in range(filled):
            for near in range(by_first[full[place]], by_first[full[place] + 1]):
                flow = by_flow[near]
                if frozen[flow]:
                    continue
                frozen[flow] = True
                rate[flow] = share
                rest -= 1
                for row in range(first[flow], first[flow + 1]):
                    count[link[row]] -= load[row]
        kept = 0
        for place in range(links):
            at = touched[place]
            left[at] = max(0.0, left[at] - share * (rising[at] - count[at]))
            rising[at] = count[at]
            if count[at] > 0:
                touched[kept] = at
                kept += 1
        links = kept
    return levels
