"""Laws of experts: rows are conserved, copies and placements never harm, and the even exchange is that of the plans."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.cost.training_exchange import message_bytes
from meshwright.job.routing import read_routing
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.model.reader import read_model
from meshwright.search.assign import assign, hot_copies
from meshwright.workload.expert_batches import (
    DROPPED,
    Slots,
    capacity_rows,
    dealt,
    executed,
    relayed,
    rows_sent,
    without_own,
)
from meshwright.workload.routing import batch
from meshwright.workload.training_messages import training_messages

MODEL = read_model("tiny-qwen3-moe")
ROUTINGS = st.sampled_from(["uniform", "even", "zipf:0.7", "zipf:2", "counts:4x3,4x1"])


@st.composite
def runs(draw):
    """A batch of eight experts, on groups, with copies and a capacity."""
    groups, more = draw(st.sampled_from([(1, 0), (2, 0), (4, 0), (2, 2), (4, 4), (8, 8)]))
    tokens, top_k = draw(st.integers(1, 60)), draw(st.integers(1, 4))
    choices = batch(read_routing(draw(ROUTINGS)), 0, 8, top_k, tokens, draw(st.integers(0, 9)))
    rows = np.bincount(choices.reshape(-1), minlength=8)
    copies = hot_copies(rows, more)
    expert = np.repeat(np.arange(8), copies)
    number = np.arange(len(expert)) - np.repeat(np.cumsum(copies) - copies, copies)
    loads = rows[expert] // copies[expert] + (number < rows[expert] % copies[expert])
    slots = Slots(expert=expert, group=assign(loads, groups, "greedy").bin)
    factor = draw(st.none() | st.sampled_from(["0.5", "1", "1.25", "3"]))
    capacity = None if factor is None else capacity_rows(Fraction(factor), tokens, top_k, len(expert))
    return choices, slots, loads, groups, executed(choices, slots, capacity)


@settings(max_examples=60, deadline=None)
@given(run=runs())
def test_loads_over_ranks_add_up_to_tokens_times_k_minus_drops(run):
    choices, slots, loads, groups, found = run
    assert found.asked.tolist() == loads.tolist()
    kept = np.bincount(slots.group, weights=found.kept, minlength=groups)
    assert kept.sum() == choices.size - found.dropped
    assert found.rows.sum() == choices.size - found.dropped + found.padding
    assert (found.slot == DROPPED).sum() == found.dropped
    held = found.slot != DROPPED
    assert (slots.expert[found.slot[held]] == choices[held]).all()


@settings(max_examples=60, deadline=None)
@given(run=runs(), box=st.integers(1, 4))
def test_fewer_rows_are_sent_once_a_rank_and_no_row_is_lost_on_the_way(run, box):
    choices, slots, _, groups, found = run
    source = dealt(len(choices), groups)
    target = np.where(found.slot == DROPPED, DROPPED, slots.group[found.slot])
    each, once = (rows_sent(source, target, groups, groups, once=way) for way in (False, True))
    assert each.sum() == choices.size - found.dropped
    assert (once <= each).all()
    assert ((once > 0) == (each > 0)).all()
    first, second = relayed(source, target, groups, box)
    assert second.sum(axis=0).tolist() == once.sum(axis=0).tolist()
    node = np.arange(groups) // box
    assert without_own(second)[node[:, None] != node].sum() == 0
    crossing = once[node[:, None] != node].sum()
    assert first.sum() <= crossing


@settings(max_examples=40, deadline=None)
@given(run=runs())
def test_copies_of_hot_experts_never_raise_the_largest_slot(run):
    _, slots, loads, _, _ = run
    rows = np.bincount(slots.expert, weights=loads, minlength=8)
    assert loads.max() <= rows.max()


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_the_even_all_to_all_of_the_training_plan_is_uniform_routing_with_a_row_a_choice(ranks):
    """What a rank sends in all, its own block included: the message of the plan, to the byte."""
    layer, sequence = MODEL.kinds[0].feed_forward, 64
    layouts = table([Layout(dp_shard=ranks, ep=ranks)])
    message = next(item for item in training_messages(MODEL) if item.operation == "all_to_all")
    told = message_bytes(MODEL, layouts, sequence, message)[0]
    choices = batch(read_routing("even"), 0, layer.experts, layer.top_k, sequence * ranks, 0)
    target = choices // (layer.experts // ranks)
    sent = rows_sent(dealt(len(choices), ranks), target, ranks, ranks, once=False)
    assert sent.sum(axis=1).tolist() == [told / (MODEL.hidden * 2)] * ranks
    assert np.ptp(sent) == 0
