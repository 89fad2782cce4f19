"""Wrong answers on experts that the chapters reject: each is what a shortcut gives, and no command says it."""

from __future__ import annotations

import pytest

from tests.ui.program import answer_of

SERVE = (
    "plan",
    "serve",
    "tiny-qwen3-moe",
    "--on",
    "hgx-h100",
    "--context",
    "1K",
    "--new-tokens",
    "8",
    "--flips",
    "none",
)
COPIES = (*SERVE, "--sessions", "64", "--concurrency", "64", "--layout", "dp_replicate=8,tp=1,pp=1,ep=8")
TRAIN = (
    *("plan", "train", "tiny-qwen3-moe", "--on", "hgx-h100", "--tokens", "10M", "--sequence", "1K"),
    *("--global-batch", "64", "--runs", "0", "--finalists", "0", "--flips", "none"),
    *("--layout", "dp_shard=8,tp=1,pp=1,cp=1,ep=8,zero=1,recompute=none,micro_batch=1"),
)
HOT = "counts:1x8,7x4"


def exchanges(*more):
    best = answer_of(*COPIES, "--attention", "data_parallel", *more)["best"]
    return {(item["operation"], item["after"]): item["time_s"] for item in best["groups"]}


def test_combine_is_a_return_to_the_sender_and_no_all_reduce():
    """Chapter "Supernodes", answer 6: neither is dispatch or combine a sum, nor does an all_to_all add."""
    assert set(exchanges()) == {("all_to_all", "router"), ("all_to_all", "experts")}
    dealt = answer_of("experts", "tiny-qwen3-moe", "--on", "hgx-h100", "--tokens", "64", "--ep", "8")
    assert dealt["merges"] == []
    for way in dealt["exchange"]:
        assert way["combine_bytes"] == way["dispatch_bytes"] > 0
    sums = answer_of(*COPIES)["best"]["groups"]  # of copies with the same rows: sums, and nothing is sent
    assert {(item["operation"], item["after"]) for item in sums} == {("all_reduce", "experts")}


def test_a_row_goes_once_to_a_rank_however_many_of_its_experts_are_there():
    """Chapter "Supernodes", answer 7."""
    many, once = (
        sum(exchanges("--dedup", way, "--layout", "dp_replicate=2,tp=1,pp=1,ep=2").values()) for way in ("none", "rank")
    )
    assert once < many


def test_a_step_waits_for_the_busiest_group_of_experts_and_not_for_the_mean():
    """Chapter "Supernodes", answer 8."""
    even, hot = (answer_of(*COPIES, "--attention", "data_parallel", "--expert-reads", way) for way in ("even", HOT))
    assert hot["best"]["exchange_time_s"] > even["best"]["exchange_time_s"]
    assert hot["best"]["flops_per_step"] > even["best"]["flops_per_step"]


def test_a_training_step_waits_for_the_busiest_rank_and_not_for_the_mean():
    """Chapter "Training systems", answer 13: the hot expert has 8 of 36 choices, where the mean has 4.5."""
    mean, hot = (answer_of(*TRAIN, "--routing", way) for way in ("uniform", HOT))
    assert hot["experts"]["busiest_over_even"] == pytest.approx(8 * 8 / 36)
    for part in ("compute_s", "exposed_comm_s"):
        assert hot["best"]["step"][part] > mean["best"]["step"][part]
    assert hot["best"]["memory"]["activations_bytes"] > mean["best"]["memory"]["activations_bytes"]


def test_stages_shorten_no_session():
    """Chapter "Supernodes", answer 15: its next token is no micro-batch that another stage could work on."""
    answer = answer_of(*SERVE, "--sessions", "1", "--layout", "tp=1")
    by_stages = {item["layout"]["pp"]: item["service_time_s"] for item in answer["candidates"]}
    assert len(by_stages) > 2
    assert all(seconds >= by_stages[1] for seconds in by_stages.values())


@pytest.mark.parametrize(("rows", "whole"), [(2, False), (4, True)])
def test_a_batch_that_is_dealt_to_all_experts_reads_all_of_them(rows, whole):
    """Chapter "Supernodes", answer 26: equation 6-8 is of random choices, and leaves some of eight experts out."""
    sessions = str(8 * rows)  # of eight replicas
    asked = (*SERVE, "--sessions", sessions, "--concurrency", sessions, "--layout", "tp=1,pp=1")
    expected, dealt, full = (
        answer_of(*asked, "--expert-reads", way)["best"]["weight_bytes_per_step"]
        for way in ("expected", "even", "full")
    )
    assert expected < dealt
    assert (dealt == full) == whole
