"""Faults, energy and sensitivity of chapter "Supernodes", 6.4.2 and 6.7.2, by command."""

from __future__ import annotations

import pytest

from tests.ui.program import answer_of

RING = (
    "plan", "serve", "Qwen/Qwen3-32B", "--on", "hgx-h100", "--sessions", "4", "--context", "131064", "--new-tokens",
    "8", "--deadline", "130ms", "--on-time", "75%", "--discipline", "fifo", "--all-reduce", "ring",
)  # fmt: skip
FAULT = ("--fault", "card=0,at=20ms,stall=40ms")


@pytest.fixture(scope="module")
def faulted():
    answer = answer_of(*RING, *FAULT, "--set", "system.node_power=10.2kW")
    return {item["layout"]["tp"]: item for item in answer["candidates"] if item["layout"]["pp"] == 1}


@pytest.mark.parametrize(
    ("tp", "finishes_ms", "on_time", "cost"),
    [
        (2, [179.1, 119.1, 119.1, 119.1], 3, 0.478),
        (4, [123.8, 63.8, 187.6, 127.6], 3, 0.500),
        (8, [101.2, 142.4, 183.5, 224.7], 1, 1.798),
    ],
)
def test_a_card_that_stops_for_40_ms(faulted, tp, finishes_ms, on_time, cost):
    found = faulted[tp]["fault"]
    assert found["stopped_replicas"] == [0]
    assert [round(each * 1e3, 1) for each in found["finish_times_s"]] == finishes_ms
    assert round(found["last_finish_s"] * 1e3, 1) == max(finishes_ms)
    assert found["on_time_count"] == on_time
    assert round(found["cost_per_on_time_gpu_s"], 3) == cost


def test_the_fault_doubles_the_cost_of_four_pairs_and_more_than_that_of_one_of_eight():
    rows = answer_of("study", "run", "fault-cost")["answer"]["layouts"]
    ratio = {row["id"]: row["cost_ratio"] for row in rows}
    share = {row["id"]: row["with_fault"]["on_time_share"] for row in rows}
    assert round(ratio["replicas=4,tp=2,pp=1"], 1) == 2.0
    assert ratio["replicas=1,tp=8,pp=1"] > 4
    assert [share[f"replicas={8 // tp},tp={tp},pp=1"] for tp in (2, 4, 8)] == [0.75, 0.75, 0.25]


@pytest.mark.parametrize(("tp", "joules"), [(2, 1.21e3), (4, 1.30e3)])
def test_energy_is_the_boxes_power_until_the_last_finish(faulted, tp, joules):
    assert faulted[tp]["energy_j"] == pytest.approx(joules, abs=5)
    assert faulted[tp]["fault"]["energy_j"] > faulted[tp]["energy_j"]


def test_at_tp8_latency_is_the_lever_and_bandwidth_is_not():
    levers = answer_of(*RING, "--layout", "tp=8,pp=1")["sensitivity"]
    saved = {(item["parameter"], item["change"]): item["saving_s"] for item in levers}
    assert saved["system.scale_up.bandwidth", "doubled"] == pytest.approx(2.5e-6, abs=0.05e-6)
    assert saved["system.scale_up.latency", "halved"] == pytest.approx(0.74e-3, abs=0.005e-3)
