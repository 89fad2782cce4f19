"""A serving plan with an engine keeps memory as the engine's pool does: its share, its reserve and whole blocks."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from meshwright.base.errors import EngineError
from meshwright.base.parse import build
from meshwright.job.serve import ServeJob
from meshwright.model.reader import read_model
from meshwright.scenarios.fit import FitOptions, fit, replica_layout
from meshwright.scenarios.serving import ServeOptions, plan_serve
from meshwright.system.system import read_system

_MODEL = "Qwen/Qwen3-32B"


@cache
def _plan(engine, tp=2, context=16000, flips="none", concurrency=None, **more):
    options = {"engine": {"name": engine, **more}, "layout": {"tp": tp, "pp": 1}, "flips": flips}
    job = ServeJob(sessions=4096, context=context, new_tokens=384, discipline="continuous", concurrency=concurrency)
    return plan_serve(read_model(_MODEL), read_system("hgx-h100"), job, build(ServeOptions, options, "options"))


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
@pytest.mark.parametrize("share", ["0.7", "0.9"])
def test_the_largest_batch_is_what_the_pool_of_fit_has_blocks_for(engine, share):
    model = read_model(_MODEL)
    asked = build(FitOptions, {"context": 16384, "engine": {"name": engine, "gpu_memory_utilization": share}}, "fit")
    pool = fit(model, read_system("hgx-h100"), replica_layout(model, 2, 1, 1), asked).body["memory"]["engine"]
    found = _plan(engine, gpu_memory_utilization=share).candidates[0]
    assert found.measures["batch"] == int(pool["max_concurrency"])


def test_blocks_that_hold_not_all_layers_are_no_bytes_of_a_plan_and_none_of_unknown_size_are_taken():
    """A block of gpt-oss is of one of two groups of layers: fit counts it, a plan does not guess."""
    system, job = read_system("hgx-h100"), ServeJob(sessions=8, context=8192, new_tokens=64)
    asked = {"engine": {"name": "vllm", "kv_blocks": 4096}}
    grouped, hybrid = read_model("openai/gpt-oss-120b"), read_model("Qwen/Qwen3-Next-80B-A3B-Instruct")
    said = fit(grouped, system, replica_layout(grouped, 2, 1, 1), build(FitOptions, {"context": 8192, **asked}, "fit"))
    assert said.body["memory"]["engine"]["layer_groups"] == 2
    with pytest.raises(EngineError) as problem:
        plan_serve(grouped, system, job, build(ServeOptions, asked, "options"))
    assert (problem.value.code, "--kv-cache-memory" in problem.value.fix) == ("ENG002", True)
    with pytest.raises(EngineError, match="whose layers differ"):
        fit(hybrid, system, replica_layout(hybrid, 4, 1, 1), build(FitOptions, asked, "fit"))


def test_a_session_takes_whole_blocks():
    plan = _plan("vllm", context=16001)
    assert plan.candidates[0].memory["kv_cache_bytes"] % (plan.candidates[0].measures["batch"] * 16 * 131072) == 0


def test_a_share_that_leaves_nothing_outside_it_has_room_for_no_session():
    assert _plan("vllm").verdict.answer == "yes"
    plan = _plan("vllm", gpu_memory_utilization="1")
    excluded = plan.candidates[0].excluded
    assert (plan.verdict.answer, excluded.code) == ("no", "LAY020")
    assert "what an engine leaves to neither" in excluded.reason


@pytest.mark.parametrize(("model", "said"), [("openai/gpt-oss-20b", True), ("Qwen/Qwen3-8B", False)])
def test_a_plan_says_where_the_engine_groups_blocks_and_it_does_not(model, said):
    options = build(ServeOptions, {"engine": {"name": "vllm"}, "layout": {"tp": 1}, "flips": "none"}, "options")
    job = ServeJob(sessions=2, context=1024, new_tokens=8)
    notes = plan_serve(read_model(model), read_system("hgx-h100"), job, options).notes
    assert any("the blocks in which the engine groups them" in text for text in notes) is said


def test_stated_bytes_for_kv_are_the_pool():
    sizes = {size: _plan("vllm", kv_cache_memory=size).candidates[0].measures["batch"] for size in ("8GiB", "16GiB")}
    assert sizes["16GiB"] == 2 * sizes["8GiB"] == 2 * 8 * 2**30 // (16384 * 131072)


def test_a_flip_of_the_memory_is_found_under_an_engine_and_replays():
    plan = _plan("vllm", tp=8, flips="search", concurrency=40)
    flip = next(item for item in plan.flips if item["parameter"] == "system.accelerator.memory")
    model, job = read_model(_MODEL), ServeJob(
        sessions=4096, context=16000, new_tokens=384, discipline="continuous", concurrency=40
    )  # fmt: skip
    options = build(ServeOptions, {"engine": {"name": "vllm"}, "layout": {"tp": 8, "pp": 1}, "flips": "none"}, "o")
    for value, wanted in ((flip["value"] - 1, flip["from"]), (flip["value"], flip["to"])):
        system = read_system("hgx-h100")
        on = replace(system, accelerator=replace(system.accelerator, memory=int(value)))
        best = plan_serve(model, on, job, options).best
        assert (None if best is None else best.id) == wanted
