"""A site as a whole: the chapter's budgets, reserves at the count in question, and every flip replayed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.base.errors import SystemSpecError
from meshwright.base.parse import set_path
from meshwright.scenarios.rack import RackOptions, rack
from meshwright.system.system import read_system

DGX = read_system("dgx-h100")


def answer(**given):
    return rack(DGX, RackOptions(**{"power": 120e3, **given}))


def test_a_budget_of_120_kw_carries_eleven_boxes():
    """Chapter "Supernodes", section 6.5.2: 64 and 72 devices fit, 96 do not, and three boxes stand in a rack."""
    body = answer(devices=(64, 72, 96)).body
    assert (body["boxes"], body["devices"], body["rack"].boxes, body["rack"].devices) == (11, 88, 3, 24)
    assert [row.power_w for row in body["asked"]] == [81_600.0, 91_800.0, 122_400.0]
    assert [row.fits for row in body["asked"]] == [True, True, False]
    assert (body["rack"].power_w, body["rack"].next_power_w) == (30_600.0, 40_800.0)


def test_a_budget_of_150_kw_in_groups_of_four_rounds_down():
    """Chapter "Supernodes", experiment 6-7: 14 boxes one by one, 12 in groups of four."""
    assert answer(power=150e3).body["boxes"] == 14
    assert answer(power=150e3, grouped=4).body["boxes"] == 12


def test_the_reserve_of_switches_is_that_of_the_count_in_question():
    """At exactly 64 end points there is no second tier; at 72 there is, and its five switches are paid for."""
    at, beyond = answer(devices=(64, 65), switch_power=1_000.0).body["asked"]
    assert (at.tiers, at.switches, at.power_w) == (1, 1, 81_600.0 + 1_000.0)
    assert (beyond.tiers, beyond.switches, beyond.power_w) == (2, 5, 91_800.0 + 5_000.0)


def test_a_second_tier_can_cost_the_box_that_asks_for_it():
    """Nine boxes take 91.8 kW; with five switches of 1 kW they do not stay within 92 kW, and eight with one do."""
    assert answer(power=92e3).body["boxes"] == 9
    assert answer(power=92e3, switch_power=1_000.0).body["boxes"] == 8


def test_a_count_that_is_no_whole_group_does_not_fit():
    assert [row.fits for row in answer(boxes=(4, 5), grouped=4).body["asked"]] == [True, False]


def test_a_box_too_hot_for_a_rack_is_said():
    found = answer(air_limit=10e3)
    assert found.body["racks"] is None
    assert found.verdict.answer == "no"
    assert "one box takes 10.20 kW: --cooling liquid" in found.verdict.text
    assert any("--cooling liquid" in line for line in found.warnings)
    assert answer(cooling="liquid").body["rack"].boxes == 11


def test_media_that_do_not_reach_are_told_apart():
    found = {item.id: item.reaches for item in answer(distance=30.0).body["media"]}
    assert found == {"copper": False, "pluggable-optics": True, "co-packaged-optics": True}
    assert {item.reaches for item in answer().body["media"]} == {None}


@given(
    power=st.floats(1e3, 3e6),
    fixed=st.floats(0, 1e5),
    grouped=st.integers(1, 9),
    switch=st.sampled_from([0.0, 500.0, 3_000.0]),
)
def test_the_answer_is_the_largest_group_within_the_budget(power, fixed, grouped, switch):
    found = answer(power=power, fixed=fixed, grouped=grouped, switch_power=switch).body
    assert found["boxes"] % grouped == 0
    assert not found["boxes"] or found["power_w"] <= power
    more = answer(
        power=power, fixed=fixed, grouped=grouped, switch_power=switch, boxes=(found["boxes"] + grouped,)
    ).body["asked"][0]
    assert more.power_w > power


@settings(max_examples=30)
@given(
    power=st.floats(1e4, 1e6),
    fixed=st.floats(0, 1e4),
    grouped=st.integers(1, 5),
    switch=st.sampled_from([0.0, 2_000.0]),
)
def test_every_flip_happens(power, fixed, grouped, switch):
    options = RackOptions(power=power, fixed=fixed, grouped=grouped, switch_power=switch)
    for flip in rack(DGX, options).flips:
        for factor, side in ((0.999, "from"), (1.001, "to")):
            assert named(flip["parameter"], flip["value"] * factor, options) == flip[side]


def test_what_air_is_held_to_is_nothing_to_a_rack_that_liquid_cools():
    """Chapter "Supernodes", section 6.5.2: the threshold of 40 kW is that of air."""
    found = answer(cooling="liquid")
    assert (found.body["rack"].limit_w, found.body["rack"].boxes) == (120e3, 11)
    assert {flip["parameter"] for flip in found.flips} >= {"power", "rack-limit"}
    assert "air-limit" not in {flip["parameter"] for flip in found.flips}
    small = answer(cooling="liquid", rack_limit=10e3)
    assert "a box of less power, or a measured limit (--rack-limit)" in small.verdict.text


def named(parameter, watts, options):
    if parameter == "system.node_power":
        body = rack(set_path(DGX, "node_power", f"{watts!r} W"), options).body
    else:
        body = rack(DGX, replace(options, **{parameter.replace("-", "_"): watts})).body
    if not body["boxes"]:
        return None
    return f"boxes={body['boxes']}" + ("" if body["racks"] is None else f",racks={body['racks']}")


def test_a_budget_has_a_flip_on_either_side():
    found = [flip for flip in answer().flips if flip["parameter"] == "power"]
    assert [flip["value"] for flip in found] == [112_200.0, 122_400.0]


@pytest.mark.parametrize(
    ("given", "number"),
    [
        ({"power": 0.0}, "SYS030"),
        ({"power": 2e12}, "SYS030"),
        ({"air_limit": 0.0}, "SYS030"),
        ({"box_price": -1.0, "switch_price": 0.0}, "SYS030"),
        ({"box_price": 1.0}, "SYS030"),
        ({"switch_price": 1.0}, "SYS030"),
        ({"grouped": 0}, "SYS031"),
        ({"radix": 5}, "SYS031"),
        ({"radix": 2}, "SYS031"),
        ({"devices": (0,)}, "SYS031"),
        ({"boxes": (1,) * 65}, "SYS031"),
        ({"power": 1e11}, "SYS031"),
        ({"power": 1e9, "radix": 4}, "SYS031"),
        ({"cooling": "water"}, "SYS002"),
        ({"cooling": "liquid", "air_limit": 40e3}, "SYS040"),
        ({"rack_limit": 40e3, "air_limit": 40e3}, "SYS040"),
        ({"rack_limit": 0.0}, "SYS030"),
    ],
)
def test_what_no_site_has_is_refused_by_code(given, number):
    with pytest.raises(SystemSpecError) as caught:
        answer(**given)
    assert caught.value.code == number
    assert caught.value.fix


def test_a_box_whose_power_is_not_known_is_refused():
    with pytest.raises(SystemSpecError) as caught:
        rack(read_system("rtx4090-host"), RackOptions(power=1e5))
    assert caught.value.code == "SYS011"
