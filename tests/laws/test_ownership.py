"""The ownership table: every element is held by as many ranks as the table says, and slices that meet match."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.layout.mesh import coordinates
from meshwright.layout.ownership import (
    AXIS_OF_ROLE,
    index_ranges,
    local_elements,
    local_sizes,
    placement,
    stage_of_layers,
)
from meshwright.model.model import Model, block_weights, first_weights, last_weights
from meshwright.model.tensors import Dim, Tensor
from meshwright.workload.activations import activations, logits
from tests.laws.strategies import held_by_rank, layouts, models, stage_ranks_of

STATES = ("parameters", "gathered", "gradients", "optimizer_state")


def weights_of(model: Model) -> list[Tensor]:
    kinds = chain.from_iterable(block_weights(model, kind) for kind in range(len(model.kinds)))
    return [*kinds, *first_weights(model), *last_weights(model)]


def copies_of(tensor: Tensor, layout: Layout, state: str) -> np.ndarray:
    """How many ranks of a stage hold each element: by visiting every rank."""
    counts = np.zeros(tensor.shape, dtype=np.int64)
    for held in held_by_rank(tensor, layout, state):
        counts[tuple(slice(part.start, part.stop) for part in held)] += 1
    return counts


@settings(max_examples=40)
@given(data=st.data())
def test_every_weight_is_held_by_exactly_the_ranks_the_table_says(data):
    model = data.draw(models())
    layout = data.draw(layouts(model))
    for tensor in {(item.name, item.dims): item for item in weights_of(model)}.values():
        for state in STATES:
            where = placement(tensor, layout, state)
            counts = copies_of(tensor, layout, state)
            assert (counts == where.copies).all(), (tensor, state, where)
            parts = int(np.prod([ways for dim in where.shards for ways in dim.values()] or [1]))
            assert parts * where.copies == len(stage_ranks_of(layout))


@settings(max_examples=40)
@given(data=st.data())
def test_every_activation_and_cached_position_is_held_by_exactly_the_ranks_the_table_says(data):
    model = data.draw(models())
    layout = data.draw(layouts(model))
    samples, positions = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 9))
    rows = (Dim(role="samples", size=samples), Dim(role="positions", size=positions))
    made = [*activations(model, 0, samples, positions), logits(model, samples, positions)]
    state = [item.tensor for item in model.kinds[0].mixer.token_state()]
    cached = [replace(item, dims=(*rows, *item.dims)) for item in state]
    for tensor, state in [*((item, "activations") for item in made), *((item, "kv_cache") for item in cached)]:
        where = placement(tensor, layout, state)
        assert (copies_of(tensor, layout, state) == where.copies).all(), (tensor, state, where)


@settings(max_examples=40)
@given(data=st.data())
def test_slices_that_meet_in_one_product_match_on_every_rank(data):
    """Rows of q_proj and columns of o_proj, of gate and down, and the KV heads that the rank's query heads read."""
    model = data.draw(models())
    layout = data.draw(layouts(model))
    for kind, block in enumerate(model.kinds):
        named = {item.name.removesuffix(".weight"): item for item in block_weights(model, kind)}
        heads, kv_heads, width = block.mixer.heads, block.mixer.kv_heads, block.mixer.head_dim
        for rank in stage_ranks_of(layout):

            def held(name, dim, rank=rank, named=named):
                return index_ranges(named[name], layout, rank, "gathered")[dim]

            out = held("self_attn.o_proj", 1)
            query = held("self_attn.q_proj", 0)
            wide = 2 if block.mixer.output_gate else 1
            assert (query.start, query.stop) == (wide * out.start, wide * out.stop)
            needed = {index // width // (heads // kv_heads) for index in out}
            assert {index // width for index in held("self_attn.k_proj", 0)} == needed
            heads_held = range(out.start // width, out.stop // width)
            if block.mixer.sinks:
                assert held("self_attn.sinks", 0) == heads_held
            if block.mixer.qk_norm == "full":
                assert held("self_attn.q_norm", 0) == out
                assert held("self_attn.k_norm", 0) == held("self_attn.k_proj", 0)
            prefix = "mlp.experts" if "mlp.experts.up_proj" in named else "mlp"
            lead = 1 if prefix == "mlp.experts" else 0
            assert held(f"{prefix}.up_proj", lead) == held(f"{prefix}.down_proj", lead + 1)
            if lead:
                assert held(f"{prefix}.up_proj", 0) == held(f"{prefix}.down_proj", 0)
            if f"{prefix}.up_proj.bias" in named:
                rows = [held(f"{prefix}.up_proj", dim) for dim in range(lead + 1)]
                assert [held(f"{prefix}.up_proj.bias", dim) for dim in range(lead + 1)] == rows
                assert held(f"{prefix}.down_proj.bias", lead) == range(model.hidden)


@settings(max_examples=40)
@given(data=st.data())
def test_the_fullest_rank_holds_the_local_size(data):
    model = data.draw(models())
    layout = data.draw(layouts(model))
    for tensor in weights_of(model):
        for state in STATES:
            held = held_by_rank(tensor, layout, state)
            sizes = [int(column[0]) for column in local_sizes(tensor, table([layout]), state)]
            assert sizes == [max(len(parts[dim]) for parts in held) for dim in range(len(tensor.dims))]
            elements = max(int(np.prod([len(part) for part in parts])) for parts in held)
            assert int(local_elements(tensor, table([layout]), state)[0]) == elements


@settings(max_examples=30)
@given(data=st.data())
def test_columns_of_places_give_the_ranges_of_single_ranks(data):
    model = data.draw(models())
    layout = data.draw(layouts(model))
    tensor = data.draw(st.sampled_from(weights_of(model)))
    expected = [index_ranges(tensor, layout, rank) for rank in stage_ranks_of(layout)]
    assert held_by_rank(tensor, layout, "parameters") == expected


@settings(max_examples=40)
@given(data=st.data())
def test_ranks_that_differ_in_dp_shard_and_cp_alone_hold_what_they_gather_once(data):
    """Of routed experts, ranks that differ so in the view of a stage that lays them out."""
    model = data.draw(models())
    layout = data.draw(layouts(model))
    places = [coordinates(layout, rank) for rank in stage_ranks_of(layout)]
    for tensor in {(item.name, item.dims): item for item in weights_of(model)}.values():
        of_experts = any(dim.role in {"experts", "expert_intermediate"} for dim in tensor.dims)
        same = ("dp_replicate", "tp", *(("ep", "etp") if of_experts else ()))
        whole = held_by_rank(tensor, layout, "gathered")
        for state, covered in (("parameters", 3), ("gradients", 2), ("optimizer_state", 1)):
            pieces = held_by_rank(tensor, layout, state)
            shared: dict[tuple[object, ...], list[int]] = {}
            for rank, place in enumerate(places):
                shared.setdefault((whole[rank], *(place[axis] for axis in same)), []).append(rank)
            for (gathered, *_), ranks in shared.items():
                rows = sorted(index for rank in ranks for index in pieces[rank][0])
                assert rows == sorted([*gathered[0]] * (1 if layout.zero >= covered else len(ranks)))
                assert all(pieces[rank][1:] == gathered[1:] for rank in ranks)


@pytest.mark.parametrize(("rows", "shards"), [(10, 4), (3, 4), (8, 4), (1, 2), (9, 8), (10, 6)])
def test_dp_shard_and_cp_cut_dim_0_as_one_axis_in_chunks_rounded_up(rows, shards):
    """As torch.chunk, which FSDP2 uses on the flattened mesh: the last chunks are short or empty."""
    tensor = Tensor(name="norm.weight", part="norms", dims=(Dim(role="hidden", size=rows),))
    each = -(-rows // shards)
    expected = [range(min(first, rows), min(first + each, rows)) for first in range(0, each * shards, each)]
    for cp in (1, 2, shards):
        layout = Layout(dp_shard=shards // cp, cp=cp, zero=3)
        assert [index_ranges(tensor, layout, rank)[0] for rank in range(shards)] == expected


COVERED = [set(), {"optimizer_state"}, {"optimizer_state", "gradients"}, {"optimizer_state", "gradients", "parameters"}]


@pytest.mark.parametrize(("zero", "covered"), list(enumerate(COVERED)))
def test_zero_covers_optimizer_then_gradients_then_parameters(zero, covered):
    tensor = Tensor(name="norm.weight", part="norms", dims=(Dim(role="hidden", size=8),))
    layout = Layout(dp_shard=4, zero=zero)
    cut = {state for state in STATES if placement(tensor, layout, state).shards[0]}
    assert cut == covered


@pytest.mark.parametrize(
    ("layout", "shards", "copies"),
    [
        (Layout(tp=2, dp_shard=4, ep=4, etp=2, zero=3), {"ep": 4}, {}),
        (Layout(tp=2, dp_shard=4, ep=2, etp=2, zero=3), {"ep": 2, "dp_shard_cp": 2}, {}),
        (Layout(tp=2, dp_shard=4, ep=1, etp=2, zero=3), {"dp_shard_cp": 4}, {}),
        (Layout(tp=2, dp_shard=4, ep=1, etp=2, zero=2), {}, {"expert_replicas": 4}),
        (Layout(tp=4, dp_shard=2, ep=2, sp=True, zero=3), {"ep": 2, "dp_shard_cp": 2}, {"expert_replicas": 2}),
        (Layout(tp=2, dp_shard=2, dp_replicate=2, ep=4, etp=2, zero=3), {"ep": 4}, {}),
        (Layout(tp=2, cp=2, dp_shard=2, ep=2, etp=2, zero=3), {"ep": 2, "dp_shard_cp": 2}, {}),
        (Layout(tp=2, cp=4, dp_shard=2, ep=2, etp=2, zero=3), {"ep": 2, "dp_shard_cp": 4}, {}),
        (Layout(cp=2, dp_shard=3, ep=3, zero=3), {"ep": 3, "dp_shard_cp": 2}, {}),
        (Layout(cp=4, dp_replicate=2, ep=2, zero=3), {"ep": 2, "dp_shard_cp": 2}, {"expert_replicas": 2}),
        (Layout(cp=2, dp_replicate=2, ep=4, zero=3), {"ep": 4}, {}),
    ],
)
def test_shards_cut_experts_over_what_their_own_view_leaves_of_dp_shard_and_cp(layout, shards, copies):
    dims = (Dim(role="experts", size=48), Dim(role="expert_intermediate", size=8), Dim(role="hidden", size=3))
    tensor = Tensor(name="up", part="experts", dims=dims)
    where = placement(tensor, layout)
    assert (where.shards[0], where.replicated_on) == (shards, copies)
    assert (copies_of(tensor, layout, "parameters") == where.copies).all()


def test_a_bias_behind_the_experts_is_repeated_where_their_width_is_cut():
    dims = (Dim(role="experts", size=16), Dim(role="hidden", size=3))
    bias = Tensor(name="down.bias", part="experts", dims=dims)
    where = placement(bias, Layout(tp=4, dp_replicate=2, ep=2, etp=2))
    assert where.shards == ({"ep": 2}, {})
    assert where.replicated_on == {"etp": 2, "expert_replicas": 2}


def test_sp_shards_positions_over_tp_where_tp_cuts_nothing_else():
    rows = (Dim(role="samples", size=2), Dim(role="positions", size=16))
    hidden = Tensor(name="hidden", part="norms", dims=(*rows, Dim(role="hidden", size=8)))
    query = Tensor(name="query", part="attention", dims=(*rows, Dim(role="heads", size=8, grain=2)))
    with_sp, without = Layout(tp=4, cp=2, sp=True), Layout(tp=4, cp=2)
    assert placement(hidden, with_sp, "activations").shards == ({}, {"cp": 2, "tp": 4}, {})
    assert placement(hidden, without, "activations").shards == ({}, {"cp": 2}, {})
    assert placement(query, with_sp, "activations").shards == ({}, {"cp": 2}, {"tp": 4})


def test_kv_is_replicated_when_tp_exceeds_kv_heads():
    keys = Tensor(name="key_cache", part="kv_cache", dims=(Dim(role="kv_heads", size=16, grain=4),))
    where = placement(keys, Layout(tp=8), "kv_cache")
    assert where.shards == ({"tp": 4},)
    assert where.replicated_on == {"tp": 2}
    starts = [index_ranges(keys, Layout(tp=8), rank, "kv_cache")[0].start for rank in range(8)]
    assert starts == [0, 0, 4, 4, 8, 8, 12, 12]


def test_data_parallel_attention_deals_samples_and_replicated_attention_repeats_them():
    rows = Tensor(name="hidden", part="norms", dims=(Dim(role="samples", size=8), Dim(role="hidden", size=8)))
    dealt = Layout(dp_replicate=4, tp=2, ep=4, etp=2, attention="data_parallel")
    same = Layout(dp_replicate=4, tp=2, ep=4, etp=2, attention="replicated")
    assert placement(rows, dealt, "activations").shards == ({"dp_replicate": 4}, {})
    assert placement(rows, same, "activations").replicated_on == {"dp_replicate": 4, "tp": 2}


def test_the_chapters_tp2_ep4_lays_32_experts_on_pairs():
    """Chapter "Supernodes", section 6.3.1: pairs (0,1), (2,3), (4,5), (6,7); each rank half of the intermediate."""
    dims = (Dim(role="experts", size=128), Dim(role="expert_intermediate", size=1536), Dim(role="hidden", size=4096))
    experts = Tensor(name="up", part="experts", dims=dims)
    layout = Layout(tp=2, dp_replicate=4, ep=4, etp=2)
    for rank in range(8):
        pair, half = divmod(rank, 2)
        experts_held, width_held, _ = index_ranges(experts, layout, rank)
        assert experts_held == range(32 * pair, 32 * (pair + 1))
        assert width_held == range(768 * half, 768 * (half + 1))
    assert placement(experts, layout).copies == 1


def test_roles_of_weights_are_cut_by_one_axis_each():
    assert set(AXIS_OF_ROLE.values()) == {"tp", "cp", "ep", "etp"}


@given(layers=st.integers(1, 200), stages=st.integers(1, 64))
def test_stages_tile_the_layers_and_differ_by_at_most_one(layers, stages):
    parts = stage_of_layers(layers, stages)
    assert [index for part in parts for index in part] == list(range(layers))
    sizes = [len(part) for part in parts]
    assert len(parts) == stages
    assert max(sizes) - min(sizes) <= 1
    assert sizes[-1] == min(sizes)
