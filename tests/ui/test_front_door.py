"""The fields that other tools rely on (design, section 9), for every verb."""

from __future__ import annotations

import pytest

from tests.ui.lines import Saved, typed
from tests.ui.program import answer_of

_QWEN = "Qwen/Qwen3-32B"
_PLAN = ("plan", "serve", _QWEN, "--on", "hgx-h100", "--sessions", "4", "--context", "32K", "--new-tokens", "8")
_LINES = {
    "inspect": ("inspect", _QWEN),
    "fit": ("fit", _QWEN, "--on", "hgx-h100", "--tp", "4", "--context", "8K"),
    "plan serve": (*_PLAN, "--deadline", "1s"),
    "explain": ("explain", Saved("fit"), "memory.per_rank_bytes"),
    "compare": ("compare", Saved("fit"), Saved("fit")),
    "list": ("list", "systems"),
    "study list": ("study", "list"),
    "study run": ("study", "run", "tp-scaling"),
}
_EVERY = {
    "schema_version", "command", "verdict", "inputs", "defaulted", "best", "candidates", "flips", "sensitivity",
    "not_modelled", "sources",
}  # fmt: skip
_LAYOUT = {
    "replicas", "tp", "sp", "cp", "pp", "virtual_stages", "ep", "etp", "dp_shard", "dp_replicate", "zero", "schedule",
    "micro_batch", "recompute", "offload", "attention",
}  # fmt: skip
_FIT_MEMORY = {
    "parameters_bytes", "kv_cache_bytes", "workspace_bytes", "per_rank_bytes", "capacity_bytes", "max_sessions",
    "max_kv_tokens",
}  # fmt: skip
_PARTS = {"total", "embedding", "attention", "feed_forward", "experts", "router", "norms", "head", "other"}
_INSPECT = {
    "parameters", "parameter_bytes", "active_parameters", "kv_bytes_per_token", "kv_bytes_per_token_by_kind",
    "fixed_state_bytes", "flops_per_token", "weight_bytes_per_step", "apart", "defaulted",
}  # fmt: skip


@pytest.fixture(scope="module")
def answers():
    return {name: answer_of(*typed(line)) for name, line in _LINES.items()}


@pytest.mark.parametrize("verb", _LINES)
def test_every_answer_has_the_common_fields(answers, verb):
    answer = answers[verb]
    assert set(answer) >= _EVERY
    assert answer["command"] == verb
    assert set(answer["verdict"]) == {"answer", "text"}
    assert answer["verdict"]["answer"] == "yes"
    assert set(answer["inputs"]) == {"model", "system", "job", "layout", "options"}
    assert all(
        isinstance(answer[name], list) for name in ("defaulted", "candidates", "flips", "sensitivity", "sources")
    )


@pytest.mark.parametrize("verb", ["fit", "plan serve"])
def test_every_candidate_has_its_fields(answers, verb):
    for item in answers[verb]["candidates"]:
        assert set(item) >= {"id", "layout", "fits", "excluded", "memory"}
        assert set(item["layout"]) == _LAYOUT
        assert item["excluded"] is None or set(item["excluded"]) == {"code", "reason", "nearest", "limit"}
        assert item["fits"] or item["excluded"]


def test_the_best_is_one_of_the_candidates(answers):
    answer = answers["plan serve"]
    assert answer["best"] == answer["candidates"][0]
    assert len({item["id"] for item in answer["candidates"]}) == len(answer["candidates"])


def test_fit_says_its_memory_at_the_top(answers):
    assert set(answers["fit"]["memory"]) >= _FIT_MEMORY


def test_fit_memory_adds_up(answers):
    memory = answers["fit"]["memory"]
    parts = memory["parameters_bytes"] + memory["kv_cache_bytes"] + memory["workspace_bytes"]
    assert parts == memory["per_rank_bytes"]


def test_inspect_has_its_fields(answers):
    answer = answers["inspect"]
    assert set(answer) >= _INSPECT
    assert set(answer["parameters"]) == set(answer["parameter_bytes"]) == _PARTS
    assert set(answer["apart"]) == {"vision", "mtp", "buffers"}


@pytest.mark.parametrize("name", ["parameters", "parameter_bytes"])
def test_parts_of_inspect_add_up(answers, name):
    parts = dict(answers["inspect"][name])
    assert parts.pop("total") == sum(parts.values())


@pytest.mark.parametrize("kind", ["models", "systems", "accelerators", "links", "collectives", "engines"])
def test_a_catalog_names_each_entry_once_and_its_sources(kind):
    items = answer_of("list", kind)["items"]
    assert items
    assert len({item["id"] for item in items}) == len(items)
    for item in items:
        assert all(set(source) == {"key", "title", "place", "read"} for source in item["sources"])
        assert item["sources"] or kind == "collectives", item["id"]


