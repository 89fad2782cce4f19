"""What an engine refuses is refused before a launch: by fit, and by both plans, with its code and message."""

from __future__ import annotations

import pytest

from meshwright.base.errors import MeshwrightError
from meshwright.base.parse import build
from meshwright.job.serve import ServeJob
from meshwright.job.train import TrainJob
from meshwright.layout.engine_rules import engine_rules
from meshwright.layout.layout import Layout, read_fixed
from meshwright.layout.layouts import table
from meshwright.layout.rules import keeps
from meshwright.model.reader import read_model
from meshwright.scenarios._engine_pool import EngineOptions
from meshwright.scenarios._training_options import TrainOptions
from meshwright.scenarios.fit import FitOptions, fit, replica_layout
from meshwright.scenarios.serving import ServeOptions, plan_serve
from meshwright.scenarios.training import plan_train
from meshwright.system.engine import read_engine
from meshwright.system.system import read_system


def _fit(engine, tp, ep=1, model="Qwen/Qwen3-30B-A3B-FP8", pp=1):
    read = read_model(model)
    options = build(FitOptions, {"engine": {"name": engine}}, "fit")
    return fit(read, read_system("hgx-h200"), replica_layout(read, tp, pp, ep), options)


def _train(engine, layout="", **options):
    asked = {"engine": engine, "layout": read_fixed(layout), "flips": "none", "runs": 0, "finalists": 0, **options}
    job = build(TrainJob, {"tokens": "1M", "sequence": "1K", "global_batch": 16}, "job")
    return plan_train(read_model("tiny-qwen3"), read_system("hgx-h100"), job, build(TrainOptions, asked, "plan train"))


def test_a_shard_that_cuts_blocks_is_a_no_with_the_engine_its_version_and_a_layout_that_runs():
    found = _fit("sglang", 4)
    out = found.candidates[0].excluded
    assert found.verdict.answer == "no"
    assert (out.code, out.limit) == ("ENG022", "engine")
    assert "SGLang 0.4 to 0.5" in out.reason
    assert "192 is not divisible" in out.reason
    assert out.nearest == "tp=2"
    assert _fit("sglang", 2).verdict.answer == "yes"
    assert any(source.title.startswith("SGLang 0.5.4") for source in found.sources)


def test_without_an_engine_the_same_layout_is_only_warned_of():
    read = read_model("Qwen/Qwen3-30B-A3B-FP8")
    found = fit(read, read_system("hgx-h200"), replica_layout(read, 4, 1, 1), FitOptions())
    assert found.verdict.answer == "yes"
    assert any("scale blocks" in text for text in found.warnings)


def test_engines_differ_in_how_they_lay_experts():
    assert _fit("sglang", 8, 2, "Qwen/Qwen3-235B-A22B").verdict.answer == "yes"
    refused = _fit("vllm", 8, 2, "Qwen/Qwen3-235B-A22B").candidates[0].excluded
    assert (refused.code, refused.nearest) == ("ENG016", "ep=1")


def test_a_degree_that_divides_nothing_is_excluded_with_the_words_of_the_engine_that_was_asked():
    found = _fit("vllm", 3, model="Qwen/Qwen3-8B")
    out = found.candidates[0].excluded
    assert (found.verdict.answer, out.code, out.limit, out.nearest) == ("no", "ENG012", "engine", "tp=2")
    assert "Total number of attention heads (32) must be divisible by tensor parallel size (3)." in out.reason


def test_a_layout_whose_shards_can_not_be_told_is_an_error_with_or_without_an_engine():
    with pytest.raises(MeshwrightError) as problem:
        _fit("vllm", 2, pp=40, model="Qwen/Qwen3-8B")
    assert problem.value.code == "LAY010"


@pytest.mark.parametrize(("engine", "code"), [("torchtitan", "ENG006"), ("megatron", "ENG001")])
def test_an_engine_that_does_not_serve_or_is_not_known_is_coded(engine, code):
    with pytest.raises(MeshwrightError) as problem:
        _fit(engine, 1)
    assert problem.value.code == code


def test_a_serving_plan_excludes_what_the_engine_refuses_and_says_which_engine():
    job = ServeJob(sessions=2, context=1024, new_tokens=8)
    options = ServeOptions(engine=EngineOptions(name="vllm"), flips="none")
    plan = plan_serve(read_model("Qwen/Qwen3-30B-A3B"), read_system("hgx-h200"), job, options)
    refused = [item for item in plan.candidates if item.excluded is not None and item.excluded.limit == "engine"]
    rules = engine_rules(read_engine("vllm"))
    assert refused
    assert all(item.excluded.code.startswith("ENG") and not item.fits for item in refused)
    for item in plan.candidates:
        kept = bool(keeps(read_model("Qwen/Qwen3-30B-A3B"), table([Layout(**item.layout)]), rules)[0])
        assert kept == (item not in refused)
    assert "vLLM 0.6 to 0.11" in plan.verdict.text
    assert plan.inputs["options"]["engine"].name == "vllm"


@pytest.mark.parametrize("engine", ["megatron-core", "torchtitan", "deepspeed"])
def test_a_training_search_makes_only_layouts_that_the_engine_takes(engine):
    plan = _train(engine, keep=200)
    numbers = {"sequence": 1024, "global_batch": 16, "micro_batches": lambda rows: 16 // (
        rows.degree("dp_shard") * rows.degree("dp_replicate") * rows.degree("micro_batch"))}  # fmt: skip
    rules = engine_rules(read_engine(engine), numbers)
    rows = table([Layout(**item.layout) for item in plan.candidates])
    assert keeps(read_model("tiny-qwen3"), rows, rules).all()
    assert read_engine(engine).titled in plan.verdict.text


def test_a_training_layout_that_is_asked_for_and_refused_is_an_error_with_a_way_out():
    with pytest.raises(MeshwrightError) as problem:
        _train("deepspeed", "pp=2,zero=2,dp_shard=4")
    assert (problem.value.code, problem.value.fix) == ("ENG024", "--layout zero=1")
    assert "ZeRO-2 and ZeRO-3 are incompatible with pipeline parallelism" in problem.value.cause


def test_pools_differ_in_what_they_take_from_a_device():
    memory = {name: _fit(name, 2).body["memory"]["engine"] for name in ("vllm", "sglang", "tensorrt-llm")}
    capacity = read_system("hgx-h200").accelerator.memory
    weights = _fit("vllm", 2).body["memory"]["parameters_bytes"]
    own = memory["vllm"]["reserve_bytes"]
    assert memory["vllm"]["available_kv_bytes"] == capacity * 9 // 10 - weights - own
    before = memory["sglang"]["before_bytes"]
    assert before > 0 == memory["vllm"]["before_bytes"]
    assert memory["sglang"]["available_kv_bytes"] == (capacity - before) * 88 // 100 - weights
    assert memory["tensorrt-llm"]["available_kv_bytes"] == (capacity - weights - own) * 9 // 10
