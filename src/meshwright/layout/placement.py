"""Ranks on devices: sizes of instances and groups go in; how many instances fit, and which groups leave their box, come out.

Ranks of one instance lie on neighbouring devices, tp innermost. An instance no larger than a box never straddles two;
a larger one takes whole boxes. What is left over stays idle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meshwright.layout.axes import MESH_AXES

if TYPE_CHECKING:
    from meshwright.base.numbers import Bools, Ints
    from meshwright.layout.layouts import Layouts


def instance_size(layouts: Layouts) -> Ints:
    """Ranks of one replica."""
    size = np.ones(len(layouts), dtype=np.int64)
    for axis in MESH_AXES[1:]:
        size = size * layouts.degree(axis)
    return size


def instances(size: Ints, nodes: int, devices_per_node: int) -> Ints:
    """How many instances of `size` ranks the boxes hold."""
    inside = nodes * (devices_per_node // size)
    spread = nodes // -(-size // devices_per_node)
    return np.where(size <= devices_per_node, inside, spread)


def axis_stride(layouts: Layouts, axis: str) -> Ints:
    """Distance in rank between neighbours along an axis: the product of the axes inside it."""
    stride = np.ones(len(layouts), dtype=np.int64)
    for inner in MESH_AXES[MESH_AXES.index(axis) + 1 :]:
        stride = stride * layouts.degree(inner)
    return stride


def leaves_node(layouts: Layouts, axis: str, devices_per_node: int) -> Bools:
    """Whether some group along the axis has members in more than one box."""
    degree = layouts.degree(axis)
    block = axis_stride(layouts, axis) * degree
    fits = (devices_per_node % np.minimum(block, devices_per_node) == 0) & (block <= devices_per_node)
    return (degree > 1) & (instance_size(layouts) > devices_per_node) & ~fits


def group_nodes(layouts: Layouts, axis: str, devices_per_node: int) -> Ints:
    """Boxes that the most spread group along the axis touches."""
    degree = layouts.degree(axis)
    block = axis_stride(layouts, axis) * degree
    spread = np.minimum(degree, np.maximum(2, -(-block // devices_per_node)))
    return np.where(leaves_node(layouts, axis, devices_per_node), spread, 1)
