"""Ranks of cp in a training step: pairs of the busiest one, and exchanges that each have a time model of their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.base.errors import LayoutError
from meshwright.base.result import as_json
from meshwright.cost.context import ring_wait_s
from meshwright.cost.training_activations import activation_columns
from meshwright.cost.training_exchange import layer_exchange, message_bytes
from meshwright.cost.training_work import operator_flops, training_work
from meshwright.job.recipe import Recipe
from meshwright.job.train import TrainJob
from meshwright.layout.layout import Layout, read_fixed
from meshwright.layout.layouts import table
from meshwright.model.mixers.told import ALL, Span
from meshwright.model.reader import read_model
from meshwright.scenarios._training_context import takes_cp
from meshwright.scenarios._training_options import TrainOptions
from meshwright.scenarios.training import plan_train
from meshwright.system.system import read_system
from meshwright.workload.context_split import ContextPlan, busiest_pairs
from meshwright.workload.operators import operators
from meshwright.workload.training_messages import training_messages

DENSE, BOXES = read_model("Qwen/Qwen3-8B"), read_system("hgx-h100 x2")
WINDOWED, HYBRID = read_model("google/gemma-3-12b-it"), read_model("Qwen/Qwen3.6-35B-A3B")
SEQUENCE, BYTES = 4096, 2
PLANS = [
    ContextPlan(split=split, exchange=exchange)
    for split in ("zigzag", "contiguous", "striped")
    for exchange in ("ring", "all_gather", "ulysses")
]


def rows_of(*degrees, **fields):
    return table([Layout(cp=cp, attention="data_parallel", **fields) for cp in degrees])


def scored(model, context, rows, sequence=SEQUENCE):
    return {
        operator.name: operator_flops(rows, sequence, operator, context)
        for operator in operators(model)
        if operator.scores.dims
    }


@pytest.mark.parametrize("context", PLANS)
@pytest.mark.parametrize("model", [DENSE, WINDOWED])
def test_the_busiest_rank_scores_no_less_than_an_equal_share_and_no_more_than_all(model, context):
    alone, shared = scored(model, context, rows_of(1)), scored(model, context, rows_of(2, 4, 8))
    for name, flops in shared.items():
        share = alone[name][0] / np.array([2, 4, 8])
        assert np.all(flops >= share * (1 - 1e-12))
        assert np.all(flops < alone[name][0])


@given(st.integers(1, 64), st.sampled_from([2, 4, 8, 16]))
def test_zigzag_of_full_attention_is_an_equal_share_to_the_last_digit(shard, cp):
    """So the plan divides there, and counts the busiest rank elsewhere."""
    sequence = 2 * cp * shard
    exact = busiest_pairs("zigzag", (sequence,), cp, "causal", ALL)
    operator = next(item for item in operators(DENSE) if item.scores.dims)
    found = operator_flops(rows_of(cp), sequence, operator)[0]
    assert found == (operator.scores.elements + operator.values.elements) * 2 * float(exact)


def test_neighbours_wait_for_the_last_rank_and_stripes_hardly_wait():
    zigzag, contiguous, striped = (
        scored(DENSE, ContextPlan(split=split), rows_of(8))["attention"][0]
        for split in ("zigzag", "contiguous", "striped")
    )
    assert contiguous == pytest.approx(zigzag * (2 - 1 / 8), rel=1e-3)
    assert zigzag < striped == pytest.approx(zigzag * (SEQUENCE + 8) / (SEQUENCE + 1), rel=1e-9)


def test_a_window_bounds_what_neighbours_wait_for():
    full, window = (
        busiest_pairs("contiguous", (SEQUENCE,), 8, "causal", span)
        / busiest_pairs("zigzag", (SEQUENCE,), 8, "causal", span)
        for span in (ALL, Span(window=64))
    )
    assert full > 1.8
    assert window == pytest.approx(1.0, abs=0.01)


def exchanged(context, cp=4, model=DENSE, **fields):
    """Seconds of exchanges over cp of one layer, forward and backward, beside no attention."""
    rows = rows_of(cp, dp_replicate=16 // cp, **fields)
    work = training_work(model, BOXES, rows, Recipe(), SEQUENCE, 1.0)
    alone = replace(work, attention_s=work.attention_s * 0.0)
    found = layer_exchange(model, BOXES, rows, SEQUENCE, alone, "own", context)
    return found.forward_s[0, 0], found.backward_s[0, 0]


def test_a_gather_sends_what_a_ring_does_and_nothing_hides_it():
    gathered = exchanged(ContextPlan(exchange="all_gather"))
    assert gathered == pytest.approx(exchanged(ContextPlan()))
    rows = rows_of(4, dp_replicate=4)
    work = training_work(DENSE, BOXES, rows, Recipe(), SEQUENCE, 1e-3)
    late = layer_exchange(DENSE, BOXES, rows, SEQUENCE, work, "own", ContextPlan(exchange="all_gather"))
    assert (late.forward_s[0, 0], late.backward_s[0, 0]) == pytest.approx(gathered)


def test_ulysses_sends_queries_and_outputs_with_few_keys_and_values_repeated():
    """Qwen3-8B: 32 query heads and 8 KV heads of 128; of cp=4 each rank gets two KV heads, of cp=16 a copy of one."""
    for cp, kv_heads in ((4, 8), (8, 8), (16, 16)):
        sent = SEQUENCE / cp * BYTES * 128 * np.array([32 + 2 * kv_heads, 32])
        found = [
            message_bytes(DENSE, rows_of(cp), SEQUENCE, message)[0]
            for message in training_messages(DENSE, ContextPlan(exchange="ulysses"))
            if message.axis == "cp"
        ]
        assert found == pytest.approx(list(sent))


def test_ulysses_sends_less_than_a_ring_as_ranks_grow():
    few, many = (exchanged(ContextPlan(exchange="ulysses"), cp)[0] / exchanged(ContextPlan(), cp)[0] for cp in (2, 8))
    assert many < few


@pytest.mark.parametrize("cp", [2, 4, 8])
def test_the_exchange_of_every_plan_takes_time_and_none_is_an_equal_share_of_nothing(cp):
    for context in PLANS:
        forward, backward = exchanged(context, cp)
        assert 0 < forward <= backward
        assert exchanged(context, 1) == (0.0, 0.0)


def waited(attention_s, sent_s, split="zigzag", cp=4, model=DENSE):
    rows = rows_of(cp)
    attention, sent = np.array([attention_s]), np.array([sent_s])
    return float(ring_wait_s(model, rows, SEQUENCE, 0, attention, sent, ContextPlan(split=split))[0])


def test_a_round_hides_a_message_behind_its_own_scores_and_the_last_has_none_to_hide():
    """Four rounds of 1 s and three messages of 2 s: three rounds take 2 s each, the last 1 s."""
    assert waited(4.0, 6.0) == pytest.approx(3.0, rel=2e-3)
    assert waited(4.0, 3.0 * 0.999) == 0.0
    assert waited(0.0, 6.0) == pytest.approx(6.0)


def test_rounds_of_neighbours_are_those_of_their_busiest_rank():
    """Half a square, then three of them: a message behind the half is waited for sooner than behind a mean round."""
    half = 1 / 7
    assert waited(7.0, 3 * 1.5, "contiguous") == pytest.approx(1.5 - 7 * half, rel=3e-3)
    assert waited(7.0, 3 * 1.74, "contiguous") > waited(7.0, 3 * 1.74) == 0.0


def test_ranks_that_take_turns_wait_for_each_other_even_where_messages_are_free():
    """gemma-3-12b's first layers see 1024 positions: rounds of zigzag are full for some ranks and empty for others."""
    assert waited(1.0, 0.0, model=WINDOWED) > 0.1
    assert waited(1.0, 0.0) == waited(1.0, 0.0, "contiguous") == waited(1.0, 0.0, cp=1) == 0.0


