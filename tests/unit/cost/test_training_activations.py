"""Activation bytes of known models: the numbers of the chapter, and those of published formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshwright.base.errors import LayoutError
from meshwright.base.traced import expression, leaf, values
from meshwright.cost.training_activations import activation_columns, entry_bytes
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.model.feed_forwards import Dense, Experts
from meshwright.model.formats import FP32
from meshwright.model.mixers import Attention
from meshwright.model.model import Block, BlockGroup, Model
from meshwright.model.reader import read_model
from meshwright.scenarios.recompute_products import recompute_products
from meshwright.workload.saved import block_saved, head_saved
from meshwright.workload.saved_entries import Kernels

MIB = 2**20
ONE = table([Layout()])


def gpt(hidden=1024, heads=16):
    """The block of Korthikanti et al.: LayerNorm, as many KV heads as heads, four times as wide inside, not gated."""
    block = Block(
        mixer=Attention(heads=heads, kv_heads=heads, head_dim=hidden // heads),
        feed_forward=Dense(intermediate=4 * hidden, gated=False),
    )
    groups = (BlockGroup(count=8, block=block),)
    return Model(
        name="gpt", family="gpt", hidden=hidden, vocab=512, tied=False, groups=groups, norm="layer", max_positions=None
    )


def needs(entries, tokens, need):
    columns = zip(entries, entry_bytes(entries, ONE, tokens), strict=True)
    return sum(int(column[0]) for item, column in columns if item.need == need)


def qwen3_8b():
    return replace(read_model("Qwen/Qwen3-8B"), plain=FP32)


def saved(model, *layouts, sequence, **kernels):
    return activation_columns(model, table(layouts), sequence=sequence, **kernels).saved[:, 0].tolist()


def in_plain(model, layout, sequence):
    """Bytes that a block keeps in the plain format: what the papers count."""
    entries = block_saved(model, 0, sequence, Kernels()).saved
    columns = zip(entries, entry_bytes(entries, table([layout]), sequence), strict=True)
    return sum(int(column[0]) for item, column in columns if item.bits == model.plain.bits)


def test_what_non_linear_operators_keep_is_the_set_of_the_pipeline_study():
    """Source: chapter "Training systems", section 10.3.2: 128 tokens of Qwen3-8B in FP32."""
    kernels = Kernels(attention="causal_pairs")
    layer = needs(block_saved(qwen3_8b(), 0, 128, kernels).saved, 128, "nonlinear")
    head = needs(head_saved(qwen3_8b(), 128, kernels), 128, "nonlinear")
    assert layer == 26_768_384
    assert round(9 * layer / MIB, 4) == 229.7549
    assert round(head / MIB, 4) == 76.1880


def test_the_whole_model_keeps_the_total_of_the_published_ledger_where_units_keep_two_vectors():
    """Source: chapter "Training systems", section 10.3.2: 817,058,304 B when one vector a layer is made again."""
    kernels = Kernels(attention="causal_pairs", elementwise="fused")
    layer = needs(block_saved(qwen3_8b(), 0, 128, kernels).saved, 128, "nonlinear")
    assert 36 * layer + needs(head_saved(qwen3_8b(), 128, kernels), 128, "nonlinear") == 817_058_304


def test_the_study_gives_the_workspace_of_both_ways_to_make_products_again():
    """Source: chapter "Training systems", section 10.2.2."""
    found = recompute_products(
        model=read_model("Qwen/Qwen3-8B"),
        tokens=128,
        element_format="fp32",
        stage_layers=9,
        micro_batches=4,
        recompute="selective",
        attention="causal_pairs",
        elementwise="eager",
    )
    assert (found.one_by_one_bytes, found.together_bytes) == (6 * MIB, 10 * MIB)
    assert (found.stage.nonlinear_bytes, found.head_nonlinear_bytes) == (9 * 26_768_384, 79_888_896)


def test_a_block_keeps_what_korthikanti_counts_without_dropout():
    """34 sbh of equation 1 (arXiv:2205.05198), 2 of which are masks of dropout; attention scores are apart."""
    sequence = 256
    row = sequence * 1024
    assert in_plain(gpt(), Layout(), sequence) == 32 * row
    assert in_plain(gpt(), Layout(tp=8), sequence) == 8 * row + 24 * row // 8
    assert in_plain(gpt(), Layout(tp=8, sp=True), sequence) == 32 * row // 8
    assert saved(gpt(), Layout(recompute="full"), sequence=sequence) == [2 * row]


def test_core_attention_made_again_keeps_no_scores():
    sequence, heads = 256, 16
    square = heads * sequence**2
    none, attention = saved(gpt(), Layout(), Layout(recompute="attention"), sequence=sequence, kernel="materialised")
    assert none - attention == square * (4 + 2)


def test_a_fused_loss_keeps_no_logits():
    plain = activation_columns(gpt(), ONE, sequence=256)
    fused = activation_columns(gpt(), ONE, sequence=256, loss="fused")
    assert plain.head[0] - fused.head[0] == 256 * (512 - 1) * 4
    assert plain.head_transient[0] == 2 * 256 * 512 * 4
    assert fused.head_transient[0] == 2 * 256 * 1024 * 2  # what the final norm gives and takes


def test_products_made_again_one_by_one_need_room_for_the_largest_alone():
    none, selective = (
        activation_columns(qwen3_8b(), table([Layout(recompute=name)]), sequence=128) for name in ("none", "selective")
    )
    assert (none.saved - selective.saved).tolist() == [[10 * MIB]]
    assert (selective.rebuilt - none.rebuilt).tolist() == [[6 * MIB]]


def test_a_chunk_keeps_one_input_and_is_made_again_whole():
    full, four = (
        activation_columns(gpt(), table([Layout(recompute=name)]), sequence=256) for name in ("full", "uniform_4")
    )
    layer = activation_columns(gpt(), ONE, sequence=256)
    assert four.saved[0, 0] * 4 == full.saved[0, 0]
    assert four.rebuilt[0, 0] - full.rebuilt[0, 0] == 3 * layer.saved[0, 0]


def test_a_stage_shorter_than_a_chunk_keeps_one_input_for_its_layers():
    four, of_two = saved(gpt(), Layout(recompute="uniform_4"), Layout(recompute="uniform_4", pp=4), sequence=256)
    assert of_two == 2 * four


def mixture(experts=8, top_k=2):
    block = Block(
        mixer=Attention(heads=8, kv_heads=8, head_dim=8),
        feed_forward=Experts(experts=experts, top_k=top_k, intermediate=32),
    )
    groups = (BlockGroup(count=2, block=block),)
    return Model(name="moe", family="moe", hidden=64, vocab=128, tied=False, groups=groups, max_positions=None)


def routed_bytes(layout, sequence=64):
    entries = [item for item in block_saved(mixture(), 0, sequence, Kernels()).saved if item.visits]
    return sum(int(column[0]) for column in entry_bytes(entries, table([layout]), sequence))


def test_routed_rows_are_as_many_as_a_rank_sends():
    """Whatever ep is: a rank takes as many visits as it sends, and under sp it sends those of its own rows."""
    alone = routed_bytes(Layout())
    assert routed_bytes(Layout(dp_shard=8, ep=8)) == alone
    assert routed_bytes(Layout(tp=4, sp=True, dp_shard=2, ep=8)) * 4 == alone
    assert routed_bytes(Layout(cp=2, ep=2)) * 2 == alone


def test_ranks_that_hold_the_same_rows_share_their_experts_visits():
    """tp without sp: each of ep = tp ranks works on its own experts' visits of the rows that all of them hold."""
    assert routed_bytes(Layout(tp=4, ep=4)) * 4 == routed_bytes(Layout())
    assert routed_bytes(Layout(tp=4)) == routed_bytes(Layout())


