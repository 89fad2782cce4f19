"""Slot orders as the sources print them, and what a schedule refuses and costs."""

from __future__ import annotations

import pytest

from meshwright.base.errors import ScheduleError
from meshwright.workload.slots import (
    SCHEDULES,
    Shape,
    activation_sets,
    checked_shape,
    crossings,
    read_schedule,
    weight_lag,
)

FOUR_BY_EIGHT = Shape(stages=4, micro_batches=8, virtual_stages=2)
# Chapter "Training systems", section 10.3.2: p = 4, m = 8; a is the lower of a rank's two virtual stages.
PRINTED = {
    "one_f_one_b": (
        "F1 F2 F3 F4 B1 F5 B2 F6 B3 F7 B4 F8 B5 B6 B7 B8",
        "F1 F2 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 F8 B6 B7 B8",
        "F1 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 F8 B7 B8",
        "F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7 F8 B8",
    ),
    "fill_drain": ("F1 F2 F3 F4 F5 F6 F7 F8 B8 B7 B6 B5 B4 B3 B2 B1",) * 4,
    "zero_bubble_h1": (
        "F1 F2 F3 F4 B1 W1 F5 B2 W2 F6 B3 W3 F7 B4 W4 F8 B5 W5 B6 W6 B7 W7 B8 W8",
        "F1 F2 F3 B1 F4 B2 W1 F5 B3 W2 F6 B4 W3 F7 B5 W4 F8 B6 W5 B7 W6 B8 W7 W8",
        "F1 F2 B1 F3 B2 F4 B3 W1 F5 B4 W2 F6 B5 W3 F7 B6 W4 F8 B7 W5 B8 W6 W7 W8",
        "F1 B1 F2 B2 F3 B3 F4 B4 W1 F5 B5 W2 F6 B6 W3 F7 B7 W4 F8 B8 W5 W6 W7 W8",
    ),
    "interleaved": (
        (
            "F1a F2a F3a F4a F1b F2b F3b F4b F5a F6a F7a B1b F8a B2b F5b B3b F6b B4b F7b B1a F8b B2a B3a B4a "
            "B5b B6b B7b B8b B5a B6a B7a B8a"
        ),
        None,
        None,
        (
            "F1a F2a F3a F4a F1b B1b F2b B2b F3b B3b F4b B4b F5a B1a F6a B2a F7a B3a F8a B4a F5b B5b F6b B6b "
            "F7b B7b F8b B8b B5a B6a B7a B8a"
        ),
    ),
}


def told(slots, rank, sequence=0):
    """The order of a rank in the chapter's letters: B is the input gradient where the backward is split."""
    rows = (slots.rank == rank) & (slots.sequence == sequence)
    chunks = slots.virtual_stages // slots.ranks if len(slots.placement) == 1 else 1
    return " ".join(
        "FBBW"[kind] + str(batch + 1) + ("ab"[stage // slots.ranks] if chunks > 1 else "")
        for kind, stage, batch in zip(slots.kind[rows], slots.virtual_stage[rows], slots.micro_batch[rows], strict=True)
    )


@pytest.mark.parametrize("name", PRINTED)
def test_the_order_is_the_printed_one(name):
    slots = read_schedule(name).slots(FOUR_BY_EIGHT)
    for rank, order in enumerate(PRINTED[name]):
        assert order is None or told(slots, rank) == order


def test_h2_runs_forwards_ahead_and_weight_gradients_late():
    """Figure 3 of the paper: rank 0 is 2p - 1 forwards ahead, the last rank one; weight gradients the other way."""
    slots = read_schedule("zero_bubble_h2").slots(FOUR_BY_EIGHT)
    orders = [told(slots, rank) for rank in range(4)]
    assert [order.split().index("B1") for order in orders] == [7, 5, 3, 1]
    assert [len(order.split()) - 1 - order.split().index("B8") for order in orders] == [1, 3, 5, 7]
    assert orders[0] == "F1 F2 F3 F4 F5 F6 F7 B1 W1 F8 B2 W2 B3 W3 B4 W4 B5 W5 B6 W6 B7 W7 B8 W8"


def test_declared_dualpipe_has_two_orders_a_rank_and_each_is_a_split_1f1b():
    slots = read_schedule("dualpipe_declared").slots(FOUR_BY_EIGHT)
    assert told(slots, 0, 0) == "F1 F2 F3 F4 B1 B2 B3 B4 W1 W2 W3 W4"
    assert told(slots, 0, 1) == "F5 B5 W5 F6 B6 W6 F7 B7 W7 F8 B8 W8"
    assert told(slots, 3, 0) == told(slots, 0, 1).translate(str.maketrans("5678", "1234"))


@pytest.mark.parametrize(
    ("name", "shape", "code", "nearest"),
    [
        ("interleaved", Shape(stages=4, micro_batches=6, virtual_stages=2), "SCH001", 8),
        ("interleaved", Shape(stages=4, micro_batches=5, virtual_stages=2), "SCH001", 4),
        ("interleaved", Shape(stages=4, micro_batches=1, virtual_stages=2), "SCH001", 4),
        ("dualpipe_declared", Shape(stages=4, micro_batches=7), "SCH001", 8),
        ("dualpipe_declared", Shape(stages=3, micro_batches=8), "SCH004", 4),
        ("dualpipe_published", Shape(stages=4, micro_batches=6), "SCH001", 8),
        ("dualpipe_v", Shape(stages=4, micro_batches=7), "SCH001", 8),
    ],
)
def test_a_shape_that_does_not_fit_is_refused_with_the_nearest(name, shape, code, nearest):
    with pytest.raises(ScheduleError) as caught:
        checked_shape(name, shape)
    assert caught.value.code == code
    assert str(nearest) in caught.value.fix


def test_an_unknown_schedule_is_answered_with_the_nearest_names():
    with pytest.raises(ScheduleError) as caught:
        read_schedule("zero_bubble_h3")
    assert caught.value.code == "SCH003"
    assert "zero_bubble_h1" in caught.value.fix


def test_what_schedules_cost():
    """Published: DualPipe keeps PP + 1 sets and two copies (table 2 of its report), H2 2p - 1 sets, H1 and V p."""
    found = {}
    for name in SCHEDULES.names():
        slots = read_schedule(name).slots(FOUR_BY_EIGHT)
        pieces = slots.virtual_stages // slots.ranks
        found[name] = (activation_sets(slots, 1) / pieces, read_schedule(name).COPIES, crossings(slots))
    assert found["dualpipe_published"] == (5, 2, 3)
    assert found["zero_bubble_h1"] == (4, 1, 3)
    assert found["zero_bubble_h2"] == (7, 1, 3)
    assert found["zero_bubble_v"] == (4, 1, 6)
    assert found["one_f_one_b"] == (4, 1, 3)
    assert found["fill_drain"] == (8, 1, 3)
    assert found["interleaved"] == (5.5, 1, 7)
    assert found["dualpipe_v"][1:] == (1, 6)


def test_weight_gradients_lag_by_the_rank_under_h1():
    assert weight_lag(read_schedule("zero_bubble_h1").slots(FOUR_BY_EIGHT)) == [0, 1, 2, 3]
