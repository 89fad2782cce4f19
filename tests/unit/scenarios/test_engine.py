"""An engine's budget rule beside `fit`, and the computed reserve in the answers of fit and plan."""

from __future__ import annotations

import re

import pytest

from meshwright.base.errors import MeshwrightError
from meshwright.base.parse import build, set_path
from meshwright.base.result import as_json
from meshwright.base.units import show_bytes
from meshwright.job.serve import ServeJob
from meshwright.model.reader import read_config, read_model
from meshwright.scenarios.fit import FitOptions, fit, replica_layout
from meshwright.scenarios.serving import ServeOptions, plan_serve
from meshwright.system.engine import ENGINES, read_engine
from meshwright.system.system import read_system

_GIB = 2**30
_WINDOWED = {
    "model_type": "mistral", "hidden_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 4,
    "num_hidden_layers": 4, "intermediate_size": 2048, "vocab_size": 32000, "sliding_window": 512,
}  # fmt: skip


def _fit(model="meta-llama/Llama-3.1-8B", tp=1, pp=1, on="hgx-a100-40gb", **options):
    read = read_model(model) if isinstance(model, str) else model
    return fit(read, read_system(on), replica_layout(read, tp, pp, 1), build(FitOptions, options, "fit"))


def _engine(model="meta-llama/Llama-3.1-8B", tp=1, pp=1, context=8192, on="hgx-a100-40gb", **engine):
    result = _fit(model, tp, pp, on, context=context, engine={"name": "vllm", **engine})
    return result.body["memory"]["engine"]


def test_available_kv_is_what_the_share_leaves_beside_weights_and_reserve():
    memory = _fit(context=8192, engine={"name": "vllm", "reserve": "3 GiB"}).body["memory"]
    engine = memory["engine"]
    assert engine["budget_bytes"] == 36_000_000_000
    assert engine["available_kv_bytes"] == 36_000_000_000 - memory["parameters_bytes"] - 3 * _GIB
    assert engine["kv_block_bytes"] == 16 * 131_072
    assert engine["kv_blocks"] == engine["available_kv_bytes"] // engine["kv_block_bytes"]
    assert engine["kv_tokens"] == 16 * engine["kv_blocks"]
    assert engine["max_concurrency"] == pytest.approx(engine["kv_tokens"] / 8192)


def test_the_stage_with_the_fewest_blocks_decides():
    one, two = (_engine("Qwen/Qwen3-8B", pp=pp, reserve="3 GiB") for pp in (1, 2))
    assert two["kv_tokens"] > one["kv_tokens"]
    fullest = _fit("Qwen/Qwen3-8B", pp=2, context=8192).body["memory"]["parameters_bytes"]
    assert two["available_kv_bytes"] == 36_000_000_000 - fullest - 3 * _GIB


def test_a_request_takes_whole_blocks():
    found = _engine(context=8193, reserve="3 GiB", block_size=64)
    assert found["max_concurrency"] == found["kv_blocks"] / 129


def test_the_default_reserve_is_computed_and_said_to_be_assumed():
    result = _fit(context=8192, engine={"name": "vllm"})
    engine = result.body["memory"]["engine"]
    assert engine["reserve_basis"] == "assumed"
    assert any("--engine-reserve is not given" in note for note in result.notes)
    computed = _fit(context=8192, reserve={}).body["memory"]["reserve"]
    assert engine["reserve_bytes"] == sum(computed.values()) - computed["padding_bytes"]


def test_the_stated_least_share_is_the_one_at_which_a_longest_request_fits():
    least = _engine(reserve="3 GiB")["least_gpu_memory_utilization"]
    above, below = (_engine(reserve="3 GiB", gpu_memory_utilization=least * factor) for factor in (1.000001, 0.9999))
    assert above["kv_tokens"] >= 8192 > below["kv_tokens"]


def test_without_a_context_the_longest_request_is_that_of_the_config():
    assert _engine(context=0, reserve="3 GiB")["max_model_len"] == 131072


