"""A system, layouts and an axis go in; the groups along it come out: their ranks, the boxes they touch, two links.

Near is the link of a device inside its box. Far is a device's share of the NICs of its box: a collective that leaves
the box runs over all NICs of the group's members there, as libraries do that lay one channel through each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from meshwright.base.numbers import maximum, minimum, where
from meshwright.base.traced import values
from meshwright.layout.placement import group_nodes

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints
    from meshwright.layout.layouts import Layouts
    from meshwright.system.system import System

Nic: TypeAlias = Literal["own", "shared"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """What a message pays: seconds to start, one-way bytes a second. Numbers of any kind, or columns, one a group."""

    latency_s: Any
    bandwidth_bytes_per_s: Any

    def beside(self) -> Rate:
        """As a column beside a second dim, where it is one."""
        columns = (self.latency_s, self.bandwidth_bytes_per_s)
        latency, bandwidth = (item[:, None] if np.ndim(item) else item for item in columns)
        return Rate(latency_s=latency, bandwidth_bytes_per_s=bandwidth)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Group:
    """Columns of one group a layout. nodes: boxes touched.   far: of one member.

    shapes: the pairs (ranks, boxes) that occur.   shape: of each row the place of its pair among them.
    """

    ranks: Ints
    nodes: Ints
    near: Rate
    far: Rate
    shapes: tuple[tuple[int, int], ...]
    shape: Ints

    def beside(self) -> Group:
        """The same groups as a column beside a second dim."""
        return replace(
            self,
            ranks=self.ranks[:, None],
            nodes=self.nodes[:, None],
            shape=self.shape[:, None],
            near=self.near.beside(),
            far=self.far.beside(),
        )


def group_of(ranks: Ints, nodes: Ints, near: Rate, far: Rate) -> Group:
    """Groups of columns of ranks and boxes; no group touches more boxes than it has ranks."""
    sizes, of_size = _distinct(values(ranks))
    boxes, of_boxes = _distinct(np.minimum(values(nodes), values(ranks)))
    pairs, shape = _distinct(of_size * len(boxes) + of_boxes)
    shapes = tuple((int(sizes[pair // len(boxes)]), int(boxes[pair % len(boxes)])) for pair in pairs.tolist())
    return Group(ranks=ranks, nodes=nodes, near=near, far=far, shapes=shapes, shape=shape)


def lone_group(ranks: int, latency_s: Any, bandwidth_bytes_per_s: Any) -> Group:
    """One row: a group in one box."""
    rate = Rate(latency_s=latency_s, bandwidth_bytes_per_s=bandwidth_bytes_per_s)
    return group_of(np.array([ranks], dtype=np.int64), np.ones(1, dtype=np.int64), rate, rate)


def group_along(system: System, layouts: Layouts, axis: str, nic: Nic, link: float = 1.0) -> Group:
    """The groups along an axis.

    nic: `own` shares the NICs of a box evenly among its devices; `shared` gives all of them one.   link: what part of
    their bandwidth links reach. Source: chapter "Training systems", sections 10.3.3 and 10.6.2.
    """
    nodes = group_nodes(layouts, axis, system.devices_per_node)
    return group_of(layouts.degree(axis), nodes, *rates(system, nic, link))


def block_nodes(system: System, layouts: Layouts, width: Ints) -> Ints:
    """Boxes that `width` neighbours of a stage touch, whose copies lie as the mesh orders them.

    Of the copies, dp_shard alone is the axis along which they follow each other.
    """
    inner: Any = layouts.degree("cp") * layouts.degree("tp")
    outer = layouts.changed({"dp_shard": maximum(width // inner, 1)})
    near = layouts.changed({"tp": minimum(width, inner), "cp": np.ones(len(layouts), dtype=np.int64)})
    nodes = (group_nodes(outer, "dp_shard", system.devices_per_node), group_nodes(near, "tp", system.devices_per_node))
    return where(width > inner, *nodes)


def rates(system: System, nic: Nic, link: float = 1.0) -> tuple[Rate, Rate]:
    """Near and far of a system; without NICs, where no group leaves its box, far is near."""
    inside: Any = system.scale_up
    near = Rate(latency_s=inside.latency, bandwidth_bytes_per_s=inside.bandwidth * link)
    if system.scale_out is None or not system.nics_per_node:
        return near, near
    nics: Any = system.nics_per_node if nic == "own" else 1
    outside: Any = system.scale_out.bandwidth
    latency: Any = maximum(inside.latency, system.nic_latency)
    return near, Rate(latency_s=latency, bandwidth_bytes_per_s=outside * nics / system.devices_per_node * link)


def _distinct(column: Ints) -> tuple[Ints, Ints]:
    """The whole numbers of a column, ascending, and of each row the place of its own; without sorting the rows."""
    seen = np.zeros(int(column.max(initial=0)) + 1, dtype=np.bool_)
    seen[column] = True
    found = np.flatnonzero(seen)
    place = np.zeros(len(seen), dtype=np.int64)
    place[found] = np.arange(len(found))
    return found, place[column]
