"""Wrong answers of chapter "Supernodes" that an easy shortcut gives, and the command does not."""

from __future__ import annotations

import pytest

from tests.ui.program import answer_of
from tests.ui.test_acceptance_faults import FAULT, RING

SHARED = """
name = "eight cards, two power supplies, one switch"
accelerator = "h100-sxm"
nodes = 1
devices_per_node = 8
scale_up = "nvlink4"
node_power = "10.2 kW"

[fault_domains]
power_supply = [[0, 1, 2, 3], [4, 5, 6, 7]]
switch = [[0, 1, 2, 3, 4, 5, 6, 7]]
"""
ONE = ("--sessions", "1", "--context", "131064", "--new-tokens", "8", "--deadline", "50ms")


def by_tp(answer):
    return {item["layout"]["tp"]: item for item in answer["candidates"] if item["layout"]["pp"] == 1}


@pytest.fixture(scope="module")
def ring():
    return by_tp(answer_of(*RING, *FAULT))


@pytest.mark.parametrize("tp", [2, 4, 8])
@pytest.mark.parametrize("fault", [False, True])
def test_cost_is_of_the_whole_time_and_of_on_time_sessions_only(ring, tp, fault):
    found = ring[tp]["fault"] if fault else ring[tp]
    assert found["cost_gpu_s"] == pytest.approx(8 * max(found["finish_times_s"]))
    assert found["cost_per_on_time_gpu_s"] == pytest.approx(found["cost_gpu_s"] / found["on_time_count"])
    until_deadline = 8 * 0.130 / found["on_time_count"]
    assert (found["cost_per_on_time_gpu_s"] > until_deadline) == (found["last_finish_s"] > 0.130)
    late = found["on_time_count"] < 4
    assert (found["cost_per_on_time_gpu_s"] > 1.3 * found["cost_gpu_s"] / 4) == late


@pytest.mark.parametrize(
    ("part", "stopped", "finishes_ms"),
    [
        ("card=0", [0], [179.1, 119.1, 119.1, 119.1]),
        ("power_supply=0", [0, 1], [179.1, 179.1, 119.1, 119.1]),
        ("power_supply=1", [2, 3], [119.1, 119.1, 179.1, 179.1]),
        ("switch=0", [0, 1, 2, 3], [179.1, 179.1, 179.1, 179.1]),
    ],
)
def test_a_shared_part_stops_every_replica_that_hangs_on_it(part, stopped, finishes_ms, tmp_path):
    file = tmp_path / "shared.toml"
    file.write_text(SHARED)
    asked = [str(file) if word == "hgx-h100" else word for word in RING]
    found = by_tp(answer_of(*asked, "--fault", f"{part},at=20ms,stall=40ms"))[2]["fault"]
    assert found["stopped_replicas"] == stopped
    assert [round(each * 1e3, 1) for each in found["finish_times_s"]] == finishes_ms
    assert found["on_time_count"] == finishes_ms.count(119.1)


@pytest.mark.parametrize("all_reduce", ["ring", "measured"])
@pytest.mark.parametrize("reads", ["strict", "even"])
def test_sixteen_cards_over_two_boxes_are_slower_than_eight_in_one(all_reduce, reads):
    answer = answer_of(
        "plan", "serve", "Qwen/Qwen3-32B", "--on", "hgx-h100 x2", *ONE, "--all-reduce", all_reduce,
        "--weight-reads", reads,
    )  # fmt: skip
    found = by_tp(answer)
    assert found[16]["step_time_s"] > 1.1 * found[8]["step_time_s"]
    assert found[16]["last_finish_s"] > 0.050 > found[8]["last_finish_s"]
    assert answer["best"]["layout"]["tp"] == 8


def test_energy_is_of_the_box_not_of_its_cards(ring):
    for found in ring.values():
        if found["fits"]:
            assert found["energy_j"] == pytest.approx(10_200 * found["last_finish_s"])
            assert found["energy_j"] > 1.8 * 8 * 700 * found["last_finish_s"]


@pytest.mark.parametrize(("budget", "boxes"), [("10.1kW", 0), ("10.2kW", 1), ("20.3kW", 1), ("20.4kW", 2), ("40kW", 3)])
def test_a_power_budget_carries_whole_boxes_of_eight(budget, boxes):
    """By cards alone of 0.7 kW, 10.1 kW would carry 14 of them, and 20.3 kW all 29."""
    asked = ["hgx-h100 x4" if word == "hgx-h100" else word for word in RING]
    answer = answer_of(*asked, "--power-budget", budget, code=0 if boxes else 1)
    if not boxes:
        assert answer["best"] is None
        return
    powered = {
        round(item["cost_gpu_s"] / item["last_finish_s"], 6) for item in answer["candidates"] if item["last_finish_s"]
    }
    assert powered == {8.0 * boxes}
    assert answer["best"]["energy_j"] == pytest.approx(boxes * 10_200 * answer["best"]["last_finish_s"])


def test_twice_the_shards_halve_the_state_and_not_the_peak():
    """Chapter "Training systems": the logged peak of FSDP2, and the least peak that shapes give."""
    logged = answer_of("study", "run", "state-and-peak")["answer"]
    assert (logged["ranks"], logged["against"]) == (4, 2)
    assert logged["state_reduction"] == 0.5
    assert logged["peak_reduction"] == pytest.approx(0.2303, abs=1e-4)
    assert logged["peak_bytes"] > 1.5 * logged["proportional_peak_bytes"]
    few, many = (
        answer_of("study", "run", "zero-residency", "--set", f"shards={count}", "--set", "stages=3")["answer"][
            "stages"
        ][0]
        for count in (32, 64)
    )
    assert few["state_bytes"] == 2 * many["state_bytes"]
    assert many["least_peak_bytes"] > 0.6 * few["least_peak_bytes"]
    assert few["gathered_bytes"] == many["gathered_bytes"] > 0