def test_ranks_that_cut_an_expert_work_on_all_its_rows():
    """etp = tp: every rank holds whole rows of the input, and its part of what lies inside the expert."""
    held = {
        item.tensor.name: [
            int(entry_bytes([item], table([layout]), 64)[0][0]) for layout in (Layout(), Layout(tp=4, etp=4, sp=True))
        ]
        for item in block_saved(mixture(), 0, 64, Kernels()).saved
        if item.visits
    }
    assert held["mlp.experts.input"][0] == held["mlp.experts.input"][1]
    assert held["mlp.experts.product"][0] == 4 * held["mlp.experts.product"][1]


@pytest.mark.parametrize("name", ["ful", "uniform", "uniform_0", "full_2", "every_99999", "_none"])
def test_a_policy_that_is_not_known_is_refused(name):
    with pytest.raises(LayoutError) as caught:
        saved(gpt(), Layout(recompute=name), sequence=16)
    assert caught.value.code == "LAY030"


def test_a_row_is_the_same_alone_and_in_any_table():
    rows = [
        Layout(tp=tp, sp=sp, cp=cp, pp=pp, micro_batch=batch, recompute=name)
        for tp in (1, 2, 8)
        for sp in (False, True)
        for cp in (1, 2)
        for pp in (1, 4)
        for batch in (1, 3)
        for name in ("none", "full", "every_2", "uniform_3", "selective", "attention")
    ]
    together = activation_columns(gpt(), table(rows), sequence=256)
    for number, row in enumerate(rows):
        alone = activation_columns(gpt(), table([row]), sequence=256)
        for name in ("saved", "rebuilt", "head", "embedding", "head_transient"):
            assert np.array_equal(getattr(together, name)[number], getattr(alone, name)[0]), (row, name)


def test_no_rows_give_no_rows():
    none = table([Layout()]).take(np.zeros(1, dtype=np.bool_))
    assert activation_columns(gpt(), none, sequence=256).saved.shape == (0, 1)


def test_numbers_can_be_traced_to_their_inputs():
    """Object columns of traced numbers go through the same lines, and hold the same values."""
    layouts = table([Layout(tp=2, sp=True, ep=2, pp=2, micro_batch=3, recompute="every_2")])
    numbers = ("tp", "cp", "pp", "virtual_stages", "ep", "etp", "micro_batch")
    leaves = {name: leaf(int(layouts.degree(name)[0]), f"layout.{name}", basis="assumed") for name in numbers}
    traced = {name: np.array([item], dtype=object) for name, item in leaves.items()}
    plain = activation_columns(mixture(), layouts, sequence=64)
    sequence = {"sequence": leaf(64, "job.sequence", basis="assumed")}
    found = activation_columns(mixture(), replace(layouts, columns={**layouts.columns, **traced}), **sequence)
    for name in ("saved", "rebuilt", "head", "head_transient"):
        assert np.array_equal(values(getattr(found, name)), getattr(plain, name))
    steps = {step["label"] for step in expression(found.saved[0, 0], "saved")}
    assert {"job.sequence", "layout.tp", "layout.micro_batch", "saved_activations_bytes"} <= steps
