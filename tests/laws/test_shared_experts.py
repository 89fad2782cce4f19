"""Laws of copies of attention that share experts: who holds what, what is sent, and that it takes what links take."""

from __future__ import annotations

from itertools import combinations
from math import isclose, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.cost.estimate import Assumptions, estimate_step
from meshwright.cost.forward_exchange import calls
from meshwright.cost.memory import serving_ledger
from meshwright.cost.spread_instances import reached_count
from meshwright.job.expert_load import RoutedReads
from meshwright.job.routing import read_expert_reads
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.model.reader import read_model
from meshwright.scenarios._experts_options import ExpertsOptions
from meshwright.scenarios.experts import experts
from meshwright.system.system import read_system
from meshwright.workload.batches import decode
from meshwright.workload.expert_reach import reach
from meshwright.workload.messages import has_message, messages

TINY, MODEL = read_model("tiny-qwen3-moe"), read_model("Qwen/Qwen3-30B-A3B")
BOX, BOXES = read_system("hgx-h100"), read_system("hgx-h100 x2")
DEALT = "data_parallel"
SHARED = [
    Layout(dp_replicate=8, ep=8, attention=DEALT),
    Layout(dp_replicate=4, tp=2, ep=8, attention=DEALT),
    Layout(dp_replicate=4, tp=2, ep=4, etp=2, attention=DEALT),
    Layout(dp_replicate=2, tp=4, ep=2, etp=4, attention=DEALT),
    Layout(dp_replicate=16, ep=16, attention=DEALT),
]


def step_of(layout, rows, system=BOXES, model=MODEL, **assumed):
    return estimate_step(model, system, table([layout]), decode(64, 1, np.array([rows])), Assumptions(**assumed))


def sent(step, layout, operation="all_to_all"):
    return [
        float(found.seconds[0]) * int(calls(message, table([layout]))[0])
        for message, found in step.exchanges
        if message.operation == operation
    ]


@pytest.mark.parametrize("layout", [Layout(), Layout(tp=4, ep=2, etp=2), Layout(tp=2, ep=2, pp=2)])
def test_one_copy_of_attention_has_the_exchanges_of_its_tp_group_alone(layout):
    found = [(item.operation, item.axis) for item, _ in step_of(layout, 8).exchanges]
    assert found == [("all_reduce", "tp"), ("all_reduce", "tp"), ("send_recv", "pp")]


@pytest.mark.parametrize("layout", SHARED)
def test_each_exchange_belongs_to_one_kind_of_layout(layout):
    """Experts among the ranks of a copy: a sum. Over copies with rows of their own: sent and returned, never summed."""
    kinds = {item.where: [] for item in messages(MODEL)}
    for item in messages(MODEL):
        kinds[item.where].append(item)
    assert not has_message(kinds["together"][0], table([layout]))[0]
    same = Layout(dp_replicate=layout.dp_replicate, tp=layout.tp, ep=layout.ep, etp=layout.etp)
    for item in kinds["dealt"]:
        assert item.operation != "all_reduce"
        assert not has_message(item, table([same]))[0]
    for item in kinds["repeated"]:
        assert item.operation == "all_reduce"
        assert not has_message(item, table([layout]))[0]


@pytest.mark.parametrize(("routing", "exact"), [("even", 1e-9), ("uniform", 0.1), ("zipf:1", 0.03)])
def test_a_dispatch_takes_what_its_busiest_link_takes(routing, exact):
    """The columns of a plan against the rows of a drawn batch on every link of the network; a drawn one has a tail."""
    tokens, reads = 16 * 128, read_expert_reads(routing)
    asked = ExpertsOptions(tokens=tokens, ep=16, routing=routing, placement="contiguous", dispatch="fp8")
    layout = Layout(dp_replicate=16, ep=16, attention=DEALT)
    for links in experts(MODEL, BOXES, asked).body["exchange"]:
        step = step_of(layout, tokens, dedup=links.id, dispatch="fp8", expert_reads=reads)
        for own, of_links in zip(sent(step, layout), (links.dispatch_s, links.combine_s), strict=True):
            assert isclose(own, of_links, rel_tol=exact)
            assert own <= of_links * 1.01