SMALL = replace(DENSE, groups=tuple(
    replace(group, block=replace(group.block, feed_forward=replace(group.block.feed_forward, intermediate=128)))
    for group in DENSE.groups
))  # fmt: skip
ROWS = 1024


def held(exchange, cp, model=SMALL):
    """Bytes of one layer on a rank with ROWS positions."""
    context = ContextPlan(exchange=exchange)
    found = activation_columns(model, rows_of(cp), sequence=ROWS * cp, elementwise="fused", context=context)
    return int(found.saved[0, 0]), int(found.rebuilt[0, 0])


def test_a_gather_holds_keys_and_values_of_all_ranks_and_their_gradients_beside_attention():
    """A ring two buffers of each: the same of two ranks. 8 KV heads of 128, keys and values, bf16."""
    pair = 2 * 8 * 128 * BYTES * ROWS
    for cp in (2, 4, 8):
        (kept, ring), (also, gather) = held("ring", cp), held("all_gather", cp)
        assert kept == also
        assert gather - ring == (2 * cp - 4) * pair
    assert held("ring", 2)[1] == held("ring", 8)[1] > held("ring", 1)[1]


def test_ulysses_keeps_an_output_by_heads_and_by_rows_and_heads_that_it_repeats():
    """32 query heads of 128; the logarithms of sums are dealt out, too. At cp=16 each of 8 KV heads is kept twice."""
    output, head = 32 * 128 * BYTES * ROWS, 128 * BYTES * ROWS
    for cp, repeated in ((2, 0), (8, 0), (16, 8), (32, 24)):
        assert held("ulysses", cp)[0] - held("ring", cp)[0] == output + 2 * repeated * head
    assert held("ulysses", 1) == held("ring", 1)


