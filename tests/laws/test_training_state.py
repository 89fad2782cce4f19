"""Training state: the ranks' pieces add up, columns are the fullest rank, and a higher ZeRO stage never keeps more."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.base.traced import Traced, expression, leaf, values
from meshwright.cost.kept import gathered, gradient_buffers, kept, operand_copies, read, written
from meshwright.cost.training_state import StateColumns, stage_totals, state_columns
from meshwright.job.optimizer import OPTIMIZERS
from meshwright.job.recipe import RECIPES, Recipe, checked_recipe, read_recipe
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import Layouts, table
from meshwright.layout.ownership import placement
from meshwright.model.model import block_weights, first_weights, last_weights
from meshwright.model.reader import read_model
from meshwright.scenarios._traced_nouns import given as asked
from meshwright.scenarios._traced_nouns import of_model, traced_noun
from tests.laws.strategies import held_by_rank, layouts, models, stage_ranks_of
from tests.laws.test_ledger import stage_weights

COLUMNS = tuple(item.name for item in fields(StateColumns))
RESIDENT = ("parameters", "gradients", "optimizer_state")
TARGETS = ("q_proj", "o_proj", "up_proj", "down_proj")


@st.composite
def recipes(draw):
    """Any optimizer, any formats that go together, with and without adapters."""
    copy = draw(st.sampled_from(["none", "transient", "kept", "instead"]))
    parameters = draw(st.sampled_from(["bf16", "fp16", "fp32"]))
    adapted = draw(st.booleans())
    return checked_recipe(
        Recipe(
            compute="fp8" if copy != "none" else draw(st.sampled_from(["bf16", "fp32"])),
            parameters="bf16" if copy == "instead" else parameters,
            fp8_copy=copy,
            gradients=draw(st.sampled_from(["bf16", "fp32"])),
            master="fp32" if copy == "instead" else draw(st.sampled_from(_masters(parameters))),
            optimizer=draw(st.sampled_from(OPTIMIZERS.names())),
            lora_rank=draw(st.sampled_from([1, 5, 8])) if adapted else 0,
            lora_targets=TARGETS if adapted else (),
        )
    )


def _masters(parameters):
    return ["none"] if parameters == "fp32" else ["fp32", "none"]


def modules(model, layout):
    """The weights of each column of a table: a layer of each kind, then both ends."""
    last = [item for item in last_weights(model) if item.alias is None or layout.pp > 1]
    blocks = [block_weights(model, kind) for kind in range(len(model.kinds))]
    return [*blocks, first_weights(model), tuple(last)]


def fullest(items, layout, most=False):
    """The bytes of the fullest rank, by visiting every one of them."""
    total = np.zeros(len(stage_ranks_of(layout)), dtype=np.int64)
    for item in items:
        held = held_by_rank(item.tensor, layout, item.state)
        sizes = np.array([item.piece_bytes([len(part) for part in parts]) for parts in held])
        total = np.maximum(total, sizes) if most else total + sizes
    return int(total.max())


def columns_of(model, rows, recipe):
    found = state_columns(model, rows, recipe)
    return {name: getattr(found, name).tolist() for name in COLUMNS}


@settings(max_examples=40)
@given(data=st.data())
def test_the_columns_are_the_fullest_rank_to_the_byte(data):
    model = data.draw(models())
    layout, recipe = data.draw(layouts(model)), data.draw(recipes())
    found = columns_of(model, table([layout]), recipe)
    for place, tensors in enumerate(modules(model, layout)):
        resident = kept(tensors, recipe)
        expected = {name: fullest([item for item in resident if item.state == name], layout) for name in RESIDENT}
        expected["gathered"] = (
            fullest(gathered(tensors, recipe), layout) if layout.zero == 3 else expected["parameters"]
        )
        expected["gradient_buffer"] = fullest(gradient_buffers(tensors, recipe), layout)
        expected["operand_copy"] = fullest(operand_copies(tensors, recipe), layout, most=True)
        expected["read"] = fullest(read(tensors, recipe), layout)
        expected["written"] = fullest(written(tensors, recipe), layout)
        assert {name: found[name][0][place] for name in COLUMNS} == expected


@settings(max_examples=40)
@given(data=st.data())
def test_the_pieces_of_every_state_add_up_to_the_whole_times_its_copies(data):
    model = data.draw(models())
    layout, recipe = data.draw(layouts(model)), data.draw(recipes())
    for item in {
        (item.name, item.tensor): item for weights in modules(model, layout) for item in kept(weights, recipe)
    }.values():
        pieces = held_by_rank(item.tensor, layout, item.state)
        elements = sum(int(np.prod([len(part) for part in parts])) for parts in pieces)
        assert elements == item.tensor.elements * placement(item.tensor, layout, item.state).copies
        held = sum(item.piece_bytes([len(part) for part in parts]) for parts in pieces)
        whole = item.piece_bytes(item.tensor.shape) * placement(item.tensor, layout, item.state).copies
        assert held >= whole if item.stored.block else held == whole


@settings(max_examples=40)
@given(data=st.data())
def test_a_higher_zero_stage_never_keeps_more(data):
    model = data.draw(models())
    layout, recipe = data.draw(layouts(model)), data.draw(recipes())
    found = columns_of(model, table([replace(layout, zero=zero) for zero in range(4)]), recipe)
    for name in RESIDENT:
        steps = np.array(found[name])
        assert (steps[:-1] >= steps[1:]).all()
    for name, stage in {"optimizer_state": 1, "gradients": 2, "parameters": 3}.items():
        before, after = np.array(found[name][:stage]), np.array(found[name][stage:])
        assert (before == before[0]).all(), "a stage below the one that shards a state leaves it alone"
        assert (after == after[0]).all()
    assert np.array_equal(np.array(found["gradient_buffer"])[1:], np.array(found["gradient_buffer"])[:-1])


@settings(max_examples=30)
@given(data=st.data())
def test_the_fullest_stage_is_the_most_that_any_rank_of_any_stage_keeps(data):
    model = data.draw(models())
    layout, recipe = data.draw(layouts(model)), data.draw(recipes())
    rows = table([layout])
    found = stage_totals(model, rows, state_columns(model, rows, recipe))
    by_stage = [fullest(kept(tuple(stage_weights(model, layout, stage)), recipe), layout) for stage in range(layout.pp)]
    assert found.total.tolist() == [max(by_stage)]
    assert found.stage.tolist() == [by_stage.index(max(by_stage))]
    parts = (found.parameters, found.gradients, found.optimizer_state)
    assert sum(part.item() for part in parts) == found.total.item()


@settings(max_examples=30)
@given(data=st.data())
def test_bytes_dealt_out_evenly_are_the_whole_over_the_ranks_and_never_more_than_in_chunks(data):
    model = data.draw(models())
    layout, recipe = data.draw(layouts(model)), data.draw(recipes())
    rows = table([layout])
    strict, even = (state_columns(model, rows, recipe, shards=form) for form in ("strict", "even"))
    for name in COLUMNS:
        assert (getattr(even, name) <= getattr(strict, name)).all()
    for place, tensors in enumerate(modules(model, layout)):
        for state in RESIDENT:
            items = [item for item in kept(tensors, recipe) if item.state == state]
            whole = sum(fullest([replace(item, state="gathered")], layout) / ways(item, layout) for item in items)
            assert whole <= getattr(even, state)[0, place] < whole + max(len(items), 1)


def ways(item, layout):
    """Into how many parts zero cuts a tensor, as its placement says."""
    return placement(item.tensor, layout, item.state).shards[0].get("dp_shard_cp", 1)


@settings(max_examples=30)
@given(data=st.data())
def test_what_replicas_repeat_is_not_cut(data):
    """HSDP: state is sharded over dp_shard and cp, and repeated over dp_replicate."""
    model = data.draw(models())
    layout, recipe = data.draw(layouts(model)), data.draw(recipes())
    wider = replace(layout, dp_replicate=2 * layout.dp_replicate)
    assert columns_of(model, table([layout]), recipe) == columns_of(model, table([wider]), recipe)


@settings(max_examples=30)
@given(data=st.data())
def test_ranks_of_cp_share_state_as_those_of_dp_shard_do(data):
    model = data.draw(models())
    layout, recipe = data.draw(layouts(model)), data.draw(recipes())
    moved = replace(layout, dp_shard=layout.dp_shard * layout.cp, cp=1)
    for form in ("strict", "even"):
        both = state_columns(model, table([layout, moved]), recipe, shards=form)
        for name in COLUMNS:
            column = getattr(both, name).tolist()
            assert column[0] == column[1]


@settings(max_examples=30)
@given(data=st.data())
def test_a_table_gives_what_its_rows_give_alone(data):
    model = data.draw(models())
    rows = [data.draw(layouts(model)) for _ in range(data.draw(st.integers(0, 6)))]
    recipe = data.draw(recipes())
    whole = columns_of(model, table(rows), recipe)
    alone = [columns_of(model, table([row]), recipe) for row in rows]
    assert whole == {name: [single[name][0] for single in alone] for name in COLUMNS}


@settings(max_examples=15)
@given(data=st.data())
def test_traced_numbers_give_the_same_values_and_say_where_they_come_from(data):
    model = data.draw(models())
    layout = replace(data.draw(layouts(model)), zero=3, dp_shard=2, ep=1, etp=1, tp=1, cp=1)
    recipe = data.draw(recipes())
    plain = table([layout])
    shards = np.array([leaf(2, "layout.dp_shard", basis="assumed")], dtype=object)
    traced = state_columns(
        traced_noun(model, "model", of_model(model)), Layouts(columns={**plain.columns, "dp_shard": shards}), recipe
    )
    expected = state_columns(model, plain, recipe)
    for name in COLUMNS:
        assert values(getattr(traced, name)).tolist() == getattr(expected, name).tolist()
    first = traced.parameters[0, 0]
    assert isinstance(first, Traced)
    labels = {node["label"] for node in expression(first, "parameters_bytes")}
    assert {"model.hidden", "layout.dp_shard"} <= labels


def test_the_rank_of_adapters_is_traced():
    model, recipe = read_model("tiny-qwen3"), read_recipe("bf16-lora")
    traced = state_columns(model, table([Layout()]), traced_noun(recipe, "job.recipe", asked))
    nodes = expression(traced.optimizer_state[0, 0], "optimizer_state_bytes")
    assert "job.recipe.lora_rank" in {node["label"] for node in nodes}


@pytest.mark.parametrize("name", RECIPES.names())
def test_every_named_recipe_loads_and_keeps_every_weight(name):
    recipe = read_recipe(name)
    model = read_model("tiny-qwen3-moe")
    for tensors in modules(model, Layout()):
        names = {item.tensor.name for item in kept(tensors, recipe) if item.state == "parameters"}
        assert {tensor.name for tensor in tensors} <= names
