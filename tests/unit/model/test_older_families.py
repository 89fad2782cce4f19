"""Families with names of their own: tables, norms and projections at the ends, KV heads, notes, refusals."""

from __future__ import annotations

import pytest

from meshwright.layout.layout import Layout
from meshwright.layout.ownership import placement
from meshwright.model.model import first_weights, last_weights, parameter_counts
from meshwright.model.reader import read_config, read_model
from meshwright.scenarios.inspect import kv_bytes_per_token, prefill_flops
from meshwright.workload.operators import operators
from tests.unit.model.configs import refusal, without

FALCON = {
    "model_type": "falcon",
    "vocab_size": 10,
    "hidden_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 12,
    "num_kv_heads": 4,
}
OPT = {
    "model_type": "opt",
    "vocab_size": 10,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "ffn_dim": 24,
    "max_position_embeddings": 30,
    "word_embed_proj_dim": 6,
}
GPT2 = {"model_type": "gpt2", "vocab_size": 10, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 30}
MPT = {"model_type": "mpt", "vocab_size": 10, "d_model": 16, "n_layers": 2, "n_heads": 4}


def shapes(tensors):
    return {tensor.name: tensor.shape for tensor in tensors}


def block_of(config):
    return read_config(config, "model").kinds[0]


@pytest.mark.parametrize(
    ("changes", "kv_heads"),
    [
        ({}, 1),
        ({"multi_query": True, "new_decoder_architecture": True}, 4),
        ({"multi_query": True, "new_decoder_architecture": True, "num_kv_heads": None}, 12),
        ({"multi_query": False, "num_kv_heads": None}, 12),
        ({"multi_query": False, "num_kv_heads": 12}, 12),
        ({"multi_query": None, "num_kv_heads": None}, 12),
    ],
)
def test_kv_heads_of_falcon_are_one_a_few_or_one_a_query_head(changes, kv_heads):
    assert block_of({**FALCON, **changes}).mixer.kv_heads == kv_heads


def test_falcon_7b_caches_one_key_and_value_of_64_columns_in_each_layer():
    model = read_model("tiiuae/falcon-7b")
    mixer = model.kinds[0].mixer
    assert (mixer.heads, mixer.kv_heads, mixer.head_dim) == (71, 1, 64)
    assert kv_bytes_per_token(model) == 32 * 2 * 64 * 2
    assert model.kinds[0].norms == ("input_layernorm",)
    assert any("all_reduce" in note for note in model.notes)


@pytest.mark.parametrize(
    ("changes", "norms"),
    [
        ({}, ("input_layernorm",)),
        ({"num_ln_in_parallel_attn": 2}, ("ln_attn", "ln_mlp")),
        ({"new_decoder_architecture": True}, ("ln_attn", "ln_mlp")),
        ({"new_decoder_architecture": True, "num_ln_in_parallel_attn": 1}, ("input_layernorm",)),
        ({"parallel_attn": False}, ("input_layernorm", "post_attention_layernorm")),
    ],
)
def test_norms_of_falcon_follow_from_how_its_halves_are_joined(changes, norms):
    assert block_of({**FALCON, **changes}).norms == norms


def test_a_head_of_odd_width_is_for_falcon_with_alibi_alone():
    odd = {**FALCON, "hidden_size": 36}
    assert refusal(odd).code == "MOD008"
    assert block_of({**odd, "alibi": True}).mixer.head_dim == 3


def test_the_ends_of_opt_have_a_position_table_with_two_rows_more_and_two_projections():
    model = read_config(OPT, "model")
    assert shapes(first_weights(model)) == {
        "embed_tokens.weight": (10, 6),
        "embed_positions.weight": (32, 16),
        "project_in.weight": (16, 6),
    }
    assert shapes(last_weights(model)) == {
        "norm.weight": (16,),
        "norm.bias": (16,),
        "project_out.weight": (6, 16),
        "lm_head.weight": (10, 6),
    }
    assert model.max_positions == 30
    counts = parameter_counts(model)
    assert (counts["embedding"], counts["other"], counts["head"]) == (60 + 512, 2 * 96, 0)


@pytest.mark.parametrize("changes", [{"do_layer_norm_before": False}, {"_remove_final_layer_norm": True}])
def test_opt_may_have_no_final_norm(changes):
    assert "norm.weight" not in shapes(last_weights(read_config({**OPT, **changes}, "model")))


def test_opt_may_have_norms_without_weights():
    assert parameter_counts(read_config({**OPT, "layer_norm_elementwise_affine": False}, "model"))["norms"] == 0


def test_an_embedding_as_wide_as_the_model_needs_no_projection():
    for width in (16, None):
        model = read_config({**OPT, "word_embed_proj_dim": width}, "model")
        assert parameter_counts(model)["other"] == 0
        assert [item.name for item in operators(model)][-2:] == ["mlp.down_proj", "lm_head"]


def test_every_token_goes_through_the_projections_and_the_sampled_ones_through_the_head():
    model = read_config(OPT, "model")
    ends = [item for item in operators(model) if item.kind is None]
    assert [(item.name, item.shape, item.sampled) for item in ends] == [
        ("project_in", (16, 6), False),
        ("project_out", (6, 16), False),
        ("lm_head", (10, 6), True),
    ]
    bare = read_config({**OPT, "word_embed_proj_dim": 16}, "model")
    # two projections on each of 7 tokens more, a head of 6 columns in place of 16 on the last one
    assert prefill_flops(model, 7) - prefill_flops(bare, 7) == 7 * 2 * 2 * 96 - 2 * 10 * 10


