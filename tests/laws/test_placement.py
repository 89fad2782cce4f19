"""Ranks on devices: columns against a map of every rank to its box."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.layout.axes import PIPELINE_OUTSIDE, SHARD_AXIS
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.layout.mesh import coordinates, groups, rank_of
from meshwright.layout.placement import boundaries_outside, group_nodes, instance_size, instances, joined, leaves_node

AXES = ("dp_replicate", "dp_shard", "pp", "cp", "tp")
DEVICES = st.sampled_from([1, 2, 3, 4, 5, 6, 8, 9])


@st.composite
def instance_layouts(draw) -> Layout:
    """One instance of any degrees."""
    degrees = {axis: draw(st.integers(1, 3)) for axis in ("dp_replicate", "dp_shard", "cp")}
    return Layout(**degrees, pp=draw(st.integers(1, 6)), tp=draw(st.integers(1, 9)))


def node_of(rank: int, size: int, devices: int) -> int:
    """The box of a rank: inside one box when the instance fits one, else whole boxes from the first rank on."""
    return 0 if size <= devices else rank // devices


@settings(max_examples=200)
@given(layout=instance_layouts(), axis=st.sampled_from(AXES), devices=DEVICES)
def test_groups_leave_their_box_as_the_map_of_ranks_says(layout, axis, devices):
    touched = [len({node_of(rank, layout.world_size, devices) for rank in group}) for group in groups(layout, axis)]
    assert int(group_nodes(table([layout]), axis, devices)[0]) == max(touched)
    assert bool(leaves_node(table([layout]), axis, devices)[0]) == (max(touched) > 1)


@settings(max_examples=200)
@given(layout=instance_layouts(), devices=DEVICES)
def test_ranks_that_share_state_touch_boxes_as_the_map_of_ranks_says(layout, devices):
    """In the order of a trainer: a rank's number is that without stages, and stages lie outside."""
    stage = layout.world_size // layout.pp
    alone = groups(replace(layout, pp=1), SHARD_AXIS)
    touched = [
        len({node_of(rank + outer * stage, layout.world_size, devices) for rank in group})
        for group in alone
        for outer in range(layout.pp)
    ]
    rows = joined(replace(table([layout]), order=PIPELINE_OUTSIDE), "dp_shard", "cp")
    assert int(group_nodes(rows, "dp_shard", devices)[0]) == max(touched)


@settings(max_examples=200)
@given(layout=instance_layouts(), devices=DEVICES)
def test_stage_boundaries_cross_boxes_as_the_map_of_ranks_says(layout, devices):
    size = layout.world_size
    crossing = set()
    for rank in range(size):
        place = coordinates(layout, rank)
        if place["pp"] + 1 < layout.pp:
            counterpart = rank_of(layout, place | {"pp": place["pp"] + 1})
            if node_of(rank, size, devices) != node_of(counterpart, size, devices):
                crossing.add(place["pp"])
    assert int(boundaries_outside(table([layout]), devices)[0]) == len(crossing)


@settings(max_examples=200)
@given(size=st.integers(1, 40), nodes=st.integers(1, 9), devices=st.integers(1, 12))
def test_as_many_instances_fit_as_can_be_laid_without_straddling(size, nodes, devices):
    free = [devices] * nodes
    laid = 0
    while True:
        taken = min(size, devices)
        boxes = [box for box, left in enumerate(free) if left >= taken][: -(-size // devices)]
        if len(boxes) < -(-size // devices):
            break
        for box in boxes:
            free[box] = free[box] - size if size <= devices else 0
        laid += 1
    assert int(instances(np.array([size]), nodes, devices)[0]) == laid


@given(layout=instance_layouts(), replicas=st.integers(1, 5))
def test_an_instance_is_what_remains_of_the_world_without_replicas(layout, replicas):
    rows = table([Layout(**{axis: getattr(layout, axis) for axis in AXES}, replicas=replicas)])
    assert int(instance_size(rows)[0]) == layout.world_size
