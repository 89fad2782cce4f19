"""Ranks on devices: sizes of instances and groups go in; how many instances fit, and who leaves its box, come out.

Ranks of one instance lie on neighbouring devices, tp innermost. An instance no larger than a box never straddles two;
a larger one takes whole boxes. What is left over stays idle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meshwright.base.numbers import divide_up, where

if TYPE_CHECKING:
    from meshwright.base.numbers import Bools, Ints
    from meshwright.layout.layouts import Layouts


def instance_size(layouts: Layouts) -> Ints:
    """Ranks of one replica."""
    size = np.ones(len(layouts), dtype=np.int64)
    for axis in layouts.order:
        size = size * (1 if axis == "replicas" else layouts.degree(axis))
    return size


def instances(size: Ints, nodes: int, devices_per_node: int) -> Ints:
    """How many instances of `size` ranks the boxes hold."""
    inside = nodes * (devices_per_node // size)
    spread = nodes // divide_up(size, devices_per_node)
    return where(size <= devices_per_node, inside, spread)


def axis_stride(layouts: Layouts, axis: str) -> Ints:
    """Distance in rank between neighbours along an axis of the mesh: the product of the axes inside it."""
    stride = np.ones(len(layouts), dtype=np.int64)
    for inner in layouts.order[layouts.order.index(axis) + 1 :]:
        stride = stride * layouts.degree(inner)
    return stride


def leaves_node(layouts: Layouts, axis: str, devices_per_node: int) -> Bools:
    """Whether some group of one replica along the axis has members in more than one box.

    The groups tile the ranks in blocks of stride x degree, so one straddles as soon as a block does.
    """
    layouts, devices_per_node = layouts.plain(), int(devices_per_node)
    degree = layouts.degree(axis)
    block = axis_stride(layouts, axis) * degree
    inside = (block <= devices_per_node) & (devices_per_node % np.minimum(block, devices_per_node) == 0)
    return (degree > 1) & (instance_size(layouts) > devices_per_node) & ~inside


def group_nodes(layouts: Layouts, axis: str, devices_per_node: int) -> Ints:
    """Boxes that the most spread group of one replica along the axis touches."""
    layouts, devices_per_node = layouts.plain(), int(devices_per_node)
    degree, stride = layouts.degree(axis), axis_stride(layouts, axis)
    block = stride * degree
    leaves = leaves_node(layouts, axis, devices_per_node)
    whole = np.where(stride >= devices_per_node, degree, block // devices_per_node)
    touched = np.where(leaves, whole, 1)
    ragged = np.flatnonzero(leaves & (stride < devices_per_node) & (block % devices_per_node != 0))
    if len(ragged):
        blocks = instance_size(layouts)[ragged] // block[ragged]
        touched[ragged] = _most_touched(stride[ragged], block[ragged], blocks, devices_per_node)
    return touched


def _most_touched(stride: Ints, block: Ints, blocks: Ints, devices_per_node: int) -> Ints:
    """Boxes of the most spread group, where boxes do not hold whole blocks: the blocks start anywhere in a box.

    The last group of a block starts latest in its box, unless starts wrap into the next box within one block.
    """
    most = np.ones_like(stride)
    for number in range(min(int(blocks.max()), devices_per_node)):  # starts repeat after a box's worth of blocks
        start = number * block % devices_per_node
        latest = np.where(start + stride >= devices_per_node, devices_per_node - 1, start + stride - 1)
        touched = (latest + block - stride) // devices_per_node + 1
        most = np.where(number < blocks, np.maximum(most, touched), most)
    return most


def joined(layouts: Layouts, outer: str, inner: str) -> Layouts:
    """The mesh with two axes as one, under the name of the outer. With others between them, it lies outside these."""
    both = layouts.degree(outer) * layouts.degree(inner)
    return layouts.changed({outer: both, inner: np.ones(len(layouts), dtype=np.int64)})


def boundaries_outside(layouts: Layouts, devices_per_node: int) -> Ints:
    """How many stage boundaries have, in some copy of the pipeline, a pair of counterparts in different boxes."""
    layouts, devices_per_node = layouts.plain(), int(devices_per_node)
    outside = np.zeros(len(layouts), dtype=np.int64)
    spread = np.flatnonzero((layouts.degree("pp") > 1) & (instance_size(layouts) > devices_per_node))
    stages, stride = layouts.degree("pp")[spread], axis_stride(layouts, "pp")[spread]
    copies = instance_size(layouts)[spread] // (stride * stages)  # blocks of a whole pipeline
    for boundary in range(1, min(int(stages.max(initial=1)), devices_per_node + 1)):
        crosses = np.zeros(len(spread), dtype=np.bool_)
        for copy in range(min(int(copies.max()), devices_per_node)):
            first = (copy * stages + boundary - 1) * stride
            inside = (first + 2 * stride - 1) // devices_per_node == first // devices_per_node
            crosses |= ~inside & (copy < copies)
        # boundaries a box's worth of stages apart are alike
        alike = np.maximum(stages - 1 - boundary + devices_per_node, 0) // devices_per_node
        outside[spread] += np.where(crosses, alike, 0)
    return outside
