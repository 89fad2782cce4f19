"""Wrong answers about long contexts that an easy shortcut gives, and the command does not."""

from __future__ import annotations

import pytest

from tests.ui.program import answer_of


def asked(study, **settings):
    words = (word for name, value in settings.items() for word in ("--set", f"{name}={value}"))
    return answer_of("study", "run", study, *words)["answer"]


@pytest.mark.parametrize(("vectors", "right"), [("6,4", 2.2185), ("6,2", 2.0), ("3,1", 1.0)])
def test_the_softmax_of_a_cut_context_is_no_mean_of_the_slices_own(vectors, right):
    """Chapter "Supernodes", section 6.2.4: with u = (6, 4) a mean says 3."""
    found = asked("softmax-merge", **{"slices.vectors": vectors})["output"]
    assert found == pytest.approx(right, abs=5e-5)
    one, other = (float(vector) / total for vector, total in zip(vectors.split(","), (3, 1), strict=True))
    assert (found == pytest.approx((one + other) / 2)) == (one == other)


def test_sp_multiplies_no_cards():
    """DP2 x PP2 x TP4 with sp over its tp group is 16 cards, not 64."""
    given = {"degrees.dp_replicate": 2, "degrees.pp": 2, "degrees.tp": 4}
    assert asked("world-size", **given) == 16
    with pytest.raises(AssertionError):
        asked("world-size", **given, sp=4)


@pytest.mark.parametrize("positions", [8, 4096, 131072])
def test_neighbouring_positions_are_no_balanced_split_of_causal_attention(positions):
    contiguous, zigzag = (
        asked("context-split", documents=positions, split=split) for split in ("contiguous", "zigzag")
    )
    assert contiguous["busiest_pairs"] > 2.5 * contiguous["least_pairs"]
    assert zigzag["busiest_pairs"] == zigzag["least_pairs"] == zigzag["pairs"] / 2
    half = positions // 2
    both_alone = half * (half + 1)
    for found in (contiguous, zigzag):
        assert sum(part["pairs"] for part in found["ranks"]) == found["pairs"] > 1.5 * both_alone


@pytest.mark.parametrize("model", ["Qwen/Qwen3-30B-A3B", "Qwen/Qwen3.6-35B-A3B"])
def test_a_balanced_batch_reads_every_expert_and_not_how_many_it_would_by_chance(model):
    """Rejected answer 26: 64 tokens make 512 choices, which cover 128 or 256 experts; equation 6-8 expects fewer."""
    rows = {batch: asked("long-context", models=model, batch=batch)["rows"][0] for batch in (1, 64, 640)}
    read = rows[64]["balanced_step_weight_bytes"]
    assert read == rows[640]["balanced_step_weight_bytes"]
    assert rows[64]["uniform_step_weight_bytes"] < read < rows[64]["parameters_bytes"]
    assert rows[64]["weight_read_s"] == pytest.approx(read / 3.35e12)
    assert rows[1]["balanced_step_weight_bytes"] < read / 8


def test_context_parallelism_is_no_ring_and_no_name_of_one_exchange():
    """Rejected answer 22: what ranks of cp send depends on the step and the choice, and is named with its group."""
    ways = asked("context-parallel", tokens=8192)["prompt"]
    assert {row["exchange"] for row in ways} == {"ring", "all_gather", "ulysses"}
    line = ("plan", "serve", "Qwen/Qwen3-32B", "--on", "hgx-h100", "--sessions", "1", "--context", "8K")
    line = (*line, "--new-tokens", "8", "--flips", "none", "--layout")
    sent = {}
    for attention in ("replicated", "context_parallel"):
        groups = answer_of(*line, f"tp=2,cp=4,pp=1,attention={attention}")["best"]["groups"]
        assert "ring" not in {group["operation"] for group in groups}
        sent[attention] = [(group["operation"], group["axis"], group["ranks"]) for group in groups]
    assert sent["replicated"] == [("all_reduce", "tp", 2)] * 2 + [("merge", "cp", 4)]
    assert sent["context_parallel"] == [("all_reduce", "tp", 8)] * 2 + [("merge", "cp", 4)]


def test_what_engines_call_sequence_parallel_is_two_fields_of_a_layout():
    """Rejected answer 22: DeepSpeed's share positions of attention, Megatron-Core's those of rows in a tp group."""
    engines = {item["id"]: item["axes"] for item in answer_of("list", "engines")["items"]}
    carried = {name: {field for field, axis in axes.items() if "sequence" in axis} for name, axes in engines.items()}
    assert carried["deepspeed"] == {"cp"}
    assert carried["megatron-core"] == carried["torchtitan"] == {"sp"}
    assert "context" in engines["megatron-core"]["cp"]
    assert "decode-context" in engines["vllm"]["cp"]
