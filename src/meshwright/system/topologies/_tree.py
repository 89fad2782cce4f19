"""Levels of switches go in; a network comes out in which each vertex has one link up, routed up and down by arithmetic.

A level of a Clos network whose traffic is sprayed evenly over all its chips is one vertex of many chips, so the whole
network is a tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from meshwright.system.routing import NONE, by_columns
from meshwright.system.wiring import Edges, assembled, switches, tree_halves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshwright.base.numbers import Bools, Floats, Ints
    from meshwright.system.graph import Fabric, Routes
    from meshwright.system.wiring import Section


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Level:
    """Switches above the vertices below, and the links up to them.

    above: of each vertex below (devices first, then what stands beside them) its switch here.   count, chips: vertices
    of this level, chips of each.   bandwidth, latency, cables: of each link up.
    """

    word: str
    above: Ints
    count: int
    chips: int
    bandwidth: float | Floats
    latency: float
    cables: int | Ints
    box: int | Ints = -1


def tree(title: str, far: Bools, leaves: Sequence[Section], levels: Sequence[Level]) -> Fabric:
    """The network. leaves: the devices, and what else hangs on the first level.   far: devices of the later half.

    A switch may be an end of a route as well as a device.
    """
    below = np.cumsum([0, sum(item.count for item in leaves), *(level.count for level in levels)])
    edges = [
        Edges(
            one=start + np.arange(len(level.above)),
            other=end + level.above,
            bandwidth=level.bandwidth,
            latency=level.latency,
            cables=level.cables,
        )
        for level, start, end in zip(levels, below[:-1], below[1:], strict=False)
    ]
    parent = np.concatenate([item.other for item in edges])
    widths = np.concatenate(
        [np.broadcast_to(np.asarray(item.bandwidth, dtype=np.float64), len(item.one)) for item in edges]
    )
    sections = [*leaves, *(switches(item.word, item.count, item.chips, item.box) for item in levels)]
    halves = tree_halves(far, parent, widths, roots=levels[-1].count)
    height = np.repeat(np.arange(len(below) - 1), np.diff(below))
    above = np.concatenate([parent, np.full(levels[-1].count, NONE)])

    def route(sender: Ints, receiver: Ints) -> Routes:
        ups: list[Ints] = []
        downs: list[Ints] = []
        source, target = np.asarray(sender), np.asarray(receiver)
        for level in range(len(levels)):
            apart = source != target
            rise, sink = apart & (height[source] == level), apart & (height[target] == level)
            ups.append(np.where(rise, 2 * source, NONE))
            downs.append(np.where(sink, 2 * target + 1, NONE))
            source, target = np.where(rise, above[source], source), np.where(sink, above[target], target)
        return by_columns(*ups, *reversed(downs))

    return assembled(title, sections, edges, route, halves)