def test_a_position_table_and_the_projections_are_whole_on_every_rank_of_tp_and_cp():
    first = {item.name: item for item in first_weights(read_config(OPT, "model"))}
    layout = Layout(tp=4, cp=2)
    for name in ("embed_positions.weight", "project_in.weight"):
        assert placement(first[name], layout).shards == ({}, {})
        assert placement(first[name], layout).copies == 8
    assert placement(first["embed_tokens.weight"], layout).shards == ({"tp": 4}, {})


def test_a_null_inner_width_of_gpt2_is_four_times_the_hidden_size():
    assert block_of({**GPT2, "n_inner": None}).feed_forward.intermediate == 64
    assert block_of(GPT2).feed_forward.intermediate == 64
    assert ("n_inner", 64) in {(item.field, item.value) for item in read_config(GPT2, "model").defaulted}
    assert block_of({**GPT2, "n_inner": 5}).feed_forward.intermediate == 5


def test_gpt2_has_a_position_table_biases_and_a_tied_head():
    model = read_config(GPT2, "model")
    assert shapes(first_weights(model))["embed_positions.weight"] == (30, 16)
    assert (model.tied, model.norm, model.position_kind) == (True, "layer", "learned")
    assert model.kinds[0].mixer.qkv_bias
    assert model.kinds[0].mixer.out_bias
    assert model.kinds[0].feed_forward.bias


def test_cross_attention_of_gpt2_is_refused():
    error = refusal({**GPT2, "add_cross_attention": True})
    assert error.code == "MOD013"
    assert "add_cross_attention" in error.cause


def test_mpt_notes_what_its_class_does_not_use():
    attention = {"attn_type": "multiquery_attention", "alibi": False, "qk_ln": True}
    model = read_config({**MPT, "expansion_ratio": 8, "no_bias": False, "attn_config": attention}, "model")
    assert model.kinds[0].feed_forward.intermediate == 64
    assert [note.partition(" is not used")[0] for note in model.notes] == [
        "expansion_ratio=8",
        "no_bias=false",
        "attn_config.attn_type='multiquery_attention'",
        "attn_config.alibi=false",
        "attn_config.qk_ln=true",
    ]
    assert read_config({**MPT, "expansion_ratio": 4, "attn_config": {}}, "model").notes == ()


def test_norms_of_mpt_have_no_biases():
    assert parameter_counts(read_config(MPT, "model"))["norms"] == 5 * 16


def test_bloom_norms_its_embedded_tokens_and_claims_no_longest_context_unless_it_says_one():
    config = {"model_type": "bloom", "vocab_size": 10, "hidden_size": 16, "n_layer": 2, "n_head": 4}
    model = read_config(config, "model")
    assert shapes(first_weights(model))["embed_norm.bias"] == (16,)
    assert model.max_positions is None
    assert read_config({**config, "seq_length": 99}, "model").max_positions == 99


@pytest.mark.parametrize(
    ("config", "code", "word"),
    [
        ({**GPT2, "n_head": 5}, "MOD008", "5 attention heads do not divide the hidden size 16"),
        ({**GPT2, "n_head": 0}, "MOD006", "n_head is 0"),
        ({**GPT2, "num_attention_heads": "4"}, "MOD006", "num_attention_heads is '4'"),
        ({**GPT2, "n_layer": 10_001}, "MOD012", "n_layer is 10001"),
        ({**GPT2, "n_inner": 1.5}, "MOD006", "n_inner is 1.5"),
        ({**OPT, "enable_bias": None}, "MOD006", "enable_bias is null"),
        ({**OPT, "word_embed_proj_dim": 0}, "MOD006", "word_embed_proj_dim is 0"),
        ({**MPT, "attn_config": 3}, "MOD006", "attn_config is 3"),
        ({**FALCON, "bias": 1}, "MOD006", "bias is 1"),
        ({**FALCON, "n_embed": -2}, "MOD006", "n_embed is -2"),
        ({**FALCON, "new_decoder_architecture": True, "num_kv_heads": 5}, "MOD007", "num_kv_heads=5"),
        ({**FALCON, "multi_query": False}, "MOD007", "num_kv_heads=4"),
        ({"model_type": "gpt_neox", "rotary_pct": 1.5}, "MOD006", "rotary_pct is 1.5"),
        ({"model_type": "gpt_neox", "hidden_size": 576, "rotary_pct": 1}, "MOD008", "head_dim=9 is odd"),
    ],
)
def test_what_does_not_go_together_is_refused_by_its_name(config, code, word):
    error = refusal(config)
    assert error.code == code
    assert word in error.cause


def test_rotary_positions_that_turn_a_part_of_a_head_leave_its_width_odd():
    config = {"model_type": "gpt_neox", "hidden_size": 576}
    assert block_of(config).mixer.head_dim == 9
    assert block_of({**config, "rotary_pct": 1, "rope_scaling": {"partial_rotary_factor": 0.5}}).mixer.head_dim == 9


@pytest.mark.parametrize("config", [FALCON, GPT2, MPT, OPT])
def test_a_field_left_out_is_listed_with_the_class_whose_default_it_takes(config):
    model = read_config(without(config, "vocab_size"), "model")
    taken = {item.field: item.origin for item in model.defaulted}
    assert taken["vocab_size"] == f"transformers class default of {config['model_type']}"
    assert "vocab_size" not in {item.field for item in read_config(config, "model").defaulted}
