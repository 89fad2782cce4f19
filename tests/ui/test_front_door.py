"""The fields that other tools rely on (design, section 9), for every verb."""

from __future__ import annotations

import re

import pytest

from meshwright.base.leaves import leaves
from tests.ui.lines import Saved, typed
from tests.ui.program import answer_of, drawn

_QWEN = "Qwen/Qwen3-32B"
_PLAN = ("plan", "serve", _QWEN, "--on", "hgx-h100", "--sessions", "4", "--context", "32K", "--new-tokens", "8")
_TRAIN = ("plan", "train", "Qwen/Qwen3-8B", "--tokens", "100B", "--sequence", "8K", "--global-batch", "384")
_FIXED = ("--layout", "zero=3,micro_batch=1,tp=1,cp=1,pp=1,dp_replicate=1", "--activation-budget", "10GiB")
_LINES = {
    "inspect": ("inspect", _QWEN),
    "fit": ("fit", _QWEN, "--on", "hgx-h100", "--tp", "4", "--context", "8K"),
    "plan serve": (*_PLAN, "--deadline", "1s"),
    "plan train": (*_TRAIN, "--on", "rtx4090-host x6", *_FIXED),
    "explain": ("explain", Saved("fit"), "memory.per_rank_bytes"),
    "run train": ("run", "train", "--model", "tiny-qwen3", "--steps", "1", "--global-batch", "1", "--sequence", "8"),
    "verify parity": ("verify", "parity", "--layout", "tp=2", "--steps", "1", "--global-batch", "2"),
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
    found = {name: drawn(*typed(line), form=("--format", "json")) for name, line in _LINES.items()}
    assert {item.code for item in found.values()} == {0}
    return {name: item.answer for name, item in found.items()}


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


@pytest.mark.parametrize("verb", ["fit", "plan serve", "plan train"])
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
        "attention_form": "by_phase", "engine": None, "attention": "replicated", "dedup": "rank",
        "dispatch": "plain", "combine": "plain", "cp": [1], "cp_split": "zigzag", "cp_exchange": "ring",
    }  # fmt: skip
    assert inputs["system"]["accelerator"]["memory"] == 80_000_000_000
    assert inputs["model"]["hidden"] == 5120


def test_inputs_of_a_training_plan_are_enough_to_ask_again(answers):
    inputs = answers["plan train"]["inputs"]
    assert inputs["job"] == {
        "tokens": 100_000_000_000, "sequence": 8192, "global_batch": 384, "deadline": None, "reserve": 0.0,
        "noise_scale": None, "padding": 0.0,
        "recipe": {
            "compute": "bf16", "parameters": "bf16", "fp8_copy": "none", "gradients": "bf16", "master": "fp32",
            "optimizer": "adamw", "lora_rank": 0, "lora_targets": [],
        },
    }  # fmt: skip
    assert inputs["options"] == {
        "objective": "date", "efficiency": None, "efficiency_kind": "model_flops", "prefetch": "on", "nic": "own",
        "cp_split": "zigzag", "cp_exchange": "ring", "input_wait": None, "prep_workers": None, "prep_rate": None,
        "engine": None, "activation_budget": 10 * 2**30,
        "usable_memory": None, "workspace": 2 * 2**30, "kernel": "flash", "loss": "materialised", "shards": "even",
        "elementwise": "eager", "card_mtbf": None, "job_mtbf": None, "common_mode_mtbf": [],
        "checkpoint_interval": 1800.0, "checkpoint_copy": None, "storage_write": None, "restart": 120.0,
        "straggler_sigma": 0.0, "slow_sigmas": 3.0, "slow_steps": 1, "spike_interval": None, "price": None,
        "host_memory": None, "host_bandwidth": None, "host_link": None, "runs": 1000, "seed": 0,
        "flips": "search", "basis": "datasheet", "keep": 20, "finalists": 3, "routing": "even", "capacity_factor": None,
    }  # fmt: skip
    assert inputs["layout"] == {"zero": 3, "micro_batch": 1, "tp": 1, "cp": 1, "pp": 1, "dp_replicate": 1}
    assert inputs["system"]["accelerator"]["memory"] == 24_000_000_000


def test_a_training_plan_adds_up(answers):
    for item in answers["plan train"]["candidates"]:
        step, calendar, memory = dict(item["step"]), dict(item["calendar"]), item["memory"]
        assert step.pop("total_s") == pytest.approx(sum(step.values()), rel=1e-12)
        assert calendar.pop("total_s") == pytest.approx(sum(calendar.values()), rel=1e-12)
        resident = memory["parameters_bytes"] + memory["gradients_bytes"] + memory["optimizer_state_bytes"]
        beside = ("activations_bytes", "gathered_bytes", "transient_bytes", "workspace_bytes")
        assert memory["resident_bytes"] == resident
        assert memory["per_rank_bytes"] == resident + memory["activation_budget_bytes"]
        assert memory["computed_bytes"] == resident + sum(memory[name] for name in beside)
        assert item["exposed_fraction"] == step["exposed_comm_s"] / item["step"]["total_s"]


def test_every_number_of_a_training_plan_has_a_basis(answers):
    answer = answers["plan train"]
    basis = answer["basis"]

    def told(path):
        parts = re.split(r"\.|(?=\[\d)", path)
        return any(".".join(parts[:length]) in basis for length in range(1, len(parts) + 1))

    searched = {"devices", "nodes", "searched", "id", "layout", "fits"}
    for block, record in (("candidates[]", answer["best"]), ("systems[]", answer["systems"][0])):
        named = [path for path, value in leaves(record).items() if type(value) in {int, float}]
        missing = [path for path in named if path.partition(".")[0] not in searched and not told(f"{block}.{path}")]
        assert missing == []
    blocks = {"overheads", "stragglers", "input", "scaling", "offload", "initialisation", "limits"}
    own = {"steps", "step_tokens", "executed_step_tokens", "save_bytes", "save_s", "failures_per_s"}
    assert blocks | own <= set(basis)


def test_systems_of_a_list_stand_side_by_side():
    line = (*_TRAIN, "--on", "rtx4090-host x6,rtx4090-host x4", *_FIXED, "--price", "0.5")
    answer = answer_of(*line)
    assert [row["id"] for row in answer["systems"]] == ["rtx4090-host x6", "rtx4090-host x4"]
    assert [row["devices"] for row in answer["systems"]] == [48, 32]
    assert [item["id"] for item in answer["inputs"]["system"]["systems"]] == ["rtx4090-host x6", "rtx4090-host x4"]
    assert answer["best"] == answer["candidates"][0]
    assert answer["best"]["id"] == f"rtx4090-host x6: {answer_of(*_LINES['plan train'])['best']['id']}"
    assert len({item["id"] for item in answer["candidates"]}) == len(answer["candidates"])
    six, four = answer["systems"]
    assert six["finish_s"] < four["finish_s"]
    assert four["gpu_hours"] < six["gpu_hours"]
    assert four["cost"] == four["gpu_hours_with_stops"] * 0.5
    for objective, name in (("date", "x6"), ("cost", "x4"), ("gpu-hours", "x4")):
        chosen = answer_of(*line, "--objective", objective, "--flips", "none")
        assert chosen["best"]["system"] == f"rtx4090-host {name}"
        assert chosen["verdict"]["text"].startswith(f"rtx4090-host {name} ")


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
