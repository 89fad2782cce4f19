"""What families with recurrent mixers, chunks and blocks of one part make of their fields: shapes, states, refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.layout.rules import first_broken
from meshwright.model.feed_forwards import Dense, Experts, Linear, NoFeedForward
from meshwright.model.mixers import Attention, NoMixer
from meshwright.model.mixers.gated_delta import GatedDelta
from meshwright.model.mixers.mamba2 import Mamba2
from meshwright.model.mixers.nothing import LinearMixer
from meshwright.model.model import Block, BlockGroup, parameter_bytes, parameter_counts
from meshwright.model.reader import read_config, read_model
from meshwright.scenarios.inspect import apart, fixed_state_bytes, kv_by_kind, kv_bytes_per_token
from tests.unit.model.configs import LLAMA, refusal, without

FULL, LINEAR = "full_attention", "linear_attention"
DELTA = {
    **without(LLAMA, "mlp_bias"),
    "model_type": "qwen3_5_text",
    "num_hidden_layers": 4,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 3,
    "linear_value_head_dim": 5,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 4,
}
NEMOTRON = {
    **without(LLAMA, "mlp_bias", "num_hidden_layers"),
    "model_type": "nemotron_h",
    "hybrid_override_pattern": "M-M*-",
    "mamba_num_heads": 8,
    "mamba_head_dim": 3,
    "n_groups": 2,
    "ssm_state_size": 5,
    "conv_kernel": 4,
}
ATTENTION = {"n_heads_in_group": 2, "no_op": False, "replace_with_linear": False}
FFN = {"ffn_mult": 48.0, "no_op": False, "replace_with_linear": False}
NO = {"n_heads_in_group": None, "ffn_mult": None, "no_op": True}
LINEARS = {"n_heads_in_group": None, "ffn_mult": None, "no_op": False, "replace_with_linear": True}
NAS = {
    **without(LLAMA, "head_dim", "num_key_value_heads", "num_hidden_layers"),
    "model_type": "nemotron-nas",
    "num_hidden_layers": 4,
    "block_configs": [
        {"attention": ATTENTION, "ffn": FFN},
        {"attention": NO, "ffn": {**FFN, "ffn_mult": 24.0}},
        {"attention": LINEARS, "ffn": NO},
        {"attention": {**ATTENTION, "n_heads_in_group": 4, "window_length": 6}, "ffn": LINEARS},
    ],
}


def read(config, **changes):
    return read_config({**config, **changes}, "model")


def mixers(model):
    return [model.kinds[kind].mixer for kind in model.kind_of_layer]


def changed(index, half, **fields):
    """`NAS` with one half of one block changed."""
    blocks = [dict(block) for block in NAS["block_configs"]]
    blocks[index][half] = {**blocks[index][half], **fields}
    return {**NAS, "block_configs": blocks}


def test_qwen3_6_has_the_bytes_and_the_states_of_the_chapter():
    """Chapter "Supernodes", model catalogue."""
    model = read_model("Qwen/Qwen3.6-35B-A3B")
    assert parameter_bytes(model)["total"] == 69_321_221_376
    assert kv_bytes_per_token(model) == 20_480
    assert kv_by_kind(model) == {LINEAR: 0, FULL: 20_480}
    assert fixed_state_bytes(model) == 62_914_560 + 1_966_080


@pytest.mark.parametrize(
    ("name", "total"),
    [
        ("nvidia/Llama-3_3-Nemotron-Super-49B-v1", 49_867_145_216),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", 79_674_391_296),
        ("nvidia/Nemotron-H-56B-Base-8K", 56_324_350_464),
        ("MiniMaxAI/MiniMax-M2.5", 228_689_748_992),
    ],
)
def test_parameters_of_a_catalog_entry_are_met(name, total):
    """The first as the safetensors index on the hub states it, the others as the classes of transformers 5.24."""
    assert parameter_counts(read_model(name))["total"] == total


def test_a_gated_delta_net_keeps_one_matrix_a_value_head_and_the_inputs_of_its_convolution():
    mixer = mixers(read(DELTA))[0]
    assert isinstance(mixer, GatedDelta)
    assert mixer.token_state() == ()
    shapes = {state.tensor.name: state.tensor.shape for state in mixer.session_state()}
    assert shapes == {"recurrent_state": (4, 3, 5), "convolution_state": (2 * 2 * 3 + 4 * 5, 4)}
    assert [isinstance(item, Attention) for item in mixers(read(DELTA))] == [False, False, False, True]


def test_layer_types_decide_which_layers_are_linear():
    model = read(DELTA, layer_types=[FULL, LINEAR, FULL, LINEAR])
    assert [item.kind for item in mixers(model)] == [FULL, LINEAR, FULL, LINEAR]
    assert refusal({**DELTA, "layer_types": [FULL]}).code == "MOD009"
    assert refusal({**DELTA, "layer_types": [FULL, FULL, FULL, "sliding_attention"]}).code == "MOD009"


def test_value_heads_that_key_heads_do_not_divide_are_refused():
    error = refusal({**DELTA, "linear_num_value_heads": 5})
    assert error.code == "MOD007"
    assert "key_heads=2 does not divide value_heads=5" in error.cause


def test_a_layer_that_predicts_a_further_token_is_a_block_with_attention_two_rows_and_three_norms():
    alone = read(DELTA, mtp_num_hidden_layers=2)
    assert parameter_counts(alone) == parameter_counts(read(DELTA))
    block = parameter_counts(read(DELTA, layer_types=[FULL] * 4))
    ends = block["embedding"] + block["head"] + 16
    assert apart(alone)["mtp"] == 2 * ((block["total"] - ends) // 4 + 2 * 16 * 16 + 3 * 16)


@pytest.mark.parametrize(("said", "code"), [([], "MOD006"), ({}, "MOD006"), (-1, "MOD006"), (10**6, "MOD012")])
def test_a_number_of_further_tokens_that_is_none_is_refused(said, code):
    assert refusal({**DELTA, "mtp_num_hidden_layers": said}).code == code


@pytest.mark.parametrize("said", [0, None])
def test_no_further_tokens_stand_apart_where_none_are_predicted(said):
    assert apart(read(DELTA, mtp_num_hidden_layers=said))["mtp"] == 0


def test_groups_of_a_state_space_are_not_called_kv_heads():
    model, odd = read_model("nvidia/Nemotron-H-56B-Base-8K"), Mamba2(heads=12, head_dim=4, groups=4, state=8)
    alone = replace(model, groups=(BlockGroup(count=1, block=Block(mixer=odd, feed_forward=NoFeedForward())),))
    found = first_broken(alone, table([Layout(tp=6)]), 12)[0]
    assert found.reason == "tp=6 neither divides 4 groups of mamba nor is a multiple of them"


def test_a_block_of_nemotron_h_is_one_part_with_one_norm():
    model = read(NEMOTRON)
    assert [type(item) for item in mixers(model)] == [Mamba2, NoMixer, Mamba2, Attention, NoMixer]
    assert [block.norms for block in model.kinds] == [("norm",)] * 3
    assert {type(block.feed_forward) for block in model.kinds} == {NoFeedForward, Dense}
    assert parameter_counts(model)["norms"] == 5 * 16 + 2 * 24 + 16
    assert refusal({**NEMOTRON, "hybrid_override_pattern": "M-X"}).code == "MOD009"
    assert refusal({**NEMOTRON, "hybrid_override_pattern": ""}).code == "MOD012"
    assert refusal({**NEMOTRON, "n_groups": 3}).code == "MOD007"


def test_letters_and_words_name_the_same_blocks_and_their_number_counts():
    words = [LINEAR, "mlp", "mamba", "attention", "mlp"]
    named = read(without(NEMOTRON, "hybrid_override_pattern"), layers_block_type=words)
    assert named.groups == read(NEMOTRON).groups
    assert any("num_hidden_layers=7 is not used" in note for note in read(NEMOTRON, num_hidden_layers=7).notes)


def test_blocks_of_nemotron_nas_have_their_own_shapes_or_lack_a_half():
    model = read(NAS)
    first, second, third, last = (model.kinds[kind] for kind in model.kind_of_layer)
    assert (first.mixer.kv_heads, first.feed_forward.intermediate) == (2, 512)
    assert (second.mixer, second.feed_forward.intermediate) == (NoMixer(), 256)
    assert (third.mixer, third.feed_forward) == (LinearMixer(linear_bias=False), NoFeedForward())
    assert (last.mixer.kv_heads, last.mixer.window, last.feed_forward) == (1, 6, Linear(linear_bias=False))
    assert second.norms == ("post_attention_layernorm",)
    assert third.norms == ("input_layernorm",)
    parts = parameter_counts(model)
    assert parts["attention"] == (2 * 16 * 16 + 2 * 16 * 8) + 16 * 16 + (2 * 16 * 16 + 2 * 16 * 4)
    assert parts["feed_forward"] == 3 * 16 * 512 + 3 * 16 * 256 + 16 * 16
    assert parts["norms"] == (2 + 1 + 1 + 2 + 1) * 16
    assert kv_bytes_per_token(model) == 2 * 2 * (2 + 1) * 4


@pytest.mark.parametrize(
    ("config", "code"),
    [
        (changed(0, "attention", n_heads_in_group=3), "MOD007"),
        (changed(0, "attention", n_heads_in_group=None), "MOD006"),
        (changed(0, "attention", num_sink_tokens=4), "MOD013"),
        (changed(0, "ffn", sparsify={"n": 2}), "MOD013"),
        (changed(0, "ffn", ffn_mult=0), "MOD006"),
        (changed(0, "ffn", no_op="yes"), "MOD006"),
        ({**NAS, "block_configs": NAS["block_configs"][:3]}, "MOD009"),
        ({**NAS, "block_configs": [{"attention": None, "ffn": FFN}] * 4}, "MOD006"),
        ({**NAS, "block_configs": "none"}, "MOD006"),
        (without(NAS, "vocab_size"), "MOD005"),
    ],
)
def test_a_block_that_is_not_read_is_refused(config, code):
    assert refusal(config).code == code


def test_one_layer_of_llama_4_in_four_sees_all_positions_the_others_their_chunk():
    config = {**without(LLAMA, "mlp_bias"), "model_type": "llama4_text", "num_hidden_layers": 5}
    config |= {"intermediate_size_mlp": 40, "num_local_experts": 3, "num_experts_per_tok": 1}
    config |= {"attention_chunk_size": 8, "interleave_moe_layer_step": 2}
    model = read(config)
    assert [item.chunk for item in mixers(model)] == [8, 8, 8, None, 8]
    assert [item.kind for item in mixers(model)][2:4] == ["chunked_attention", FULL]
    layers = [model.kinds[kind].feed_forward for kind in model.kind_of_layer]
    assert [isinstance(item, Experts) for item in layers] == [False, True, False, True, False]
    assert (layers[0].intermediate, layers[1].shared) == (40, Dense(intermediate=24))
    assert [item.chunk for item in mixers(read(config, no_rope_layers=[0, 1, 1, 1, 0]))] == [None, 8, 8, 8, None]
    assert refusal({**config, "no_rope_layers": [0, 1]}).code == "MOD006"
    assert refusal({**config, "layer_types": ["chunked_attention"] * 5, "attention_chunk_size": None}).code == "MOD009"