@pytest.mark.parametrize(
    "layout",
    [
        Layout(dp_replicate=4, tp=2, ep=8, attention=DEALT),
        Layout(dp_replicate=8, ep=4, etp=2, attention=DEALT),
        Layout(dp_replicate=2, tp=4, ep=4, etp=2, attention=DEALT),
    ],
)
def test_even_rows_take_as_long_however_eight_ranks_cut_attention_and_experts(layout):
    """Each of tp sends its part of a copy's rows, each of etp gets its part of a group's: 1 - 1/ep of them move."""

    def each_row_s(asked):
        few, many = (
            step_of(asked, rows, system=BOX, dedup="none", expert_reads=read_expert_reads("even"))
            for rows in (1024, 2048)
        )
        return (sent(many, asked)[0] - sent(few, asked)[0]) / (1 - 1 / asked.ep)

    assert isclose(each_row_s(layout), each_row_s(Layout(dp_replicate=8, ep=8, attention=DEALT)), rel_tol=1e-9)


def test_ranks_of_cp_that_share_the_weights_sum_experts_as_one_tp_group_does():
    """Four ranks, whatever of them is cp: one sum after the experts, of the same group and time; nothing is sent."""
    alone, shared = Layout(tp=4, ep=2, etp=2), Layout(tp=2, cp=2, ep=2, etp=2, attention="context_parallel")
    sums = []
    for layout in (alone, shared):
        step = step_of(layout, 8)
        assert not sent(step, layout)
        of_tp = [(item, found) for item, found in step.exchanges if item.axis == "tp"]
        times = [(item.after, float(found.seconds[0]), int(calls(item, table([layout]))[0])) for item, found in of_tp]
        sums.append(times)
    assert sums[0] == sums[1]
    assert [count for _, _, count in sums[0]] == [MODEL.layers, MODEL.layers]


@settings(max_examples=40, deadline=None)
@given(
    layout=st.sampled_from(SHARED),
    rows=st.integers(1, 400),
    skew=st.sampled_from([0.0, 0.3, 0.7, 1.2, 2.0]),
    dedup=st.sampled_from(["none", "rank", "node"]),
)
def test_skew_never_makes_an_exchange_faster_nor_the_busiest_rank_idler(layout, rows, skew, dedup):
    flat, hot = ("expected" if s == 0 else RoutedReads(law="zipf", exponent=s) for s in (skew / 2, skew))
    few, many = (step_of(layout, rows, dedup="none", expert_reads=reads) for reads in (flat, hot))
    assert sum(sent(many, layout)) >= sum(sent(few, layout)) * (1 - 1e-12)
    once = step_of(layout, rows, dedup=dedup, expert_reads=hot)
    assert sum(sent(once, layout)) <= sum(sent(many, layout)) * (1 + 1e-12) or dedup == "node"


@settings(max_examples=30, deadline=None)
@given(layout=st.sampled_from(SHARED), few=st.integers(1, 300), more=st.integers(1, 300), fp8=st.booleans())
def test_more_rows_never_take_less_and_fp8_rows_never_more(layout, few, more, fp8):
    small, large = (step_of(layout, rows, dispatch="fp8" if fp8 else "plain") for rows in (few, few + more))
    assert large.total_s[0] >= small.total_s[0] * (1 - 1e-12)
    assert small.total_s[0] <= step_of(layout, few).total_s[0]


