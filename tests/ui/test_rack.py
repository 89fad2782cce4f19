"""`meshwright rack` as a user meets it: the chapter's budget, its picture, and what it refuses."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from tests.ui.program import answer_of, meshwright

LINE = ("rack", "--on", "dgx-h100", "--power", "120kW")


def test_the_chapters_budget_is_answered_in_its_first_line():
    """Chapter "Supernodes", section 6.5.2."""
    found = meshwright(*LINE)
    assert found.code == 0
    assert found.out.startswith("yes: 11 boxes, 88 devices: 112.20 kW of 120.00 kW; 3 boxes a rack, 4 racks by air")


def test_a_count_beyond_the_budget_is_a_no():
    answer = answer_of(*LINE, "--devices", "64,72,96", code=1)
    assert answer["verdict"]["text"].endswith("96 devices in 12 boxes do not fit")
    assert [row["fits"] for row in answer["asked"]] == [True, True, False]


def test_cards_alone_do_not_decide():
    """171 cards of 0.7 kW would stay within 120 kW; the boxes around them do not."""
    answer = answer_of(*LINE)
    assert answer["devices"] == 88
    assert answer["device_power_w"] * 171 < 120e3 < answer["node_power_per_device_w"] * 96


def test_the_label_of_the_budget_does_not_lie_on_that_of_the_largest_step(tmp_path):
    file = tmp_path / "rack.svg"
    answer_of(*LINE, "--svg", str(file))
    root = ET.fromstring(file.read_text())  # noqa: S314 - our own text
    labels = [(float(item.get("x")), float(item.get("y"))) for item in root.iter("{*}text")]
    assert not [1 for x, y in labels for other, below in labels if x == other and 0 < abs(y - below) < 11]


def test_the_picture_has_a_bar_for_every_step_and_pale_ones_beyond_the_budget(tmp_path):
    file = tmp_path / "rack.svg"
    answer = answer_of(*LINE, "--svg", str(file))
    root = ET.fromstring(file.read_text())  # noqa: S314 - our own text
    bars = root.findall("{*}g")
    panels = ("devices", "power", "racks", "switches")
    assert [sum(bar.get("class") == name for bar in bars) for name in panels] == [len(answer["steps"])] * 4
    pale = [bar for bar in bars if bar.find("{*}rect").get("opacity") != "1"]
    assert len(pale) == 4 * sum(not row["fits"] for row in answer["steps"]) > 0
    power = [float(bar.find("{*}rect").get("height")) for bar in bars if bar.get("class") == "power"]
    watts = [row["power_w"] for row in answer["steps"]]
    assert power == pytest.approx([max(power) * each / max(watts) for each in watts], abs=0.02)
    assert len([line for line in root.findall("{*}line") if line.get("class") == "budget"]) == 2
    assert root.findtext("{*}title") == answer["verdict"]["text"]


def test_the_bars_grow_with_the_boxes_and_mark_the_budget():
    lines = [line for line in meshwright(*LINE).out.splitlines() if "█" in line]
    assert len(lines) == 13
    assert all("|" in line for line in lines)
    assert [line.endswith("no") for line in lines] == [False] * 11 + [True] * 2


def test_a_price_is_a_staircase():
    steps = answer_of(*LINE, "--box-price", "300", "--switch-price", "20")["steps"]
    rises = [after["price"] - before["price"] for before, after in pairwise(steps[1:])]
    assert {300.0, 380.0} <= set(rises)
    assert rises[6] == 300 + 4 * 20


def test_the_next_command_runs():
    answer = answer_of(*LINE)
    assert answer["next_commands"] == ["meshwright fit Qwen/Qwen3-32B --on 'dgx-h100 x11' --tp 8"]
    assert answer_of("fit", "Qwen/Qwen3-32B", "--on", "dgx-h100 x11", "--tp", "8")["verdict"]["answer"] == "yes"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("--power", "120"), "IO002"),
        (("--power", "0W"), "SYS030"),
        (("--grouped", "0"), "SYS031"),
        (("--devices", "many"), "IO013"),
        (("--cooling", "water"), "SYS002"),
        (("--on", "rtx4090-host"), "SYS011"),
        (("--distance", "30"), "IO002"),
        (("--set", "model.layers=3"), "IO032"),
        (("--svg", "same", "-o", "same"), "IO037"),
        (("--svg", "\0"), "IO033"),
        (("-o", "\0"), "IO033"),
    ],
)
def test_bad_input_is_coded(change, code):
    found = meshwright(*LINE, *change)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"error[{code}]: ")
    assert "\nfix: " in found.err
