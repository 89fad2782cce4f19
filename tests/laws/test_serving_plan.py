"""Laws of a serving plan, over seeded random jobs, systems and options."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from meshwright.base.errors import MeshwrightError
from meshwright.base.result import as_json
from meshwright.job.serve import ServeJob
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.layout.rules import keeps_all
from meshwright.model.model import Model
from meshwright.model.reader import read_model
from meshwright.scenarios.serving import ServeOptions, plan_serve
from meshwright.system.system import System, read_system

FEW = settings(
    settings.get_profile(settings.get_current_profile_name()), max_examples=max(20, settings().max_examples // 5)
)
MODELS = (
    "Qwen/Qwen3-32B",
    "Qwen/Qwen3-30B-A3B-FP8",
    "Qwen/Qwen2.5-0.5B",
    "mistralai/Mixtral-8x7B-v0.1",
    "tiny-qwen3-moe",
)
SYSTEMS = ("hgx-h100", "hgx-h100 x2", "rtx4090-host", "hgx-b200", "mi300x-8 x3")

jobs = st.builds(
    ServeJob,
    sessions=st.integers(1, 40),
    context=st.integers(0, 200_000),
    new_tokens=st.integers(1, 300),
    deadline=st.none() | st.floats(1e-3, 30.0),
    on_time=st.sampled_from([0.0, 0.5, 0.75, 0.99, 1.0]),
)
choices = st.builds(
    ServeOptions,
    objective=st.sampled_from([None, "cost", "latency"]),
    all_reduce=st.sampled_from(["auto", "ring", "tree", "measured"]),
    weight_reads=st.sampled_from(["strict", "even"]),
)


@FEW
@given(st.sampled_from(MODELS), st.sampled_from(SYSTEMS), jobs, choices)
def test_every_ranked_candidate_keeps_the_rules_fits_and_is_on_time(name, on, job, options):
    model, system = read_model(name), read_system(on)
    result = plan_serve(model, system, job, options)
    for item in result.candidates:
        layout = Layout(**item.layout)
        if item.excluded is None:
            assert bool(keeps_all(model, table([layout]))[0])
            assert item.memory["per_rank_bytes"] <= system.accelerator.memory
            assert item.measures["on_time_count"] >= job.on_time * job.sessions
            assert layout.world_size + item.measures["idle_devices"] == system.devices
        elif item.excluded.limit == "capacity":
            assert item.memory["per_rank_bytes"] > system.accelerator.memory
        elif item.excluded.limit == "time":
            assert item.measures["on_time_count"] < max(1, job.on_time * job.sessions)
        else:
            assert not item.fits
    assert (result.verdict.answer == "yes") == any(item.excluded is None for item in result.candidates)


@FEW
@given(st.sampled_from(MODELS), st.sampled_from(SYSTEMS), jobs, choices)
def test_the_best_is_the_minimum_of_the_objective_over_what_is_feasible(name, on, job, options):
    result = plan_serve(read_model(name), read_system(on), job, options)
    feasible = [item for item in result.candidates if item.excluded is None]
    if not feasible:
        return
    goal = "cost_per_on_time_gpu_s" if result.inputs["options"]["objective"] == "cost" else "last_finish_s"
    assert result.best == result.candidates[0]
    assert result.best.measures[goal] == min(item.measures[goal] for item in feasible)


@FEW
@given(st.sampled_from(MODELS), st.sampled_from(SYSTEMS), jobs, choices)
def test_the_inputs_of_a_result_are_enough_to_compute_it_again(name, on, job, options):
    result = plan_serve(read_model(name), read_system(on), job, options)
    document = json.loads(json.dumps(as_json(result), allow_nan=False))
    stated = document["inputs"]
    again = plan_serve(
        TypeAdapter(Model).validate_python(stated["model"]),
        TypeAdapter(System).validate_python(stated["system"]),
        TypeAdapter(ServeJob).validate_python(stated["job"]),
        TypeAdapter(ServeOptions).validate_python({**stated["options"], "layout": stated["layout"]}),
    )
    repeated = json.loads(json.dumps(as_json(again), allow_nan=False))
    assert repeated["candidates"] == document["candidates"]
    assert repeated["verdict"] == document["verdict"]


@FEW
@given(st.sampled_from(MODELS), jobs)
def test_a_deadline_at_the_finish_of_a_late_layout_is_what_makes_it_eligible(name, job):
    model, system = read_model(name), read_system("hgx-h100")
    tight = replace(job, deadline=1e-4, on_time=1.0)
    result = plan_serve(model, system, tight, ServeOptions())
    late = [item for item in result.candidates if item.excluded and item.excluded.limit == "time"]
    for item in late[:2]:
        deadline = float(item.excluded.nearest.removeprefix("deadline=").removesuffix("s"))
        fixed = {key: item.layout[key] for key in ("tp", "pp", "ep", "etp")}
        met = plan_serve(model, system, replace(tight, deadline=deadline), ServeOptions(layout=fixed))
        missed = plan_serve(model, system, replace(tight, deadline=deadline * 0.999), ServeOptions(layout=fixed))
        assert met.verdict.answer == "yes"
        assert missed.verdict.answer == "no"


@FEW
@given(st.sampled_from(MODELS), st.sampled_from(SYSTEMS), jobs)
def test_finish_times_follow_round_robin_one_at_a_time(name, on, job):
    result = plan_serve(read_model(name), read_system(on), job, ServeOptions())
    for item in result.candidates:
        if not item.measures["finish_times_s"]:
            continue
        replicas, service = item.layout["replicas"], item.measures["service_time_s"]
        free = [0.0] * replicas
        for session, finish in enumerate(item.measures["finish_times_s"]):
            free[session % replicas] += service
            assert finish == pytest.approx(free[session % replicas], rel=1e-9)


def test_a_fixed_layout_against_a_rule_is_an_error_and_not_a_plan():
    job = ServeJob(sessions=1, context=8192, new_tokens=4)
    with pytest.raises(MeshwrightError) as caught:
        plan_serve(read_model("tiny-qwen3"), read_system("hgx-h100"), job, ServeOptions(layout={"tp": 3}))
    assert caught.value.code == "LAY003"
    assert caught.value.fix == "--layout tp=2"
