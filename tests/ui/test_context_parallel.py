"""Ranks of cp in `fit` and `plan serve`, as they are typed: what is shared, what is refused, what is said."""

from __future__ import annotations

import pytest

from tests.ui.program import answer_of, meshwright

_KIMI = ("moonshotai/Kimi-K2.5", "--on", "hgx-h200")
_SHARED = ("--layout", "attention=context_parallel")
_PLAN = (
    "plan", "serve", "Qwen/Qwen3-32B", "--on", "hgx-h100", "--sessions", "1", "--context", "128K", "--new-tokens", "8",
    "--flips", "none",
)  # fmt: skip


def fitted(*typed):
    return answer_of("fit", *_KIMI, "--context", "128K", *typed)


def test_latent_rows_that_every_rank_of_tp_repeats_are_shared_by_cp():
    """Kimi K2.5 over eight devices: 61 layers of 576 elements of bf16 a position, or an eighth of them."""
    tp, cp = fitted("--tp", "8")["memory"], fitted("--cp", "8", *_SHARED)["memory"]
    assert tp["kv_bytes_per_token"] == 61 * 576 * 2 == 8 * cp["kv_bytes_per_token"]
    assert tp["kv_cache_bytes"] == 8 * cp["kv_cache_bytes"]
    assert cp["parameters_bytes"] == tp["parameters_bytes"]
    assert cp["max_kv_tokens"] == pytest.approx(8 * tp["max_kv_tokens"], rel=1e-5)


def test_ranks_of_cp_that_repeat_the_weights_hold_them_whole():
    """Of a dense model: the weights of tp=2 on each of eight ranks, whose KV is that of a quarter of the positions.

    Ranks that share the weights repeat K and V projections alone.
    """
    line = ("fit", "Qwen/Qwen3-32B", "--on", "hgx-h100", "--tp", "2", "--context", "128K")
    alone, repeated, shared = (
        answer_of(*line, *more)["memory"] for more in ((), ("--cp", "4"), ("--cp", "4", *_SHARED))
    )
    assert repeated["parameters_bytes"] == alone["parameters_bytes"] > 3.7 * shared["parameters_bytes"]
    assert alone["kv_cache_bytes"] == 4 * repeated["kv_cache_bytes"] == 4 * shared["kv_cache_bytes"]


def test_an_engine_s_pool_counts_a_block_on_each_rank():
    tp, cp = (fitted(*more, "--engine", "vllm", "--engine-reserve", "4GiB")["memory"]["engine"]
              for more in (("--tp", "8"), ("--cp", "8", *_SHARED)))  # fmt: skip
    assert cp["kv_blocks"] == tp["kv_blocks"]
    assert cp["kv_tokens"] == 8 * tp["kv_tokens"]
    assert cp["max_concurrency"] == pytest.approx(8 * tp["max_concurrency"], rel=1e-3)


def test_an_engine_refuses_what_its_decode_context_parallelism_does_not_take():
    """It adds no ranks to those of tensor parallelism, and these divide the heads."""
    line = ("fit", *_KIMI, "--context", "8K", "--engine", "vllm", "--cp")
    found = answer_of(*line, "8", code=1)["candidates"][0]["excluded"]
    assert (found["code"], found["nearest"]) == ("ENG026", "cp=1")
    found = answer_of(*line, "3", *_SHARED, code=1)["candidates"][0]["excluded"]
    assert (found["code"], found["nearest"]) == ("ENG012", "cp=1,etp=1")
    assert "tensor parallel size (3)" in found["reason"]


def test_kv_heads_that_no_rank_repeats_are_not_shared_by_vllm():
    """Eight KV heads over tp=4: each rank has two of its own."""
    line = ("fit", "Qwen/Qwen3-32B", "--on", "hgx-h100", "--tp", "4", "--cp", "2", "--context", "8K", *_SHARED)
    assert answer_of(*line)["verdict"]["answer"] == "yes"
    refused = answer_of(*line, "--engine", "vllm", code=1)["candidates"][0]["excluded"]
    assert (refused["code"], refused["limit"]) == ("ENG026", "engine")
    assert "repeat each of 8 KV heads" in refused["reason"]