@pytest.mark.parametrize(
    ("context", "share", "code"), [(8192, "0.45", "ENG003"), (131072, "0.9", "ENG004")], ids=["weights", "tokens"]
)
def test_a_start_that_the_engine_refuses_is_a_no_with_its_code(context, share, code):
    result = _fit(context=context, engine={"name": "vllm", "gpu_memory_utilization": share, "reserve": "3 GiB"})
    assert result.verdict.answer == "no"
    assert result.candidates[0].excluded.code == code
    assert re.match(r"gpu-memory-utilization=0\.\d{4}$|context=\d+$", result.candidates[0].excluded.nearest)


def test_a_refused_start_states_what_is_missing_with_a_unit():
    result = _fit(context=8192, engine={"name": "vllm", "gpu_memory_utilization": "0.4", "reserve": "3 GiB"})
    missing = result.body["memory"]["engine"]["available_kv_bytes"]
    assert missing < 0
    assert f"take {show_bytes(-missing)} more than its budget" in result.verdict.text


def test_a_plan_that_power_forbids_blames_no_memory():
    job = ServeJob(sessions=4, context=4096, new_tokens=8)
    options = build(ServeOptions, {"power_budget": "5 kW"}, "options")
    text = plan_serve(read_model("Qwen/Qwen3-8B"), read_system("hgx-h100"), job, options).verdict.text
    assert "hold" not in text
    assert "needs 1 device in whole boxes, and the power budget carries 0" in text


@pytest.mark.parametrize(
    ("model", "engine", "pp"),
    [("windowed", "sglang", 1), ("windowed", "tensorrt-llm", 1), ("Qwen/Qwen3.5-9B", "vllm", 1),
     ("deepseek-ai/DeepSeek-V4-Flash", "vllm", 1), ("openai/gpt-oss-20b", "vllm", 2)],
)  # fmt: skip
def test_tokens_are_null_for_layers_that_the_rule_does_not_cover(model, engine, pp):
    read = read_config(_WINDOWED, "windowed") if model == "windowed" else model
    result = _fit(read, pp=pp, on="hgx-h200", context=4096, engine={"name": engine, "kv_cache_memory": "1GiB"})
    engine = result.body["memory"]["engine"]
    assert [engine[name] for name in ("kv_tokens", "kv_blocks", "max_concurrency")] == [None] * 3
    assert engine["available_kv_bytes"] == _GIB
    assert any("kv_tokens is null" in note for note in result.notes)


def test_layers_of_two_kinds_share_blocks_and_a_token_counts_as_if_none_had_a_window():
    """gpt-oss: 18 layers with a window of 128 and 18 without, 8 heads of 64 in two bytes, key and value."""
    engine = _engine("openai/gpt-oss-20b", context=16384, on="hgx-h100", kv_cache_memory="2GiB")
    layers = read_model("openai/gpt-oss-20b").layers
    assert engine["layer_groups"] == 2
    assert engine["kv_bytes_per_token"] == layers * 2048
    assert engine["least_kv_bytes_per_token"] == layers // 2 * 2048
    assert engine["kv_blocks"] == 2 * _GIB // (16 * layers // 2 * 2048)
    assert engine["kv_tokens"] == engine["kv_blocks"] // 2 * 16
    a_request = 16384 // 16 + (127 + 8192 + 15) // 16 + 1  # of the windowed group: its window and a step of 8192 rows
    assert engine["max_concurrency"] == engine["kv_blocks"] / a_request


def test_groups_have_as_many_layers_as_the_rarest_kind():
    """gemma-3-12b: 40 layers with windows and 8 without are six groups of 8."""
    engine = _engine("google/gemma-3-12b-it", on="hgx-h100", kv_cache_memory="8GiB")
    assert engine["layer_groups"] == 6
    assert engine["kv_bytes_per_token"] == 48 * 2 * 8 * 256 * 2


def test_stated_blocks_are_the_capacity_and_one_longest_request_may_exceed_it():
    asked = {"name": "vllm", "kv_blocks": 378}
    result = _fit("meta-llama/Meta-Llama-3-70B", tp=8, on="hgx-a100", context=8192, engine=asked)
    assert result.body["memory"]["engine"]["kv_tokens"] == 378 * 16
    assert (result.verdict.answer, result.candidates[0].excluded.code) == ("no", "ENG004")
    shorter = _fit("meta-llama/Meta-Llama-3-70B", tp=8, on="hgx-a100", context=6048, engine=asked)
    assert shorter.verdict.answer == "yes"


