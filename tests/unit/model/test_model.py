"""Tensors of a model by block kind, built without a config: what an outsider's family may use."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meshwright.base.errors import ModelError
from meshwright.base.parse import put_path
from meshwright.cost.model_flops import active_parameters
from meshwright.model.feed_forwards import Dense, Experts
from meshwright.model.formats import BF16, fp8_block
from meshwright.model.mixers import Attention
from meshwright.model.model import (
    Block,
    BlockGroup,
    Model,
    block_weights,
    first_weights,
    format_bytes,
    group_blocks,
    last_weights,
    parameter_bytes,
    parameter_counts,
)
from meshwright.model.reader import read_model
from meshwright.model.tensors import Dim
from meshwright.workload.feed_forward import products

ATTENTION = Attention(heads=4, kv_heads=2, head_dim=4)
WINDOWED = replace(ATTENTION, window=8)
DENSE = Dense(intermediate=24)
FULL_BLOCK, WINDOW_BLOCK = Block(mixer=ATTENTION, feed_forward=DENSE), Block(mixer=WINDOWED, feed_forward=DENSE)


def model_of(blocks, **changes):
    fields = {"name": "mine", "family": "mine", "hidden": 16, "vocab": 10, "tied": False, "max_positions": None}
    return Model(groups=group_blocks(blocks), **(fields | changes))


def shapes(tensors):
    return {tensor.name: tensor.shape for tensor in tensors}


def test_blocks_in_a_row_are_one_group_and_equal_blocks_one_kind():
    model = model_of([WINDOW_BLOCK, WINDOW_BLOCK, FULL_BLOCK, WINDOW_BLOCK])
    assert model.groups == (
        BlockGroup(count=2, block=WINDOW_BLOCK),
        BlockGroup(count=1, block=FULL_BLOCK),
        BlockGroup(count=1, block=WINDOW_BLOCK),
    )
    assert model.layers == 4
    assert model.kinds == (WINDOW_BLOCK, FULL_BLOCK)
    assert model.kind_of_layer == (0, 0, 1, 0)
    assert model.kind_counts == (3, 1)


def test_equal_models_have_one_hash_whatever_blocks_they_share_and_sizes_of_kinds_tell_others_apart():
    """Many groups of few kinds; what-ifs of a size would else meet in one place of every cache."""
    model = read_model("moonshotai/Kimi-K3")
    again = replace(model, groups=tuple(replace(group, block=replace(group.block)) for group in model.groups))
    assert len({id(group.block) for group in model.groups}) == len(model.kinds) < len(model.groups)
    assert len({id(group.block) for group in again.groups}) == len(model.groups)
    assert (again, hash(again), again.kinds) == (model, hash(model), model.kinds)
    assert (again.kind_of_layer, again.kind_counts) == (model.kind_of_layer, model.kind_counts)
    wider = [put_path(model, "groups.1.block.feed_forward.intermediate", size) for size in range(64, 128)]
    assert len({hash(item) for item in wider}) == len(wider)


def test_a_model_without_layers_is_refused():
    with pytest.raises(ModelError, match="MOD011"):
        group_blocks([])


def test_an_output_gate_doubles_the_query_projection_and_nothing_else():
    gated = replace(ATTENTION, output_gate=True)
    assert shapes(gated.weights(16)) == {**shapes(ATTENTION.weights(16)), "self_attn.q_proj.weight": (32, 16)}
    assert gated.weights(16)[0].dims[0] == Dim(role="heads", size=32, grain=8)
    assert gated.weights(16)[0].dims[0].units == 4


def test_heads_are_never_cut():
    grains = {tensor.name: tensor.dims[0].units for tensor in ATTENTION.weights(16)}
    assert grains["self_attn.q_proj.weight"] == 4
    assert grains["self_attn.k_proj.weight"] == 2
    assert ATTENTION.weights(16)[3].dims[1].units == 4


def test_biases_are_as_long_as_what_their_matrices_give():
    biased = replace(ATTENTION, qkv_bias=True, out_bias=True, qk_norm="head")
    extra = shapes(biased.weights(16)).items() - shapes(ATTENTION.weights(16)).items()
    assert dict(extra) == {
        "self_attn.q_proj.bias": (16,),
        "self_attn.k_proj.bias": (8,),
        "self_attn.v_proj.bias": (8,),
        "self_attn.o_proj.bias": (16,),
        "self_attn.q_norm.weight": (4,),
        "self_attn.k_norm.weight": (4,),
    }
    mlp = {"mlp.gate_proj.bias": (24,), "mlp.up_proj.bias": (24,), "mlp.down_proj.bias": (16,)}
    assert shapes(replace(DENSE, bias=True).weights(16)).items() - shapes(DENSE.weights(16)).items() == mlp.items()


def test_norms_over_all_heads_are_cut_as_the_heads_are():
    normed = {item.name: item for item in replace(ATTENTION, qk_norm="full").weights(16) if item.part == "norms"}
    weights = {item.name: item for item in ATTENTION.weights(16)}
    assert normed["self_attn.q_norm.weight"].dims == (weights["self_attn.o_proj.weight"].dims[1],)
    assert normed["self_attn.k_norm.weight"].dims == (weights["self_attn.k_proj.weight"].dims[0],)
    wide = {item.name: item for item in replace(ATTENTION, qk_norm="full", output_gate=True).weights(16)}
    assert wide["self_attn.q_norm.weight"].shape == (16,)


def test_a_sink_is_one_number_a_query_head():
    extra = set(replace(ATTENTION, sinks=True).weights(16)) - set(ATTENTION.weights(16))
    assert [(item.name, item.part, item.dims) for item in extra] == [
        ("self_attn.sinks", "attention", (Dim(role="heads", size=4),))
    ]


def test_biases_of_experts_lie_with_them_and_that_of_the_way_back_is_whole():
    plain = Experts(experts=3, top_k=1, intermediate=6)
    biased = replace(plain, bias=True, router_bias=True)
    extra = {item.name: item for item in set(biased.weights(16)) - set(plain.weights(16))}
    assert {name: [dim.role for dim in item.dims] for name, item in extra.items()} == {
        "mlp.gate.bias": ["routes"],
        "mlp.experts.gate_proj.bias": ["experts", "expert_intermediate"],
        "mlp.experts.up_proj.bias": ["experts", "expert_intermediate"],
        "mlp.experts.down_proj.bias": ["experts", "hidden"],
    }
    assert shapes(extra.values()) == {
        "mlp.gate.bias": (3,),
        "mlp.experts.gate_proj.bias": (3, 6),
        "mlp.experts.up_proj.bias": (3, 6),
        "mlp.experts.down_proj.bias": (3, 16),
    }
    assert {item.part for name, item in extra.items() if "experts" in name} == {"experts"}
    assert extra["mlp.gate.bias"].part == "router"
    assert products(biased) == products(plain)


def test_a_router_in_fp32_keeps_it_in_any_format():
    plain = Experts(experts=3, top_k=1, intermediate=6)
    one, other = (
        model_of([Block(mixer=ATTENTION, feed_forward=layer)], weights=fp8_block(5, 7), plain=BF16)
        for layer in (plain, replace(plain, router_fp32=True))
    )
    assert parameter_bytes(other)["router"] == 2 * parameter_bytes(one)["router"] == 4 * 3 * 16
    assert parameter_counts(one) == parameter_counts(other)
    assert format_bytes(other)["fp32"] == 4 * 3 * 16


def test_an_idle_expert_is_idle_with_its_biases():
    layer = Experts(experts=3, top_k=2, intermediate=6, bias=True, router_bias=True, shared=Dense(intermediate=5))
    model = model_of([Block(mixer=ATTENTION, feed_forward=layer)] * 2)
    one = 3 * 6 * 16 + 6 + 6 + 16
    assert active_parameters(model) == parameter_counts(model)["total"] - 2 * one


def test_a_cached_position_is_a_key_and_a_value_of_every_kv_head():
    assert shapes([item.tensor for item in ATTENTION.token_state()]) == {"key_cache": (8,), "value_cache": (8,)}
    assert ATTENTION.session_state() == ()
    assert (ATTENTION.kind, WINDOWED.kind) == ("full_attention", "sliding_attention")


def test_feed_forwards_without_a_gate_have_two_matrices():
    assert shapes(Dense(intermediate=24, gated=False).weights(16)) == {
        "mlp.up_proj.weight": (24, 16),
        "mlp.down_proj.weight": (16, 24),
    }
    assert shapes(Experts(experts=3, top_k=1, intermediate=6, gated=False).weights(16)) == {
        "mlp.gate.weight": (3, 16),
        "mlp.experts.up_proj.weight": (3, 6, 16),
        "mlp.experts.down_proj.weight": (3, 16, 6),
    }


def test_a_shared_expert_counts_with_the_experts_and_its_gate_with_the_router():
    routed = Experts(experts=3, top_k=1, intermediate=6)
    shared = replace(routed, shared=Dense(intermediate=5), shared_gate=True)
    plain = parameter_counts(model_of([Block(mixer=ATTENTION, feed_forward=routed)]))
    whole = parameter_counts(model_of([Block(mixer=ATTENTION, feed_forward=shared)]))
    assert whole["experts"] - plain["experts"] == 3 * 5 * 16
    assert whole["router"] - plain["router"] == 16
    assert whole["total"] - plain["total"] == 3 * 5 * 16 + 16


def test_a_layer_norm_has_a_bias():
    rms, layer = model_of([FULL_BLOCK]), model_of([FULL_BLOCK], norm="layer")
    assert parameter_counts(layer)["norms"] == 2 * parameter_counts(rms)["norms"] == 2 * 3 * 16


def test_a_tied_head_is_an_alias_of_the_embedding_and_counts_once():
    tied, apart = model_of([FULL_BLOCK], tied=True), model_of([FULL_BLOCK])
    assert last_weights(tied)[-1].alias == first_weights(tied)[0].name == "embed_tokens.weight"
    assert last_weights(apart)[-1].alias is None
    assert parameter_counts(apart)["total"] - parameter_counts(tied)["total"] == 160
    assert parameter_bytes(apart)["total"] - parameter_bytes(tied)["total"] == 320


def test_parts_and_formats_add_up_to_the_total():
    model = model_of([FULL_BLOCK, WINDOW_BLOCK, FULL_BLOCK], weights=fp8_block(5, 7))
    counts, sizes = parameter_counts(model), parameter_bytes(model)
    assert counts["total"] == sum(counts.values()) - counts["total"]
    assert sizes["total"] == sum(sizes.values()) - sizes["total"] == sum(format_bytes(model).values())
    blocks = [block_weights(model, kind) for kind in model.kind_of_layer]
    ends = [*first_weights(model), *last_weights(model)]
    assert counts["total"] == sum(tensor.elements for tensor in [*ends, *(t for block in blocks for t in block)])


def test_counts_belong_to_the_caller():
    model = model_of([FULL_BLOCK])
    parameter_counts(model)["total"] = 0
    assert parameter_counts(model)["total"] > 0
