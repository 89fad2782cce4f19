"""Tiers, switches, racks and watts as columns: staircases that never fall, and their corners."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.cost.racks import (
    boxes_per_rack,
    in_groups,
    installed_price,
    installed_w,
    switch_count,
    switch_tiers,
)
from meshwright.system.fabric import read_topology
from meshwright.system.levels import reached_count


def tiers(*points, radix=64):
    return switch_tiers(np.array(points), radix).tolist()


def switches(*points, radix=64):
    return switch_count(np.array(points), radix).tolist()


def test_the_sixty_fifth_end_point_needs_the_next_tier():
    """Chapter "Supernodes", section 6.5.2."""
    assert tiers(0, 1, 64, 65, 2048, 2049, 65536, 65537) == [0, 1, 1, 2, 2, 3, 3, 4]
    assert switches(0, 1, 64, 65) == [0, 1, 1, 5]


def test_two_tiers_have_half_as_many_spines_as_leaves():
    """Chapter "Supernodes", section 6.5.1: P / (R / 2) leaves, and half as many spines."""
    assert switches(128, 2048) == [4 + 2, 64 + 32]


def test_a_full_tree_of_three_tiers_has_five_quarters_of_the_radix_squared():
    """A fat tree of radix k: k^2 / 2 leaves and as many above them, k^2 / 4 on top."""
    assert switches(8**3 // 4, radix=8) == [5 * 8**2 // 4]


@given(half=st.integers(2, 12), data=st.data())
def test_a_fat_tree_is_built_of_the_switches_that_a_rack_counts(half, data):
    """96 end points of radix 40: 5 leaves, and the 3 spines that hold their 100 lines."""
    radix = 2 * half
    points = data.draw(st.integers(2, min(600, reached_count(3, radix))))
    assert read_topology(f"fat-tree:{points},radix={radix}").chips.sum() == switches(points, radix=radix)[0]
    assert read_topology("fat-tree:96,radix=40").chips.sum() == switches(96, radix=40)[0] == 8


def test_flows_that_take_a_spine_each_need_as_many_lines_to_every_one():
    """20 lines of a leaf cannot be shared evenly by 3 spines, and can by 4."""
    assert read_topology("fat-tree:96,radix=40,routing=ecmp").chips.sum() == 5 + 4


@given(points=st.integers(0, 100_000), half=st.integers(2, 64))
def test_switches_and_tiers_never_fall_as_end_points_are_added(points, half):
    radix = 2 * half
    if points + 1 > reached_count(4, radix):
        return
    for column in (switch_tiers, switch_count):
        fewer, more = column(np.array([points, points + 1]), radix).tolist()
        assert fewer <= more


@given(points=st.integers(2, 100_000), half=st.integers(8, 64))
def test_the_ports_of_a_tier_hold_the_end_points_and_the_links_upwards(points, half):
    """Every tier but the top one has as many ports down as up; all together hold all links."""
    radix = 2 * half
    count, levels = switches(points, radix=radix)[0], tiers(points, radix=radix)[0]
    assert count * radix >= points + 2 * points * (levels - 1)


@given(boxes=st.integers(0, 10**6), grouped=st.integers(1, 1000))
def test_groups_round_down_to_less_than_a_group_below(boxes, grouped):
    kept = in_groups(boxes, grouped)
    assert kept % grouped == 0
    assert 0 <= boxes - kept < grouped


def test_watts_and_money_are_sums_of_their_parts():
    assert installed_w(500.0, 8, 10_200.0, 5, 1_000.0) == 500.0 + 81_600.0 + 5_000.0
    assert installed_price(8, 300.0, 5, 20.0) == 2_500.0


@pytest.mark.parametrize(("limit", "boxes"), [(40e3, 3), (40.8e3, 4), (30.6e3, 3), (10.1e3, 0)])
def test_a_rack_holds_the_whole_boxes_of_its_limit(limit, boxes):
    """Chapter "Supernodes", section 6.5.2."""
    assert boxes_per_rack(limit, 10.2e3) == boxes
