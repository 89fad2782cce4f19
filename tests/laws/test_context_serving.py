"""Serving over ranks of cp: every element is held as the table says, and parts of a step add up to the whole step."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.cost.estimate import Assumptions, estimate_step
from meshwright.cost.memory import serving_ledger
from meshwright.layout.layout import Layout, read_fixed
from meshwright.layout.layouts import table
from meshwright.layout.ownership import placement
from meshwright.layout.rules import first_broken, keeps_all
from meshwright.model.reader import read_model
from meshwright.model.tensors import Dim
from meshwright.scenarios._serving_context import serving_context_rules
from meshwright.system.system import read_system
from meshwright.workload.activations import activations
from meshwright.workload.batches import decode, prefill
from meshwright.workload.context_split import ContextPlan
from tests.laws.strategies import models
from tests.laws.test_ownership import copies_of, weights_of

SYSTEM = read_system("hgx-h100 x4")
_DEGREES = (1, 2, 3, 4)


@st.composite
def shared(draw, model):
    """A layout whose ranks of cp share the weights, and keeps the rules."""
    tried = [
        Layout(tp=tp, cp=cp, ep=ep, etp=etp, attention="context_parallel")
        for tp, cp, ep, etp in product(_DEGREES, (2, 3, 4), (1, 2, 4), (1, 2, 3, 4, 6, 8, 12, 16))
        if ep * etp in {1, tp * cp}
    ]
    kept = [tried[row] for row in np.flatnonzero(keeps_all(model, table(tried))).tolist()]
    return draw(st.sampled_from(kept)) if kept else Layout()


def total_of(model, layout, batch, **assumptions):
    return estimate_step(model, SYSTEM, table([layout]), batch, Assumptions(all_reduce="ring", **assumptions))


def scored(step):
    return {work.operator.name: float(work.flops[0]) for work in step.work if work.operator.scores.dims}


def cached(model, layout, sessions, tokens):
    found = serving_ledger(
        model, table([layout]), sessions=np.array([sessions]), tokens=tokens, workspace_bytes=0, capacity_bytes=10**9
    )
    return int(found.kv_cache[0]), int(found.max_kv_tokens[0])


@settings(max_examples=25)
@given(data=st.data())
def test_what_ranks_of_cp_share_is_held_by_exactly_the_ranks_the_table_says(data):
    model = data.draw(models())
    layout = data.draw(shared(model))
    rows = (Dim(role="samples", size=2), Dim(role="positions", size=data.draw(st.integers(1, 9))))
    state = [item.tensor for item in model.kinds[0].mixer.token_state()]
    tensors = [(item, "parameters") for item in {(item.name, item.dims): item for item in weights_of(model)}.values()]
    tensors += [(item, "activations") for item in activations(model, 0, 2, 5)]
    tensors += [(replace(item, dims=(*rows, *item.dims)), "kv_cache") for item in state]
    for tensor, kept_as in tensors:
        where = placement(tensor, layout, kept_as)
        assert (copies_of(tensor, layout, kept_as) == where.copies).all(), (tensor, kept_as, where)


@settings(max_examples=25)
@given(data=st.data())
def test_ranks_of_cp_cut_a_context_and_no_head(data):
    """A whole number of positions each: cp times as many in all, in a ledger and in what a step reads and scores."""
    model = data.draw(models())
    model = replace(
        model,
        groups=tuple(
            replace(g, block=replace(g.block, mixer=replace(g.block.mixer, window=None))) for g in model.groups
        ),
    )
    layout = data.draw(shared(model))
    apart = replace(layout, attention="replicated", ep=1, etp=1)
    alone = replace(apart, cp=1)
    tokens = layout.cp * data.draw(st.integers(1, 20))
    whole, _ = cached(model, alone, 3, tokens)
    for own in (layout, apart):
        part, _ = cached(model, own, 3, tokens)
        assert part * own.cp == whole
    one, cut = (total_of(model, item, decode(tokens - 1, 1, 3)) for item in (alone, apart))
    assert {name: flops * apart.cp for name, flops in scored(cut).items()} == scored(one)
    reads = [sum(float(work.state_bytes[0]) for work in step.work) for step in (one, cut)]
    assert reads[1] * apart.cp == reads[0]


@settings(max_examples=25)
@given(data=st.data())
def test_one_rank_of_cp_is_a_layout_without_it(data):
    model = data.draw(models())
    layout = replace(data.draw(shared(model)), cp=1, ep=1, etp=1)
    plain = replace(layout, attention="replicated")
    batch = data.draw(st.sampled_from([decode(30, 3, 2), decode(0, 1), prefill(9)]))
    context = ContextPlan(split="contiguous", exchange="all_gather")
    pair = [total_of(model, item, batch, context=context) for item in (layout, plain)]
    assert float(pair[0].total_s[0]) == float(pair[1].total_s[0])
    assert all(message.axis != "cp" for message, _ in pair[0].exchanges)
    assert cached(model, layout, 2, 7) == cached(model, plain, 2, 7)


@settings(max_examples=25)
@given(data=st.data())
def test_ranks_that_share_a_layer_score_as_many_pairs_as_one_tp_group_would(data):
    """Of as many positions as ranks, a whole number of times: queries travel, and nobody scores a head twice."""
    model = data.draw(models())
    layout = data.draw(shared(model))
    joined = replace(layout, tp=layout.tp * layout.cp, cp=1, attention="replicated")
    batch = decode(layout.cp * data.draw(st.integers(1, 9)) - 1, 1, 2)
    if any(block.mixer.window is not None for block in model.kinds):
        return
    assert scored(total_of(model, layout, batch)) == scored(total_of(model, joined, batch))


@settings(max_examples=30)
@given(data=st.data())
def test_what_is_proposed_in_place_of_a_refused_layout_keeps_every_rule(data):
    model = read_model(data.draw(st.sampled_from(["Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-Next-80B-A3B-Instruct"])))
    rules = serving_context_rules(ContextPlan(split=data.draw(st.sampled_from(["zigzag", "striped"]))))
    degree = st.sampled_from((1, 2, 4, 8))
    words = st.sampled_from(("replicated", "data_parallel", "context_parallel"))
    rows = table(
        [
            Layout(tp=tp, cp=cp, ep=ep, etp=etp, dp_replicate=copies, attention=attention)
            for tp, cp, ep, etp, copies, attention in data.draw(
                st.lists(st.tuples(degree, degree, degree, degree, degree, words), min_size=20, max_size=20)
            )
        ]
    )
    for layout, broken in zip(rows.rows(), first_broken(model, rows, 64, rules), strict=True):
        if broken is None or broken.nearest is None:
            continue
        names = [item.partition("=")[0] for item in broken.nearest.split(",")]
        assert len(set(names)) == len(names)
        moved = replace(layout, **read_fixed(broken.nearest))
        implied = replace(moved, etp=max(moved.tp // moved.ep, 1))
        assert keeps_all(model, table([moved, implied]), rules).any(), (layout, broken)
