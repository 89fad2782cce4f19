"""Laws of routing in training: even rows are the special case, skew never helps, a capacity bounds rows."""

from __future__ import annotations

from math import comb, isclose

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.cost.training import TrainingAssumptions, training_parts
from meshwright.cost.training_activations import activation_columns
from meshwright.cost.training_exchange import message_bytes
from meshwright.job.expert_load import RoutedReads
from meshwright.job.routing import read_routing, read_token_routing
from meshwright.job.train import TrainJob
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.model.reader import read_model
from meshwright.system.system import read_system
from meshwright.workload.expert_batches import Slots, executed
from meshwright.workload.expert_rows import EVEN, ExpertRows, dropped_rows, excess, loads_of
from meshwright.workload.routing import batch, inclusion
from meshwright.workload.training_messages import training_messages

MODEL, BOX = read_model("tiny-qwen3-moe"), read_system("hgx-h100")
JOB = TrainJob(tokens=10**7, sequence=512, global_batch=64)
LAYOUTS = table(
    [
        Layout(dp_shard=8),
        Layout(dp_shard=8, ep=8),
        Layout(dp_shard=4, tp=2, ep=4, etp=2),
        Layout(dp_shard=4, tp=2, ep=4, sp=True, micro_batch=2),
        Layout(dp_shard=2, tp=2, cp=2, ep=8, sp=True),
        Layout(tp=2, ep=2, dp_shard=4),
    ]
)
EXPONENTS = st.sampled_from([0.2, 0.5, 1.0, 1.5, 3.0])


def measured(rows, layouts=LAYOUTS):
    """Seconds of a layer's products and exchanges on the busiest rank, and bytes that it keeps; [layouts] each."""
    parts = training_parts(MODEL, BOX, JOB, layouts, TrainingAssumptions(experts=rows))
    kept = activation_columns(MODEL, layouts, sequence=JOB.sequence, experts=rows)
    return parts.work.forward_s[:, 0], parts.inside.forward_s[parts.place, 0], kept.saved[:, 0]


def zipf(exponent):
    return RoutedReads(law="zipf", exponent=exponent)


@pytest.mark.parametrize("rows", [ExpertRows(routing="uniform"), ExpertRows(capacity_factor=1.0)])
def test_even_rows_are_the_special_case(rows):
    """Uniform ones in expectation; and a capacity of the mean, which even rows fill."""
    for even, found in zip(measured(EVEN), measured(rows), strict=True):
        assert found == pytest.approx(even, rel=1e-12)


@settings(max_examples=20, deadline=None)
@given(few=EXPONENTS, many=EXPONENTS)
def test_skew_never_makes_a_layer_faster_or_smaller(few, many):
    few, many = sorted((few, many))
    even, low, high = (measured(rows) for rows in (EVEN, *(ExpertRows(routing=zipf(s)) for s in (few, many))))
    for least, less, more in zip(even, low, high, strict=True):
        assert (less >= least * (1 - 1e-12)).all()
        assert (more >= less * (1 - 1e-12)).all()


@settings(max_examples=30, deadline=None)
@given(
    routing=st.sampled_from(["even", "uniform", "zipf:0.7", "zipf:2", "counts:4x3,4x1"]),
    factor=st.sampled_from([0.5, 1.0, 1.1, 1.25, 2.0, 6.0]),
)
def test_a_capacity_bounds_what_the_busiest_rank_runs_and_is_sent(routing, factor):
    reads = read_token_routing(routing)
    loads, free = (loads_of(MODEL, ExpertRows(routing=reads, capacity_factor=bound)) for bound in (factor, None))
    rows = LAYOUTS.degree("micro_batch") * 512 // LAYOUTS.degree("cp")
    even = rows * 2 * LAYOUTS.degree("etp") / LAYOUTS.degree("tp")
    run, sent = loads.run(0, LAYOUTS, rows, even), loads.sent(0, LAYOUTS)
    assert (run <= factor * even * (1 + 1e-12)).all()
    assert (run >= sent * even - 4).all()  # slots are cut to whole rows
    assert (sent <= free.sent(0, LAYOUTS) * (1 + 1e-12)).all()
    assert (np.asarray(sent) <= factor * (1 + 1e-12)).all()