def test_ulysses_has_no_buffers_of_other_ranks_beside():
    assert held("ulysses", 8)[1] < held("ring", 8)[1]


def test_a_plan_counts_what_an_exchange_holds():
    fixed = "tp=1,cp=16,pp=1,zero=3,micro_batch=1,recompute=none"
    least = [plan(fixed, cp_exchange=way)["memory"]["per_rank_bytes"] for way in ("ring", "ulysses")]
    assert least[0] < least[1]


def passes(context):
    return [item for item in training_messages(HYBRID, context) if item.operation == "pass"]


def test_state_of_fixed_size_passes_from_rank_to_rank_whatever_the_length():
    """Forth and back under zigzag, whose ranks have an early and a late stretch. One linear kind of layer has it."""
    (zigzag,), (contiguous,) = passes(ContextPlan()), passes(ContextPlan(split="contiguous"))
    assert (zigzag.forward, contiguous.forward) == (2, 1)
    assert not [item for item in training_messages(DENSE, ContextPlan()) if item.operation == "pass"]
    sizes = {float(message_bytes(HYBRID, rows_of(4), sequence, zigzag)[0]) for sequence in (4096, 65536)}
    assert sizes == {32 * 128 * 128 * 4.0 + 8192 * 4 * 2.0}


@pytest.mark.parametrize(
    "context",
    [ContextPlan(split="striped"), ContextPlan(exchange="ulysses"), ContextPlan(), ContextPlan(split="contiguous")],
)
def test_a_recurrence_takes_stretches_of_positions_alone(context):
    stretches = context.exchange == "ring" and context.split != "striped"
    assert takes(HYBRID, context, 1, 2) == stretches
    assert takes(HYBRID, context, 1, 1)


def takes(model, context, tp, cp, sequence=SEQUENCE):
    return bool(takes_cp(model, TrainJob(tokens=10**9, sequence=sequence, global_batch=16), context, tp, cp))


def test_shards_and_heads_decide_which_degrees_can_share_a_sequence():
    zigzag, contiguous, heads = ContextPlan(), ContextPlan(split="contiguous"), ContextPlan(exchange="ulysses")
    assert not takes(DENSE, zigzag, 1, 8, 4104)
    assert takes(DENSE, contiguous, 1, 8, 4104)
    assert takes(DENSE, heads, 2, 16)
    assert not takes(DENSE, heads, 4, 16)
    assert takes(DENSE, heads, 32, 1, 4099)


def plan(fixed, system=BOXES, **options):
    job = TrainJob(tokens=10**9, sequence=SEQUENCE, global_batch=16)
    given_options = TrainOptions(layout=read_fixed(fixed), flips="none", runs=0, finalists=0, keep=1, **options)
    return as_json(plan_train(DENSE, system, job, given_options))["best"]


def test_a_plan_refuses_heads_that_ulysses_cannot_deal_out():
    with pytest.raises(LayoutError, match="LAY050") as caught:
        plan("tp=4,cp=16", read_system("hgx-h100 x8"), cp_exchange="ulysses")
    assert "cp=" in caught.value.fix


def test_a_plan_with_neighbours_ends_later_than_with_zigzag():
    fixed = "tp=2,cp=8,pp=1,zero=3,micro_batch=1,recompute=none"
    ends = [plan(fixed, efficiency=0.05, cp_split=split)["finish_s"] for split in ("zigzag", "striped", "contiguous")]
    assert ends == sorted(ends)
    assert ends[0] < ends[2]