def test_stated_blocks_that_leave_no_room_beside_them_are_refused():
    result = _fit(context=8192, on="hgx-a100-40gb", engine={"name": "vllm", "kv_blocks": 12_000, "reserve": "3 GiB"})
    assert result.candidates[0].excluded.code == "ENG027"


@pytest.mark.parametrize(
    ("stated", "code"),
    [
        ({"kv_blocks": 378}, "ENG004"),
        ({"kv_cache_memory": "100 MiB"}, "ENG004"),
        ({"kv_blocks": 12_000}, "ENG027"),
        ({"kv_cache_memory": "30 GiB"}, "ENG027"),
        ({"kv_cache_memory": "100 MiB", "kv_blocks": 12_000}, "ENG027"),
    ],
)
def test_of_stated_kv_the_nearest_is_kv_which_the_engine_takes_and_no_share(stated, code):
    asked = {"name": "vllm", "reserve": "3 GiB", **stated}
    refused = _fit(context=8192, engine=asked).candidates[0].excluded
    name, _, value = refused.nearest.partition("=")
    assert (refused.code, name) == (code, "kv-blocks" if "kv_blocks" in stated else "kv-cache-memory")
    key = name.replace("-", "_")
    found = _fit(context=8192, engine={**asked, key: int(value) if key == "kv_blocks" else value})
    assert found.verdict.answer == "yes"
    engine = found.body["memory"]["engine"]
    assert engine["request_blocks"] == 512 <= engine["kv_blocks"]
    if code == "ENG027":  # with room for the most that is taken outside, and for no block more
        assert 0 <= engine["free_outside_bytes"] - engine["outside_high_bytes"] < engine["kv_block_bytes"]
    if code == "ENG004":
        less = int(value) - 1 if key == "kv_blocks" else f"{int(value.removesuffix('B')) - 1}B"
        assert _fit(context=8192, engine={**asked, key: less}).candidates[0].excluded.code == "ENG004"


def test_a_share_of_all_memory_leaves_nothing_for_what_the_engine_does_not_count():
    result = _fit(context=8192, engine={"name": "vllm", "gpu_memory_utilization": "1.0", "reserve": "3 GiB"})
    engine, excluded = result.body["memory"]["engine"], result.candidates[0].excluded
    assert (result.verdict.answer, excluded.code) == ("no", "ENG027")
    safe = engine["largest_safe_gpu_memory_utilization"]
    assert excluded.nearest == f"gpu-memory-utilization={safe}"
    for share, room in ((safe, True), (safe + 0.01, False)):
        left = _engine(reserve="3 GiB", gpu_memory_utilization=str(share))["free_outside_bytes"]
        assert (left >= engine["outside_high_bytes"]) is room


@pytest.mark.parametrize("name", ["vllm", "sglang", "tensorrt-llm"])
def test_the_share_that_loads_weights_leaves_nothing_and_stated_weights_move_it(name):
    found = _engine(name=name, reserve="1 GiB")
    share = found["loading_gpu_memory_utilization"]
    if share > 0:
        assert _engine(name=name, reserve="1 GiB", gpu_memory_utilization=share)["available_kv_bytes"] <= 1
    more = _engine(name=name, reserve="1 GiB", weights=f"{found['weights_bytes'] + 10**9} B")
    assert more["weights_basis"] == "stated"
    assert more["available_kv_bytes"] < found["available_kv_bytes"]


@pytest.mark.parametrize(
    ("engine", "code"),
    [
        ({"name": "vllm", "kv_blocks": 0}, "ENG002"),
        ({"name": "vllm", "kv_blocks": 2**31}, "ENG002"),
        ({"name": "vllm", "kv_cache_memory": "0 B"}, "ENG002"),
        ({"name": "vlm"}, "ENG001"),
        ({"name": "vllm", "gpu_memory_utilization": "0"}, "ENG002"),
        ({"name": "vllm", "block_size": 0}, "ENG002"),
        ({"name": "vllm", "rule": {"max_batched_tokens": 0}}, "JOB001"),
    ],
)
def test_a_faulty_engine_option_is_coded(engine, code):
    with pytest.raises(MeshwrightError) as problem:
        _fit(context=8192, engine=engine)
    assert problem.value.code == code