@settings(max_examples=60, deadline=None)
@given(
    exponent=st.sampled_from([0.0, 0.7, 2.0]),
    tokens=st.integers(1, 3000),
    few=st.integers(0, 3000),
    more=st.integers(0, 3000),
)
def test_rows_kept_dropped_and_of_zeros_add_up_and_a_large_capacity_drops_none(exponent, tokens, few, more):
    likely = inclusion(read_routing(f"zipf:{exponent}"), 0, 8, 2)
    for chances in (likely, None):
        less, free, whole = (dropped_rows(chances, 8, 2, tokens, rows) for rows in (few, few + more, tokens))
        assert isclose(less.choices - less.dropped + less.padding, less.run_rows, rel_tol=1e-9)
        assert 0 <= free.dropped <= less.dropped + 1e-9 <= less.choices + 1e-6
        assert whole.dropped == 0
        assert dropped_rows(chances, 8, 2, tokens, None).dropped == 0


@given(
    tokens=st.integers(1, 40), chance=st.sampled_from([0.0, 0.01, 0.25, 0.5, 0.97, 1.0]), capacity=st.integers(0, 45)
)
def test_the_expected_excess_is_that_of_a_binomial_distribution(tokens, chance, capacity):
    found = sum(
        max(0, rows - capacity) * comb(tokens, rows) * chance**rows * (1 - chance) ** (tokens - rows)
        for rows in range(tokens + 1)
    )
    assert isclose(excess(tokens, chance, capacity), found, rel_tol=1e-9, abs_tol=1e-9)


@pytest.mark.parametrize("routing", ["uniform", "zipf:1"])
def test_drops_are_those_of_drawn_batches(routing):
    tokens, capacity = 512, 140
    slots = Slots(expert=np.arange(8), group=np.arange(8))
    drawn = [
        executed(batch(read_routing(routing), 0, 8, 2, tokens, seed), slots, capacity).dropped for seed in range(60)
    ]
    told = dropped_rows(inclusion(read_routing(routing), 0, 8, 2), 8, 2, tokens, capacity).dropped
    assert told == pytest.approx(np.mean(drawn), abs=4 * np.std(drawn) / np.sqrt(len(drawn)) + 1e-9)


def test_even_choices_are_dealt_and_dropped_to_the_row():
    choices = batch(read_routing("even"), 0, 8, 2, 501, 0)
    slots = Slots(expert=np.arange(8), group=np.arange(8))
    for capacity in (0, 100, 125, 126, 200):
        run = executed(choices, slots, capacity)
        told = dropped_rows(None, 8, 2, 501, capacity)
        assert (told.dropped, told.padding) == (run.dropped, run.padding)


@pytest.mark.parametrize("counts", ["4x3,4x1", "2x4,2x2,4x1", "8x1"])
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_the_skewed_all_to_all_is_what_the_busiest_rank_gets(counts, ranks):
    """The companion of the even one: a message as large as if every rank got what the busiest one does."""
    layouts, sequence = table([Layout(dp_shard=ranks, ep=ranks)]), 512
    loads = loads_of(MODEL, ExpertRows(routing=read_token_routing(f"counts:{counts}")))
    message = next(item for item in training_messages(MODEL) if item.operation == "all_to_all")
    told = message_bytes(MODEL, layouts, sequence, message, loads)[0]
    choices = batch(read_routing(f"counts:{counts}"), 0, 8, 2, sequence * ranks, 0)
    got = np.bincount(choices.reshape(-1) // (8 // ranks), minlength=ranks)
    assert isclose(told / (MODEL.hidden * 2), got.max(), rel_tol=1e-9)


def test_expert_compute_follows_the_busiest_rank_and_not_the_mean():
    """Rejected answer 13 of chapter "Training systems": an average load says what no rank does."""
    layouts = table([Layout(dp_shard=8, ep=2)])
    hot = ExpertRows(routing=read_token_routing("counts:4x3,4x1"))
    loads = loads_of(MODEL, hot)
    assert loads.sent(0, layouts)[0] == pytest.approx(1.5)
    even, found = (
        training_parts(MODEL, BOX, JOB, layouts, TrainingAssumptions(experts=rows)).work.forward_flops[0, 0]
        for rows in (EVEN, hot)
    )
    assert found > even