@settings(max_examples=40, deadline=None)
@given(layout=st.sampled_from(SHARED), sessions=st.integers(1, 200))
def test_a_copy_keeps_its_own_sessions_and_a_part_of_the_experts(layout, sessions):
    """Memory is the ownership table's: caches of its own sessions, attention whole over tp, experts over ep x etp."""

    def held(asked, count):
        return serving_ledger(
            TINY, table([asked]), sessions=np.array([count]), tokens=100, workspace_bytes=0, capacity_bytes=2**40
        )

    if layout.ep > 8 or layout.tp > 2:  # more than the tiny model has
        return
    own = -(-sessions // layout.dp_replicate)
    alone, shared = held(Layout(tp=layout.tp, etp=layout.tp), own), held(layout, sessions)
    assert shared.kv_cache[0] == alone.kv_cache[0]
    assert shared.parameters[0] < alone.parameters[0]
    assert shared.max_sessions[0] % layout.dp_replicate == 0
    assert shared.max_sessions[0] >= alone.max_sessions[0] * layout.dp_replicate


def test_experts_work_on_the_rows_of_all_copies_that_share_them_and_of_no_others():
    rows = 64
    whole, shared, apart = (
        step_of(layout, rows)
        for layout in (
            Layout(tp=8, ep=8),
            Layout(dp_replicate=8, ep=8, attention=DEALT),
            Layout(dp_replicate=8, ep=4, attention=DEALT),
        )
    )
    flops = [next(w.flops[0] for w in step.work if w.operator.rows == "routed") for step in (whole, shared, apart)]
    assert flops[0] == flops[1]
    per_copy = step_of(Layout(tp=4, ep=4), rows // 2)
    assert flops[2] == next(w.flops[0] for w in per_copy.work if w.operator.rows == "routed")


@pytest.mark.parametrize("groups", [1, 2, 4, 8, 16, 128])
def test_uniform_choices_reach_as_many_cards_as_sets_of_experts_do(groups):
    found = reach(MODEL, 0, "expected", groups)
    assert isclose(found.reached, reached_count(8, groups, 128), rel_tol=1e-9)
    assert isclose(found.busiest * groups, found.reached, rel_tol=1e-9)
    assert isclose(found.busiest_choices * groups, 8.0)


@settings(max_examples=30, deadline=None)
@given(weights=st.lists(st.integers(1, 4), min_size=8, max_size=8), groups=st.sampled_from([1, 2, 4, 8]))
def test_the_reach_of_a_group_is_that_of_all_sets_by_their_odds(weights, groups):
    """tiny-qwen3-moe: two of eight experts."""
    layer = TINY.kinds[0].feed_forward
    assert (layer.experts, layer.top_k) == (8, 2)
    if 2 * max(weights) >= sum(weights):
        return
    likely = [2 * weight / sum(weights) for weight in weights]
    odds = [chance / (1 - chance) for chance in likely]
    sets = {chosen: prod(odds[expert] for expert in chosen) for chosen in combinations(range(8), 2)}
    size = 8 // groups
    reached = [
        sum(weight for chosen, weight in sets.items() if any(expert // size == group for expert in chosen))
        / sum(sets.values())
        for group in range(groups)
    ]
    found = reach(TINY, 0, tuple(map(float, weights)), groups)
    assert isclose(found.busiest, max(reached), rel_tol=1e-9)
    assert isclose(found.reached, sum(reached), rel_tol=1e-9)


def test_layers_of_a_recording_are_unlike_and_hot_ones_are_not_averaged_away():
    """Layer 0 has its hot experts in the first group, layer 1 in the second: each is busy, their sum would not be."""
    first, second = (tuple(float(8 if expert // 4 == hot else 1) for expert in range(8)) for hot in (0, 1))
    both = RoutedReads(law="counts", counts=(first, second), layers=(0, 1))
    summed = tuple(a + b for a, b in zip(first, second, strict=True))
    own = reach(TINY, 0, both, 2)
    assert own.busiest_choices == pytest.approx(2 * 32 / 36)
    assert reach(TINY, 0, summed, 2).busiest_choices == pytest.approx(1.0)
