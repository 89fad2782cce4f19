"""Training FLOPs: counts done by hand from the shapes, and what other tools print for the same models."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.base.errors import JobError
from meshwright.base.traced import leaf
from meshwright.cost.model_flops import (
    CONVENTIONS,
    active_parameters,
    flops_per_token,
    forward_flops,
    job_flops,
    mfu,
    model_flops,
    read_convention,
    step_flops,
)
from meshwright.model.reader import read_config, read_model
from meshwright.workload.operators import operators

QWEN3_8B = read_model("Qwen/Qwen3-8B")
LLAMA_8B = read_model("meta-llama/Llama-3.1-8B")
QWEN3_30B = read_model("Qwen/Qwen3-30B-A3B")
TINY = {
    "model_type": "qwen3", "hidden_size": 8, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 6, "vocab_size": 50, "tie_word_embeddings": False,
}  # fmt: skip


def test_qwen3_8b_costs_52_657225728_gflop_a_token_at_8192():
    """Chapter "Training systems", section 10.1.3 (S10-07)."""
    assert flops_per_token(QWEN3_8B, 8192) == 52_657_225_728
    assert model_flops(QWEN3_8B, 8192) == 431_367_993_163_776
    assert step_flops(QWEN3_8B, 8192, 384) == 384 * 431_367_993_163_776
    assert job_flops(QWEN3_8B, 8192, 10**11) == 52_657_225_728 * 10**11


def test_shapes_count_every_product_thrice_and_no_lookup():
    """Two layers by hand: q, k, v, o of 4 query and 2 KV heads of 6, a gated feed-forward, the head, pairs."""
    s = 10
    weights = 2 * (8 * 24 + 2 * 8 * 12 + 24 * 8 + 3 * 8 * 24) + 50 * 8
    pairs = s * (s + 1) // 2
    assert model_flops(read_config(TINY, "tiny"), s) == 6 * s * weights + 3 * 2 * 4 * (4 * 6) * pairs


def test_a_window_shortens_attention_of_its_layers_only():
    layered = TINY | {
        "model_type": "gemma2",
        "sliding_window": 4,
        "layer_types": ["sliding_attention", "full_attention"],
    }
    model = read_config(layered, "windowed")
    whole = read_config(layered | {"layer_types": ["full_attention"] * 2}, "whole")
    outside = sum(max(0, position - 4) for position in range(1, 11))
    assert model_flops(whole, 10) - model_flops(model, 10) == 3 * 4 * 24 * outside


def test_a_mixture_pays_for_the_experts_a_token_visits_the_shared_one_and_the_router():
    glm = read_model("zai-org/GLM-4.5-Air")
    named = {item.name: forward_flops(item, 3) for item in operators(glm)}
    assert named["mlp.gate"] == 2 * 3 * 128 * 4096
    assert named["mlp.experts.up_proj"] == 2 * 3 * 8 * 4096 * 1408
    assert named["mlp.shared_expert.up_proj"] == 2 * 3 * 4096 * 1408


def test_torchtitan_prints_57_91_gflop_for_llama_3_8b_and_37_58_for_qwen3_30b():
    """pytorch/torchtitan issues 1884 and 4300, at 8192 tokens; the second prints the count to the last digit."""
    assert flops_per_token(LLAMA_8B, 8192, "torchtitan") == pytest.approx(57.91e9, rel=1e-4)
    assert flops_per_token(QWEN3_30B, 8192, "torchtitan") == 37_578_559_488
    assert flops_per_token(QWEN3_30B, 8192, "all-experts") == 192_856_412_160, "what the other backend prints"


def test_a_fork_of_torchtitan_prints_23_05_gflop_at_2048():
    """NousResearch/torchtitan issue 19: 341 TFLOP/s at 14,796 tokens/s."""
    assert flops_per_token(QWEN3_30B, 2048, "torchtitan") == pytest.approx(341e12 / 14_796, rel=2e-3)


def test_palm_540b_reaches_its_published_46_2_percent():
    """arXiv:2204.02311, appendix B: 238.3 thousand tokens/s on 6,144 chips of 275 TFLOP/s; one table for both ends."""
    n, layers, heads, width, length = 540.35e9, 118, 48, 256, 2048
    told = 6 * n + 12 * layers * heads * width * length
    assert mfu(238.3e3, told, 6144, 275e12) == pytest.approx(0.462, abs=5e-4)


def test_other_conventions_are_their_formulas():
    hidden, layers, heads, total, vocab, s = 4096, 36, 32 * 128, 8_190_735_360, 151_936, 8192
    table = vocab * hidden
    gpt = 1 + s / (6 * hidden) + vocab / (16 * layers * hidden)
    expected = {
        "6n": 6 * total,
        "llm-foundry": 6 * total + 12 * layers * hidden * s,
        "palm": 6 * (total - table) + 12 * layers * heads * s,
        "megatron": 6 * (total - table) + 6 * layers * heads * s,
        "sc21": 96 * layers * hidden**2 * gpt,
    }
    for name, flops in expected.items():
        assert flops_per_token(QWEN3_8B, s, name) == pytest.approx(flops, rel=1e-12), name


def test_a_tied_head_is_a_product_in_every_convention_that_drops_the_input_table():
    tied, untied = (read_config(TINY | {"tie_word_embeddings": tied}, "tiny") for tied in (True, False))
    for name in CONVENTIONS.names():
        same = flops_per_token(tied, 16, name) == flops_per_token(untied, 16, name)
        assert same == (read_convention(name).blocks not in {"parameters", "all_parameters"}), name
    assert active_parameters(untied) - active_parameters(tied) == 50 * 8


def test_columns_give_what_each_length_gives():
    lengths = np.array([1, 128, 8192, 131072])
    for name in CONVENTIONS.names():
        column = model_flops(QWEN3_30B, lengths, name)
        assert column.tolist() == [model_flops(QWEN3_30B, length, name) for length in lengths.tolist()]


def test_traced_lengths_give_the_same_numbers_recorded():
    length = leaf(8192, "job.sequence", basis="assumed")
    for name in CONVENTIONS.names():
        found = model_flops(QWEN3_8B, length, name)
        assert (found.value, found.label) == (model_flops(QWEN3_8B, 8192, name), "model_flops")


def test_an_unknown_convention_names_the_nearest():
    with pytest.raises(JobError, match="JOB060") as caught:
        model_flops(QWEN3_8B, 8192, "torchtitans")
    assert "torchtitan" in caught.value.fix


def test_mfu_is_the_share_of_all_devices_peaks():
    """pytorch/torchtitan issue 1884: 5,615 tokens/s a device and 325.2 TFLOP/s are 32.88 % of 989."""
    per_token = flops_per_token(LLAMA_8B, 8192, "torchtitan")
    assert mfu(4 * 5615, per_token, 4, 989e12) == pytest.approx(0.3288, abs=5e-5)


def test_megatron_bridge_prints_the_tflops_of_its_convention():
    """NVIDIA-NeMo/Megatron-Bridge, performance-summary-archive.md, container 25.11: TFLOP/s and tokens/s a device."""
    llama, mixture = read_model("meta-llama/Meta-Llama-3-70B"), QWEN3_30B
    for model, length, tokens_per_s, tflops in ((llama, 8192, 4520, 2030), (mixture, 4096, 28_934, 666)):
        found = flops_per_token(model, length, "megatron") * tokens_per_s
        assert found == pytest.approx(tflops * 1e12, rel=0.01), model.name


def test_llm_foundry_prints_the_mfu_of_its_convention():
    """mosaicml/llm-foundry, benchmarking README: MPT-70b at 2048, 1,007 tokens/s an H100 are 41.25 % of 989.4."""
    shapes = {"layers": 80, "hidden": 8192, "heads": 64, "vocab": 50368, "gated": False, "norm": "layer", "tied": True}
    model = read_config({"model_type": "decoder", **shapes}, "mpt-70b")
    assert mfu(1007, flops_per_token(model, 2048, "llm-foundry"), 1, 989.4e12) == pytest.approx(0.4125, abs=5e-4)


def test_sc21_reproduces_a_row_of_its_table():
    """arXiv:2104.04473, table 1: GPT 18.4B, 1,024 sequences on 256 devices at 135 TFLOP/s each are steps of 9.4 s."""
    shapes = {"layers": 40, "hidden": 6144, "heads": 48, "vocab": 51200, "gated": False, "norm": "layer", "tied": True}
    model = read_config({"model_type": "decoder", **shapes}, "gpt-18b")
    assert step_flops(model, 2048, 1024, "sc21") / (256 * 135e12) == pytest.approx(9.40, rel=2e-3)
