"""Flips replayed on both sides, and faults against a plain replay of each session."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from meshwright.base.errors import MeshwrightError
from meshwright.base.parse import set_path
from meshwright.cost.faults import replica_of
from meshwright.job.faults import Fault, read_fault
from meshwright.job.serve import ServeJob
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.model.reader import read_model
from meshwright.scenarios.serving import ServeOptions, plan_serve
from meshwright.system.domains import cards_of
from meshwright.system.system import read_system

QWEN3_32B = read_model("Qwen/Qwen3-32B")
CASES = {
    "chapter": ("hgx-h100", ServeJob(sessions=4, context=131064, new_tokens=8, deadline=0.13, on_time=0.75), "ring"),
    "one session": ("hgx-h100", ServeJob(sessions=1, context=131064, new_tokens=8, deadline=0.05), "ring"),
    "two boxes": ("hgx-h100 x2", ServeJob(sessions=6, context=60_000, new_tokens=20, deadline=0.4), "auto"),
    "no deadline": ("hgx-h200", ServeJob(sessions=12, context=30_000, new_tokens=4), "auto"),
}


def _chosen(on, job, options):
    result = plan_serve(QWEN3_32B, on, job, replace(options, flips="none"))
    return result.best.id if result.verdict.answer == "yes" else None


def changed(system, job, options, parameter, value):
    """The nouns with one parameter of a flip at another value."""
    if parameter.startswith("system."):
        path = parameter.removeprefix("system.")
        unit = {"bandwidth": "B/s", "memory_bandwidth": "B/s", "latency": "s", "memory": "B"}[path.rsplit(".", 1)[-1]]
        return set_path(system, path, f"{value!r}{unit}"), job, options
    if parameter == "all-reduce-time":
        return system, job, replace(options, all_reduce_time=value)
    return system, replace(job, **{parameter.replace("-", "_"): value}), options


@pytest.mark.parametrize("name", CASES)
def test_every_flip_is_replayed_on_both_sides(name):
    on, job, algorithm = CASES[name]
    system, options = read_system(on), ServeOptions(all_reduce=algorithm)
    found = plan_serve(QWEN3_32B, system, job, options).flips
    assert found
    for flip in found:
        value = flip["value"]
        whole = isinstance(value, int)
        below, above = (value - 1, value) if whole else (value * 0.999, value * 1.001)
        assert _chosen(*changed(system, job, options, flip["parameter"], below)) == flip["from"], flip
        assert _chosen(*changed(system, job, options, flip["parameter"], above)) == flip["to"], flip


def test_the_chapter_s_fault_gives_its_table():
    system, job, _ = read_system("hgx-h100"), CASES["chapter"][1], None
    options = ServeOptions(all_reduce="ring", fault=read_fault("card=0,at=20ms,stall=40ms"))
    rows = {item.id: item for item in plan_serve(QWEN3_32B, system, job, options).candidates}
    two, four, eight = (rows[f"replicas={8 // tp},tp={tp},pp=1"] for tp in (2, 4, 8))
    assert two.measures["fault"]["last_finish_s"] == pytest.approx(0.1791, abs=5e-5)
    assert two.measures["fault"]["cost_per_on_time_gpu_s"] == pytest.approx(0.478, abs=5e-4)
    assert four.measures["fault"]["cost_per_on_time_gpu_s"] == pytest.approx(0.500, abs=5e-4)
    assert eight.measures["fault"]["on_time_count"] == 1
    assert two.measures["energy_j"] == pytest.approx(1210, rel=0.005)
    assert four.measures["energy_j"] == pytest.approx(1300, rel=0.005)


@pytest.mark.parametrize("at", [0.0, 0.01, 0.0637, 0.07, 0.2, 5.0])
@pytest.mark.parametrize("domain", ["card", "node"])
def test_finish_times_under_a_fault_are_those_of_a_plain_replay(at, domain):
    system, job = read_system("hgx-h100 x2"), replace(CASES["chapter"][1], sessions=9)
    fault = Fault(domain=domain, index=1, at=at, stall=0.013)
    result = plan_serve(QWEN3_32B, system, job, ServeOptions(fault=fault))
    for item in result.candidates:
        if item.measures["fault"] is None:
            continue
        replicas, service = item.layout["replicas"], item.measures["service_time_s"]
        size = item.layout["tp"] * item.layout["pp"]
        boxes = 8 * math.ceil(size / 8)
        down = {
            card // 8 * (8 // size) + card % 8 // size if size <= 8 else card // boxes
            for card in cards_of(system, domain, 1)
            if (card % 8 // size < 8 // size if size <= 8 else card % boxes < size)
        }
        clock, finish = [0.0] * replicas, []
        for session in range(job.sessions):
            replica = session % replicas
            start, end = clock[replica], clock[replica] + service
            if replica in down and start <= at < end:
                end = at + 0.013 + service
            clock[replica] = end
            finish.append(end)
        assert item.measures["fault"]["finish_times_s"] == pytest.approx(finish, rel=1e-9), item.id


def test_a_card_that_no_replica_uses_stops_nothing():
    layouts = table([Layout(replicas=2, tp=3)])
    assert replica_of(layouts, 7, 8).tolist() == [-1]
    assert replica_of(layouts, 5, 8).tolist() == [1]


def test_a_power_budget_turns_off_whole_boxes_and_says_so():
    system, job = read_system("hgx-h100 x3"), CASES["one session"][1]
    result = plan_serve(QWEN3_32B, system, job, ServeOptions(all_reduce="ring", power_budget=25_000.0))
    out = {item.excluded.limit for item in result.candidates if item.excluded is not None}
    assert "power" in out
    assert result.best.measures["idle_devices"] + result.best.layout["replicas"] * 8 == 16
    none = plan_serve(QWEN3_32B, system, job, ServeOptions(power_budget=5_000.0))
    assert none.verdict.answer == "no"
    with pytest.raises(MeshwrightError) as caught:
        plan_serve(QWEN3_32B, read_system("rtx4090-host"), job, ServeOptions(power_budget=5_000.0))
    assert caught.value.code == "SYS011"


def test_a_curve_starts_where_enough_sessions_are_on_time_and_falls():
    job = replace(CASES["chapter"][1], deadline_from=0.05, deadline=0.3)
    result = plan_serve(QWEN3_32B, read_system("hgx-h100"), job, ServeOptions(all_reduce="ring"))
    for entry in result.body["curves"]:
        costs = [point["cost_per_on_time_gpu_s"] for point in entry["points"]]
        assert costs == sorted(costs, reverse=True)
        assert all(point["on_time_count"] >= 3 for point in entry["points"])


def test_a_parameter_of_zero_has_no_flips_and_no_fault():
    system = set_path(read_system("hgx-h100"), "scale_up.latency", "0s")
    result = plan_serve(QWEN3_32B, system, CASES["chapter"][1], ServeOptions(all_reduce="ring"))
    assert "system.scale_up.latency" not in {flip["parameter"] for flip in result.flips}
    assert result.best.measures["fault"] is None