def test_a_plan_tries_the_degrees_of_cp_that_it_is_given():
    plain, wide = answer_of(*_PLAN), answer_of(*_PLAN, "--cp", "1,2,4")
    assert {item["layout"]["cp"] for item in plain["candidates"]} == {1}
    assert {item["layout"]["cp"] for item in wide["candidates"]} == {1, 2, 4}
    known = {item["id"]: item for item in wide["candidates"]}
    assert all(known[item["id"]] == item for item in plain["candidates"])
    assert any(text.startswith("cp:") for text in wide["not_modelled"])
    assert not any(text.startswith("cp:") for text in plain["not_modelled"])


def test_a_plan_names_the_merge_and_its_ranks():
    shared = answer_of(*_PLAN, "--layout", "tp=2,cp=4,pp=1,attention=context_parallel")["best"]
    merge = next(group for group in shared["groups"] if group["operation"] == "merge")
    assert (merge["axis"], merge["ranks"], merge["calls_per_step"], merge["message_bytes"]) == ("cp", 4, 64, 16896)
    assert {group["ranks"] for group in shared["groups"] if group["axis"] == "tp"} == {8}
    assert shared["id"] == "replicas=1,tp=2,cp=4,pp=1,attention=context_parallel"


def test_the_next_command_of_a_plan_asks_for_its_own_layout():
    found = answer_of(*_PLAN, "--layout", "tp=2,cp=4,pp=1,attention=context_parallel")
    typed = next(line for line in found["next_commands"] if " fit " in line).split()[1:]
    again = answer_of(*typed)
    assert again["candidates"][0]["layout"] == found["best"]["layout"]


def test_a_batch_over_ranks_of_cp_merges_a_row_of_each_session():
    line = ("--layout", "tp=2,cp=4,pp=1", "--discipline", "continuous", "--sessions", "4")
    found = answer_of(*_PLAN, *line)["best"]
    merge = next(group for group in found["groups"] if group["operation"] == "merge")
    assert merge["message_bytes"] == found["batch"] * 66560


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        (("--cp", "0"), "LAY001"),
        (("--cp", "16"), "LAY002"),
        (("--layout", "cp=8,tp=1,pp=1", "--cp-exchange", "ulysses"), None),
        (("--layout", "cp=2,attention=data_parallel"), "LAY012"),
    ],
)
def test_degrees_that_cannot_be_are_refused(typed, code):
    found = meshwright(*_PLAN, *typed, "--format", "json")
    assert (found.answer["error"]["code"] if found.code == 2 else None) == code


def test_heads_that_ulysses_cannot_deal_exclude_a_layout_and_experts_beyond_tp_too():
    line = ("plan", "serve", "Qwen/Qwen3-30B-A3B", "--on", "hgx-h100 x8", "--sessions", "1", "--context", "8K",
            "--new-tokens", "8", "--flips", "none")  # fmt: skip
    found = meshwright(*line, "--layout", "tp=1,cp=64,pp=1", "--cp-exchange", "ulysses", "--format", "json").answer
    assert found["error"]["code"] == "LAY050"
    found = meshwright(*line, "--layout", "tp=1,cp=2,ep=2,pp=1", "--format", "json").answer
    assert (found["error"]["code"], found["error"]["fix"]) == ("LAY052", "--layout attention=context_parallel")
    typed = "tp=1,cp=2,pp=1,ep=4,dp_replicate=2,attention=context_parallel"
    found = meshwright(*line, "--attention", "any", "--layout", typed, "--format", "json").answer
    assert (found["error"]["code"], found["error"]["fix"]) == ("LAY053", "--layout dp_replicate=1,ep=2")


def test_a_recurrence_that_cannot_follow_positions_excludes_a_layout():
    line = ("plan", "serve", "Qwen/Qwen3.6-35B-A3B", "--on", "hgx-h100", "--sessions", "1", "--context", "8K",
            "--new-tokens", "8", "--flips", "none", "--layout", "tp=1,cp=2,pp=1", "--format", "json")  # fmt: skip
    assert meshwright(*line, "--cp-split", "striped").answer["error"]["code"] == "LAY051"
    assert meshwright(*line).code == 0


def test_every_number_of_a_step_over_cp_is_explained(tmp_path):
    for name in ("cp=4,tp=2,pp=1", "cp=4,tp=2,pp=1,attention=context_parallel"):
        saved = tmp_path / f"{name}.json"
        saved.write_text(meshwright(*_PLAN, "--layout", name, "--format", "json").out, encoding="utf-8")
        found = answer_of("explain", str(saved), "best.step_time_s")
        assert found["verdict"]["answer"] == "yes"
