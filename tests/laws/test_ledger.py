"""Ledgers add up: what all ranks hold is the model times its copies, and the column ledger is the fullest rank."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.cost.memory import serving_ledger
from meshwright.cost.memory_parts import parts_bytes
from meshwright.layout.layouts import table
from meshwright.layout.ownership import placement, stage_of_layers
from meshwright.model.model import block_weights, first_weights, last_weights, parameter_bytes
from meshwright.model.tensors import Dim
from tests.laws.strategies import held_by_rank, layouts, models, stage_ranks_of

BIG = 10**12


def stage_weights(model, layout, stage):
    """The tensors whose bytes a stage holds: those of its layers, and of the ends; a tied head once on one stage."""
    layers = stage_of_layers(model.layers, layout.pp)[stage]
    held = [tensor for layer in layers for tensor in block_weights(model, model.kind_of_layer[layer])]
    held += first_weights(model) if stage == 0 else ()
    if stage == layout.pp - 1:
        held += [tensor for tensor in last_weights(model) if tensor.alias is None or layout.pp > 1]
    return held


def stage_state(model, layout, stage, sessions, tokens):
    """Keys and values of every session on the layers of a stage."""
    layers = stage_of_layers(model.layers, layout.pp)[stage]
    for layer in layers:
        mixer = model.kinds[model.kind_of_layer[layer]].mixer
        kept = tokens if mixer.window is None else min(tokens, mixer.window)
        rows = (Dim(role="samples", size=sessions), Dim(role="positions", size=kept))
        for item in mixer.token_state():
            yield replace(item, tensor=replace(item.tensor, dims=(*rows, *item.tensor.dims)))


def bytes_by_rank(model, layout, stage, sessions, tokens):
    """(parameters, cached state) of every rank of a stage of one replica, in rank order."""
    ranks = len(stage_ranks_of(layout, stage))
    parameters, cached = np.zeros(ranks, dtype=np.int64), np.zeros(ranks, dtype=np.int64)
    for tensor in stage_weights(model, layout, stage):
        held = held_by_rank(tensor, layout, "parameters", stage)
        stored = model.format_of(tensor).stored_bytes
        parameters += np.array([stored([len(part) for part in parts]) for parts in held])
    for state in stage_state(model, layout, stage, sessions, tokens):
        held = held_by_rank(state.tensor, layout, "kv_cache", stage)
        cached += np.array([model.cached_bytes(state, [len(part) for part in parts]) for parts in held])
    return parameters, cached


@settings(max_examples=50)
@given(data=st.data())
def test_the_column_ledger_is_the_fullest_rank_to_the_byte(data):
    model = data.draw(models())
    layout = data.draw(layouts(model))
    sessions, tokens = data.draw(st.integers(0, 5)), data.draw(st.integers(0, 50))
    by_stage = [bytes_by_rank(model, layout, stage, sessions, tokens) for stage in range(layout.pp)]
    totals = [parameters + cached for parameters, cached in by_stage]
    ledger = serving_ledger(
        model, table([layout]), sessions=np.array([sessions]), tokens=tokens, workspace_bytes=7, capacity_bytes=BIG
    )
    assert int(ledger.total[0]) - 7 == max(int(column.max()) for column in totals)
    stage = int(ledger.stage[0])
    fullest = int(np.argmax(totals[stage]))
    assert int(ledger.parameters[0]) == int(by_stage[stage][0][fullest])
    assert int(ledger.kv_cache[0]) == int(by_stage[stage][1][fullest])
    assert sum(parts_bytes(model, layout, stage).values()) == int(ledger.parameters[0])


@settings(max_examples=50)
@given(data=st.data())
def test_all_ranks_together_hold_the_model_times_its_copies(data):
    """Scales too, wherever every piece is whole blocks and words; a piece that cuts one pays all of it."""
    model = data.draw(models())
    layout = data.draw(layouts(model))
    held = sum(int(bytes_by_rank(model, layout, stage, 0, 0)[0].sum()) for stage in range(layout.pp))
    tensors = [tensor for stage in range(layout.pp) for tensor in stage_weights(model, layout, stage)]
    expected = sum(
        int(model.format_of(tensor).stored_bytes(tensor.shape)) * placement(tensor, layout).copies for tensor in tensors
    )
    formats = [model.format_of(tensor) for tensor in tensors]
    if all(_aligned(layout, tensor, item, _sides(item)) for tensor, item in zip(tensors, formats, strict=True)):
        assert held == expected
    elif all(
        item.over == "elements" or _aligned(layout, tensor, item, _sides(item)[:1])
        for tensor, item in zip(tensors, formats, strict=True)
    ):
        assert held >= expected
    else:
        assert held > expected


@settings(max_examples=50)
@given(data=st.data())
def test_one_rank_holds_the_whole_model(data):
    model = data.draw(models())
    layout = data.draw(layouts(model).filter(lambda item: item.world_size // item.replicas > 1))
    alone = replace(layout, **dict.fromkeys(("tp", "cp", "pp", "ep", "etp", "dp_shard", "dp_replicate"), 1))
    ledger = serving_ledger(
        model, table([alone]), sessions=np.array([0]), tokens=1, workspace_bytes=0, capacity_bytes=BIG
    )
    assert int(ledger.parameters[0]) == parameter_bytes(model)["total"]


@settings(max_examples=50)
@given(data=st.data())
def test_max_sessions_fit_and_one_more_on_each_copy_does_not(data):
    model = data.draw(models())
    layout = data.draw(layouts(model))
    tokens, capacity = data.draw(st.integers(1, 50)), data.draw(st.integers(0, 3_000_000))
    rows = table([layout])

    def ledger(sessions, positions):
        column = np.array([sessions])
        return serving_ledger(
            model, rows, sessions=column, tokens=positions, workspace_bytes=5, capacity_bytes=capacity
        )

    empty = ledger(0, tokens)
    most, copies = int(empty.max_sessions[0]), 1
    if layout.attention == "data_parallel":
        copies = layout.dp_replicate * layout.dp_shard
    if int(empty.total[0]) > capacity:
        assert most == int(empty.max_kv_tokens[0]) == 0
        return
    assert int(ledger(most, tokens).total[0]) <= capacity
    assert int(ledger(most + 1, tokens).total[0]) > capacity or most % copies
    assert int(ledger(most + copies, tokens).total[0]) > capacity
    if all(block.mixer.window is None for block in model.kinds):
        positions = int(empty.max_kv_tokens[0])
        assert int(ledger(copies, positions // copies).total[0]) <= capacity
        assert int(ledger(copies, positions // copies + layout.cp).total[0]) > capacity


def _sides(stored):
    """Rows and columns of the blocks and words of a format, those that share a scale first."""
    words = max(stored.word_bits // stored.bits, 1)
    beside = [(item.block, max(item.word_bits // item.value_bits, 1)) for item in stored.beside]
    return [
        stored.block or (1, 1),
        (1, words) if stored.words_along == "columns" else (words, 1),
        *((rows * packed, columns) for (rows, columns), packed in beside),
    ]


def _aligned(layout, tensor, stored, sides):
    """Whether the pieces of a matrix have together as many blocks with these sides as the matrix, started ones too."""
    if len(tensor.dims) < 2:
        return True
    ends = [tensor.dims[-2].size, tensor.dims[-1].size]
    pieces = {
        tuple((part.start, part.stop) for part in parts[-2:]) for parts in held_by_rank(tensor, layout, "parameters")
    }
    if stored.over == "elements":  # of one row: only the last word of a piece may be a started one
        return len(pieces) == 1
    sizes = [[stop - start for start, stop in piece] for piece in pieces]
    return all(sum(_blocks(size, side) for size in sizes) == _blocks(ends, side) for side in sides)


def _blocks(sizes, side):
    return prod(-(-size // width) for size, width in zip(sizes, side, strict=True))