@pytest.mark.parametrize("name", ENGINES.names())
def test_every_engine_names_its_versions_and_sources(name):
    engine = read_engine(name)
    assert engine.versions
    assert engine.facts.sources


@pytest.mark.parametrize("options", [{}, {"shards": "even"}])
def test_the_items_of_a_computed_reserve_add_up_to_the_workspace(options):
    memory = _fit("Qwen/Qwen3-32B", tp=4, pp=2, on="hgx-h100", context=32768, reserve={}, **options).body["memory"]
    assert sum(memory["reserve"].values()) == memory["workspace_bytes"]
    assert memory["per_rank_bytes"] == sum(memory[f"{part}_bytes"] for part in ("parameters", "kv_cache", "workspace"))


def test_fewer_batched_rows_leave_more_room():
    rows = [_fit(context=8192, reserve={"max_batched_tokens": count}).body["memory"] for count in (2048, 8192)]
    assert rows[0]["max_kv_tokens"] > rows[1]["max_kv_tokens"]


def test_every_item_says_what_it_rests_on():
    result = as_json(_fit(context=8192, reserve={}))
    for item in result["memory"]["reserve"]:
        assert result["basis"][f"memory.reserve.{item}"].split(":")[0] in {"formula", "assumed"}


def test_a_plan_itemises_the_reserve_of_each_layout_and_fit_gives_the_same():
    job = build(ServeJob, {"sessions": 4, "context": 32768, "new_tokens": 8}, "job")
    options = build(ServeOptions, {"reserve": {}, "shards": "even", "flips": "none"}, "plan")
    plan = plan_serve(read_model("Qwen/Qwen3-32B"), read_system("hgx-h100"), job, options)
    assert plan.best is not None
    tp, pp = plan.best.layout["tp"], plan.best.layout["pp"]
    held = {"context": job.last_position, "sessions": plan.best.measures["sessions_per_replica"]}
    alone = _fit("Qwen/Qwen3-32B", tp, pp, "hgx-h100", **held, reserve={}, shards="even").body["memory"]
    for name, value in plan.best.memory.items():
        assert alone[name] == value, name
    kept = [item.memory["reserve"] for item in plan.candidates if item.memory]
    assert len({item["activations_bytes"] for item in kept}) > 1


def test_memory_flips_follow_a_computed_reserve():
    """A plan whose reserve is computed still says where its choice changes."""
    job = build(ServeJob, {"sessions": 2, "context": 32768, "new_tokens": 8, "deadline": "1s"}, "job")
    plan = plan_serve(
        read_model("Qwen/Qwen3-32B"), read_system("hgx-h100"), job, build(ServeOptions, {"reserve": {}}, "plan")
    )
    memory = [flip for flip in plan.flips if flip["parameter"] == "system.accelerator.memory"]
    assert memory
    for flip in memory:
        for factor, name in ((0.999, flip["from"]), (1.001, flip["to"])):
            text = f"{int(flip['value'] * factor)} B"
            system = set_path(read_system("hgx-h100"), "accelerator.memory", text)
            again = plan_serve(
                read_model("Qwen/Qwen3-32B"), system, job, build(ServeOptions, {"reserve": {}, "flips": "none"}, "plan")
            )
            chosen = again.best.id if again.best is not None and again.best.excluded is None else None
            assert chosen == name


@pytest.mark.parametrize("name", ["vllm", "sglang", "tensorrt-llm"])
@pytest.mark.parametrize("memory", ["1 GB", "1825361100 B", "1825361101 B", "4 GB"])
def test_a_device_too_small_for_weights_is_a_no_without_a_share_that_would_do(name, memory):
    system = set_path(read_system("hgx-a100-40gb"), "accelerator.memory", memory)
    model = read_model("meta-llama/Llama-3.1-8B")
    result = fit(model, system, replica_layout(model, 1, 1, 1), build(FitOptions, {"engine": {"name": name}}, "fit"))
    assert (result.verdict.answer, result.candidates[0].excluded.code) == ("no", "LAY020")
