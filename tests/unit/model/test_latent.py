"""Latent, sparse and compressed attention: what a layer keeps, what it runs in each form, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from meshwright.base.parse import rebuild
from meshwright.base.result import plain
from meshwright.cost.memory import serving_ledger
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.layout.rules import first_broken
from meshwright.model.mixers import CompressedAttention, LatentAttention
from meshwright.model.mixers.compressed import Compressor
from meshwright.model.mixers.latent import Indexer
from meshwright.model.model import Block, Model, block_weights, parameter_counts
from meshwright.model.reader import read_config, read_model
from meshwright.scenarios.inspect import cached_bytes, fixed_state_bytes, kv_by_kind, prefill_flops, token_work
from meshwright.workload.operators import operators
from tests.unit.model.configs import refusal

V3: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 24,
    "moe_intermediate_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "q_lora_rank": 6,
    "kv_lora_rank": 10,
    "qk_nope_head_dim": 4,
    "qk_rope_head_dim": 2,
    "v_head_dim": 3,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
    "num_nextn_predict_layers": 0,
    "torch_dtype": "bfloat16",
}
SPARSE = LatentAttention(
    heads=4,
    query_rank=6,
    kv_rank=10,
    nope_dim=4,
    rope_dim=2,
    value_dim=3,
    top_k=5,
    indexer=Indexer(index_heads=2, index_dim=8),
)


def small(mixer) -> Model:
    model = read_config(V3, "small")
    groups = (replace(group, block=replace(group.block, mixer=mixer)) for group in model.groups)
    return replace(model, groups=tuple(groups))


def by_name(model, form):
    return {item.name: item for item in operators(model, form) if item.kind == 0}


def test_the_published_sizes_follow_from_the_config():
    model = read_model("deepseek-ai/DeepSeek-V3")
    assert parameter_counts(model)["total"] == 671_026_404_352
    assert kv_by_kind(model) == {"latent_attention": 61 * 576 * 2}
    assert parameter_counts(read_model("deepseek-ai/DeepSeek-V2-Lite"))["total"] == 15_706_484_224
    assert kv_by_kind(read_model("zai-org/GLM-5")) == {"sparse_latent_attention": 78 * (576 * 2 + 128 + 4)}


def test_every_rank_of_a_tp_group_keeps_the_whole_latent_row():
    rows = table([Layout(tp=degree, etp=degree) for degree in (1, 2, 4)] + [Layout(cp=2)])
    model = read_config(V3, "small")
    ledger = serving_ledger(
        model, rows, sessions=np.ones(4, dtype=np.int64), tokens=10, workspace_bytes=0, capacity_bytes=10**9
    )
    whole = 2 * 10 * (10 + 2) * 2
    assert ledger.kv_cache.tolist() == [whole, whole, whole, whole // 2]
    assert np.diff(ledger.parameters[:3]).max() < 0


def test_tp_divides_query_heads_and_needs_no_kv_heads():
    model = read_config(V3, "small")
    broken = first_broken(model, table([Layout(tp=degree, etp=degree) for degree in (4, 8)]), 8)
    assert broken[0] is None
    assert broken[1].code == "LAY003"


def test_absorbed_heads_meet_the_latent_row_and_expanded_ones_make_keys_of_it():
    model = read_config(V3, "small")
    absorbed, expanded = by_name(model, "absorbed"), by_name(model, "expanded")
    assert [absorbed["attention"].scores.elements, absorbed["attention"].values.elements] == [4 * 12, 4 * 10]
    assert [expanded["attention"].scores.elements, expanded["attention"].values.elements] == [4 * 6, 4 * 3]
    assert absorbed["self_attn.kv_b_proj"].rows == "tokens"
    assert expanded["self_attn.kv_b_proj"].rows == "positions"
    assert absorbed["attention"].state == expanded["attention"].state


def test_decoding_expanded_makes_keys_and_values_of_every_position_again():
    model = read_config(V3, "small")
    steps = [token_work(model, 1, context, "expanded") for context in (0, 9)]
    made = 2 * 2 * (10 * 4 * (4 + 3))  # multiply-adds of kv_b in both layers
    assert steps[1].weight_flops - steps[0].weight_flops == 9 * made
    assert token_work(model, 1, 0).weight_flops == steps[0].weight_flops
    assert token_work(model, 1, 9).weight_flops == steps[0].weight_flops


def test_a_prompt_counts_what_its_heads_score_and_mix_half_a_square():
    """A prompt of one token is a decode step: absorbed."""
    model, tokens = read_config(V3, "small"), 7
    absorbed, expanded = (2 * 2 * 4 * columns for columns in (12 + 10, 6 + 3))
    head = 2 * 32 * 16
    matrices = prefill_flops(model, 1) - absorbed - head
    assert prefill_flops(model, tokens) == matrices * tokens + head + expanded * (tokens * (tokens + 1) // 2)


def test_sparse_attention_reads_its_best_positions_and_scores_all_in_both_phases():
    model = small(SPARSE)
    assert by_name(model, "expanded") == by_name(model, "absorbed")
    steps = [token_work(model, 1, context) for context in (4, 20, 21)]
    index = 2 * (8 + 4)  # a key in FP8 and its scale, in both layers
    assert steps[2].state_bytes - steps[1].state_bytes == index
    assert steps[1].state_bytes == 2 * 5 * 12 * 2 + 21 * index
    assert steps[2].attention_flops - steps[1].attention_flops == 2 * 2 * 2 * 8
    assert steps[0].attention_flops == 2 * (2 * 5 * 4 * (12 + 10) + 2 * 5 * 2 * 8)


def test_every_rank_of_a_tp_group_runs_the_whole_indexer():
    tensors = {item.name: item for item in block_weights(small(SPARSE), 0)}
    assert {dim.role for dim in tensors["self_attn.indexer.wq_b.weight"].dims} == {"index_heads", "latent"}
    assert not tensors["self_attn.indexer.weights_proj.weight"].quantized


def test_compressed_rows_are_kept_once_they_are_complete():
    compressor = Compressor(stride=4, overlapping=True, indexer=Indexer(index_heads=2, index_dim=8), top_k=3)
    mixer = CompressedAttention(
        heads=4, head_dim=6, query_rank=5, local=8, out_groups=2, out_rank=3, compressor=compressor
    )
    model = small(mixer)
    own = fixed_state_bytes(model)
    assert own == 2 * 2 * (3 * 2 + 4) * 2 * (6 + 8)
    for tokens, local, rows in ((3, 3, 0), (7, 7, 1), (40, 8, 10)):
        assert cached_bytes(model, tokens) - own == 2 * (local * 12 + rows * (12 + 8 + 4))
    step = token_work(model, 1, 39)
    assert step.state_bytes == 2 * (8 * 12 + 3 * 12 + 10 * (8 + 4))
    assert step.attention_flops == 2 * 2 * (4 * 6 * 2 * (8 + 3) + 2 * 8 * 10)


def test_compressed_attention_needs_groups_that_tp_divides():
    mixer = CompressedAttention(heads=4, head_dim=6, query_rank=5, local=8, out_groups=2, out_rank=3)
    assert mixer.kind == "sliding_attention"
    assert first_broken(small(mixer), table([Layout(tp=4, etp=4)]), 8)[0].code == "LAY003"
    assert "does not divide" in replace(mixer, out_groups=3).mismatch()


def test_residual_streams_add_products_and_cross_stages_together():
    model = replace(read_config(V3, "small"), streams=4)
    names = [item.name for item in operators(model)]
    assert names.count("attn_hc") == names.count("ffn_hc") == len(model.kinds)
    assert parameter_counts(model)["other"] == 2 * 2 * (24 * 64 + 24 + 3) + 4 * 64 + 4 + 1
    assert model.format_of(block_weights(model, 0)[-1]).name == "fp32"


def test_experts_of_v4_are_in_fp4_and_the_rest_in_fp8_unless_it_is_read_plain():
    flash = read_model("deepseek-ai/DeepSeek-V4-Flash")
    names = {item.name: flash.format_of(item).name for item in block_weights(flash, 1)}
    assert names["mlp.experts.up_proj.weight"] == "mxfp4"
    assert names["mlp.shared_expert.up_proj.weight"] == "fp8[128x128,e8m0]"
    assert names["self_attn.compressor.kv_proj.weight"] == "bf16"
    plain = read_model("deepseek-ai/DeepSeek-V4-Flash", weights="bf16")
    assert {plain.format_of(item).name for item in block_weights(plain, 1)} == {"bf16", "fp32"}


def test_a_shared_expert_kept_plain_beside_packed_ones_is_read():
    kimi = read_model("moonshotai/Kimi-K2.5")
    names = {item.name: kimi.format_of(item).name for item in block_weights(kimi, 1)}
    assert names["mlp.experts.up_proj.weight"] == "int4[1x32]"
    assert names["mlp.shared_expert.up_proj.weight"] == "bf16"


@pytest.mark.parametrize("name", ["deepseek-ai/DeepSeek-V3.2-Exp", "deepseek-ai/DeepSeek-V4-Pro"])
def test_a_saved_model_is_read_back_as_it_was(name):
    model = replace(read_model(name), source=None)
    assert rebuild(Model, plain(model), "model") == model


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        pytest.param({"qk_rope_head_dim": 3}, "MOD008", id="a rotary part of odd width"),
        pytest.param({"moe_layer_freq": 2}, "MOD013", id="experts on every second layer"),
        pytest.param({"num_experts_per_tok": 9}, "MOD010", id="more experts a token than there are"),
        pytest.param({"moe_layer_freq": [1]}, "MOD013", id="experts on listed layers"),
        pytest.param({"kv_lora_rank": None}, "MOD006", id="no width of a row"),
        pytest.param({"q_lora_rank": False}, "MOD006", id="a truth for a width"),
        pytest.param(
            {"model_type": "glm_moe_dsa", "indexer_types": ["shared", "full"]}, "MOD009", id="nothing chosen yet"
        ),
        pytest.param({"model_type": "glm_moe_dsa", "index_topk_pattern": "FX"}, "MOD009", id="an unknown mode"),
        pytest.param({"model_type": "deepseek_v32", "mlp_layer_types": ["dense"]}, "MOD009", id="too few layers"),
        pytest.param({"model_type": "deepseek_v4", "compress_ratios": [4, 8]}, "MOD006", id="an unknown stride"),
        pytest.param({"model_type": "deepseek_v4", "compress_ratios": [[4]]}, "MOD006", id="a list for a stride"),
        pytest.param({"model_type": "deepseek_v4", "hc_mult": 1, "o_groups": 2}, "MOD006", id="one stream"),
        pytest.param({"model_type": "deepseek_v4", "o_groups": 3}, "MOD007", id="groups that divide no heads"),
        pytest.param({"model_type": "deepseek_v4", "compress_ratios": []}, "MOD009", id="no strides"),
        pytest.param({"model_type": "deepseek_v4", "layer_types": []}, "MOD009", id="no kinds of layers"),
        pytest.param(
            {"model_type": "deepseek_v32", "q_lora_rank": None}, "MOD007", id="an indexer without its queries"
        ),
        pytest.param({"model_type": "glm_moe_dsa", "q_lora_rank": 0}, "MOD007", id="nor in a layer of GLM"),
    ],
)
def test_what_does_not_go_together_is_refused(changes, code):
    assert refusal({**V3, **changes}).code == code


def test_kinds_of_layers_that_no_field_says_are_told_as_defaults():
    v4 = {**V3, "model_type": "deepseek_v4", "num_attention_heads": 8, "o_groups": 2}
    assert "layer_types" in {item.field for item in read_config(v4, "model").defaulted}
    told = read_config({**v4, "compress_ratios": [4, 128]}, "model")
    assert "layer_types" not in {item.field for item in told.defaulted}


def test_an_indexer_needs_what_it_reads():
    assert replace(SPARSE, query_rank=None).mismatch() == "an indexer without query_rank"
    assert replace(SPARSE, top_k=None).mismatch() == "an indexer without top_k"
    assert Block(mixer=SPARSE, feed_forward=read_config(V3, "small").kinds[0].feed_forward).mixer.mismatch() == ""
