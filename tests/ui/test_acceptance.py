"""The worked examples of chapter "Supernodes", section 6.7, through the command, as its JSON says them."""

from __future__ import annotations

import pytest

from tests.ui.program import answer_of

_MODEL = ("plan", "serve", "Qwen/Qwen3-32B", "--discipline", "fifo", "--new-tokens", "8")
_FOUR = ("--sessions", "4", "--deadline", "130ms", "--on-time", "75%", "--all-reduce", "ring")
_ONE = ("--sessions", "1", "--context", "131064", "--deadline", "50ms")


def plan(*arguments, on="hgx-h100"):
    return answer_of(*_MODEL, "--on", on, *arguments)


def by_tp(answer):
    """The candidates without pipeline stages, by tensor parallel degree."""
    return {item["layout"]["tp"]: item for item in answer["candidates"] if item["layout"]["pp"] == 1}


@pytest.fixture(scope="module")
def four_sessions():
    return plan("--context", "131064", *_FOUR)


def test_four_sessions_are_served_best_by_four_replicas_of_two(four_sessions):
    assert four_sessions["verdict"]["answer"] == "yes"
    assert four_sessions["best"]["id"] == "replicas=4,tp=2,pp=1"


@pytest.mark.parametrize(("tp", "finish_ms", "cost"), [(2, 119.1, 0.238), (4, 127.6, 0.255), (8, 164.7, 0.439)])
def test_finish_and_cost_of_each_degree(four_sessions, tp, finish_ms, cost):
    found = by_tp(four_sessions)[tp]
    assert found["fits"]
    assert found["excluded"] is None
    assert round(found["last_finish_s"] * 1e3, 1) == finish_ms
    assert round(found["cost_per_on_time_gpu_s"], 3) == cost


def test_one_device_is_excluded_by_capacity(four_sessions):
    found = by_tp(four_sessions)[1]
    assert not found["fits"]
    assert found["excluded"]["limit"] == "capacity"
    assert "102.03 GB" in found["excluded"]["reason"]
    assert found["memory"]["per_rank_bytes"] == 102_031_468_544
    assert found["memory"]["capacity_bytes"] == 80_000_000_000


@pytest.mark.parametrize(("all_reduce", "finish_ms"), [("ring", 41.2), ("auto", 34.5)])
def test_one_session_in_50_ms_takes_all_eight(all_reduce, finish_ms):
    best = plan(*_ONE, "--all-reduce", all_reduce)["best"]
    assert best["layout"]["tp"] == 8
    assert round(best["last_finish_s"] * 1e3, 1) == finish_ms


def test_a_second_box_changes_nothing_for_one_session():
    best = plan(*_ONE, "--all-reduce", "ring", on="hgx-h100 x2")["best"]
    assert best["id"] == "replicas=2,tp=8,pp=1"
    assert round(best["last_finish_s"] * 1e3, 1) == 41.2


@pytest.mark.parametrize(("reads", "finish_ms"), [("even", 53.3), ("strict", 53.5)])
def test_sixteen_over_two_boxes_are_late_at_measured_times(reads, finish_ms):
    wide = by_tp(plan(*_ONE, "--all-reduce", "measured", "--weight-reads", reads, on="hgx-h100 x2"))[16]
    assert round(wide["last_finish_s"] * 1e3, 1) == finish_ms
    assert wide["excluded"]["limit"] == "time"


def test_a_quarter_of_the_context_keeps_the_layout_and_costs_less():
    best = plan("--context", "32760", *_FOUR)["best"]
    assert best["id"] == "replicas=4,tp=2,pp=1"
    assert round(best["cost_per_on_time_gpu_s"], 3) == 0.177


def test_the_mixture_fits_eight_devices_with_47_sessions():
    memory = answer_of(
        "fit", "Qwen/Qwen3-235B-A22B", "--on", "hgx-h100", "--tp", "8", "--context", "8192", "--sessions", "1"
    )["memory"]
    assert memory["parameters_bytes"] == 58_959_617_024
    assert memory["kv_cache_bytes"] == 394_264_576
    assert memory["max_sessions"] == 47


def test_when_nobody_is_on_time_there_is_no_cost_and_the_best_that_fits_is_still_named():
    answer = answer_of(
        *_MODEL, "--on", "hgx-h100", "--sessions", "4", "--context", "131064", "--deadline", "1ms", code=1
    )
    assert answer["verdict"]["answer"] == "no"
    assert answer["best"]["fits"]
    assert answer["best"]["excluded"]["limit"] == "time"
    fitting = [item for item in answer["candidates"] if item["fits"]]
    assert fitting
    assert {item["on_time_count"] for item in fitting} == {0}
    assert {item["cost_per_on_time_gpu_s"] for item in fitting} == {None}


def test_when_nothing_fits_there_is_no_best_and_the_reason_is_in_the_verdict():
    answer = answer_of(
        "plan", "serve", "meta-llama/Llama-3.1-405B", "--on", "rtx4090-host", "--sessions", "1", "--context", "1K",
        "--new-tokens", "8", code=1,
    )  # fmt: skip
    assert answer["verdict"]["answer"] == "no"
    assert answer["best"] is None
    assert "GB a device" in answer["verdict"]["text"]
    assert all(item["excluded"] for item in answer["candidates"])


@pytest.mark.parametrize("deadline", ["130ms", None])
def test_a_deadline_makes_the_objective_cost_and_none_latency(deadline):
    given = ("--deadline", deadline) if deadline else ()
    answer = plan("--sessions", "4", "--context", "131064", "--all-reduce", "ring", *given)
    assert answer["inputs"]["options"]["objective"] == ("cost" if deadline else "latency")