def test_a_study_has_its_answer_and_its_source(answers):
    answer = answers["study run"]
    assert [row["tp"] for row in answer["answer"]]
    assert answer["sources"]


def test_inputs_are_enough_to_ask_again(answers):
    inputs = answers["plan serve"]["inputs"]
    assert inputs["job"] == {
        "sessions": 4, "context": 32768, "new_tokens": 8, "deadline": 1.0, "deadline_from": None,
        "on_time": 1.0, "discipline": "fifo", "ttft": None, "tpot": None, "concurrency": None,
    }  # fmt: skip
    assert inputs["options"] == {
        "objective": "cost", "all_reduce": "auto", "weight_reads": "strict", "workspace": 2 * 2**30,
        "basis": "datasheet", "all_reduce_time": None, "power_budget": None, "power_base": 0.0, "fault": None,
        "flips": "search", "expert_reads": "expected", "prefill": "cached", "reserve": None, "shards": "strict",
    }  # fmt: skip
    assert inputs["system"]["accelerator"]["memory"] == 80_000_000_000
    assert inputs["model"]["hidden"] == 5120


def test_set_changes_the_field_that_it_names_and_the_answer(answers):
    faster = answer_of(*_LINES["plan serve"], "--set", "system.accelerator.memory_bandwidth=6.7 TB/s")
    assert faster["inputs"]["system"]["accelerator"]["memory_bandwidth"] == 6.7e12
    assert faster["best"]["step_time_s"] < answers["plan serve"]["best"]["step_time_s"]


def test_a_fixed_layout_leaves_only_layouts_that_have_it():
    found = answer_of(*_PLAN, "--layout", "tp=4")["candidates"]
    assert {item["layout"]["tp"] for item in found} == {4}
    assert {item["layout"]["pp"] for item in found} == {1, 2}


def test_layout_stands_above_the_degrees_of_fit():
    answer = answer_of("fit", "Qwen/Qwen3-235B-A22B", "--on", "hgx-h100", "--tp", "3", "--layout", "tp=8,ep=2")
    layout = answer["candidates"][0]["layout"]
    assert (layout["tp"], layout["ep"], layout["etp"]) == (8, 2, 4)


def test_the_same_question_has_the_same_bytes():
    assert answer_of(*_PLAN) == answer_of(*_PLAN)


_BATCH = ("plan", "serve", _QWEN, "--on", "hgx-h100", "--sessions", "64", "--context", "8K", "--new-tokens", "256")
_BATCH_FIELDS = {
    "batch", "in_flight", "capacity_batch", "tpot_s", "ttft_s", "tokens_per_s", "tokens_per_s_per_gpu",
    "tokens_per_s_per_user", "cost_gpu_s_per_million_tokens", "tpot_with_prefill_s", "step_time_s", "limited_by",
    "step_bound", "weight_bytes_per_step", "state_bytes_per_step", "groups",
}  # fmt: skip
_POINT = {
    "id", "batch", "in_flight", "tpot_s", "ttft_s", "tokens_per_s", "tokens_per_s_per_gpu", "tokens_per_s_per_user",
    "limited_by", "breaks",
}  # fmt: skip


def test_a_bound_on_a_token_is_answered_with_batches_and_a_front():
    answer = answer_of(*_BATCH, "--tpot", "30ms")
    assert set(answer) >= _EVERY
    assert answer["verdict"]["answer"] == "yes"
    assert answer["inputs"]["job"]["discipline"] == "continuous"
    assert answer["inputs"]["options"]["objective"] == "cost"
    assert all(set(item) >= _BATCH_FIELDS for item in answer["candidates"])
    assert answer["best"]["tpot_s"] <= 0.03
    assert answer["best"]["in_flight"] == 64
    assert answer["pareto"]
    assert all(set(point) == _POINT for point in answer["pareto"])
    assert answer["best"]["tokens_per_s_per_gpu"] <= answer["pareto"][-1]["tokens_per_s_per_gpu"]


def test_routing_and_prompts_are_named_options_of_a_batch():
    mixture = ("plan", "serve", "Qwen/Qwen3-30B-A3B", *_BATCH[3:], "--tpot", "30ms", "--layout", "tp=8,pp=1,ep=1")
    reads = {name: answer_of(*mixture, "--expert-reads", name)["best"] for name in ("expected", "full", "100")}
    weights = [reads[name]["weight_bytes_per_step"] for name in ("100", "expected", "full")]
    assert weights == sorted(set(weights))
    mixed = answer_of(*mixture, "--prefill", "between-steps")
    assert mixed["inputs"]["options"]["prefill"] == "between_steps"
    assert mixed["best"]["tpot_s"] == reads["expected"]["tpot_with_prefill_s"]
