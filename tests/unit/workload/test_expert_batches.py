from fractions import Fraction

import numpy as np
import pytest

from meshwright.job.routing import read_routing
from meshwright.workload.expert_batches import (
    Slots,
    capacity_rows,
    dealt,
    earlier,
    executed,
    least_factor,
    relayed,
    rows_sent,
    skipping,
    without_own,
)
from meshwright.workload.routing import batch


def in_order(experts, groups):
    place = np.arange(experts)
    return Slots(expert=place, group=place * groups // experts)


@pytest.mark.parametrize(("factor", "capacity"), [("1", 64), ("1.25", 80), ("1.5", 96), ("2", 128)])
def test_the_capacity_is_a_floor_of_exact_fractions(factor, capacity):
    """Chapter "Training systems", section 10.3.4."""
    assert capacity_rows(Fraction(factor), 128, 1, 2) == capacity
    assert capacity_rows(Fraction("1.1"), 100, 1, 10) == 11


@pytest.mark.parametrize("slots", [8, 9, 48, 144])
def test_the_least_factor_holds_so_many_rows_as_it_is_written_and_nothing_below_does(slots):
    for tokens, top_k in ((59, 8), (7, 3), (10, 1)):
        for rows in range(1, tokens + 1):
            factor = least_factor(rows, tokens, top_k, slots)
            assert capacity_rows(Fraction(repr(factor)), tokens, top_k, slots) >= rows
            assert capacity_rows(Fraction(repr(factor * (1 - 1e-12))), tokens, top_k, slots) < rows


def test_what_exceeds_the_capacity_is_dropped_and_what_is_missing_is_padding():
    choices = batch(read_routing("counts:96,32"), 0, 2, 1, 128, seed=0)
    run = executed(choices, in_order(2, 2), 80)
    assert (run.asked.tolist(), run.kept.tolist(), run.rows.tolist()) == ([96, 32], [80, 32], [80, 80])
    assert (run.dropped, run.padding) == (16, 48)
    assert int(skipping(run.slot).sum()) == 16
    assert run.kept.sum() + run.dropped == 128


def test_later_tokens_are_those_that_are_dropped():
    run = executed(np.array([[0], [0], [1], [0]]), in_order(2, 1), 2)
    assert run.slot.tolist() == [[0], [0], [1], [-1]]


def test_without_a_capacity_nothing_is_dropped_or_filled_up():
    run = executed(np.array([[0], [0]]), in_order(2, 1), None)
    assert (run.dropped, run.padding, run.rows.tolist()) == (0, 0, [2, 0])


def test_copies_of_an_expert_take_its_rows_in_turn():
    slots = Slots(expert=np.array([0, 0, 0, 1]), group=np.array([0, 1, 2, 3]))
    run = executed(np.array([[0], [1], [0], [0], [0]]), slots, None)
    assert run.slot.reshape(-1).tolist() == [0, 3, 1, 2, 0]


def test_earlier_counts_like_items_before_each():
    assert earlier(np.array([2, 0, 2, 2, 0]), 3).tolist() == [0, 0, 1, 2, 1]


def test_a_token_is_sent_once_to_a_rank_that_holds_several_of_its_experts():
    """Chapter "Supernodes", section 6.2.6: eight experts in pairs on four other cards are four rows, not eight."""
    target = np.array([[1, 1, 2, 2, 3, 3, 4, 4]])
    each, once = (without_own(rows_sent(np.zeros(1, int), target, 5, 5, once=way)) for way in (False, True))
    assert (each.sum(), once.sum(), once[0].tolist()) == (8, 4, [0, 1, 1, 1, 1])


def test_local_experts_are_not_sent():
    """The chapter's worked token: experts 1 and 6, two a card, on card 0: one runs here, one goes to card 3."""
    slots = in_order(8, 4)
    run = executed(np.array([[1, 6]]), slots, None)
    sent = without_own(rows_sent(np.zeros(1, int), slots.group[run.slot], 4, 4, once=True))
    assert sent.tolist() == [[0, 0, 0, 1], [0] * 4, [0] * 4, [0] * 4]


def test_a_row_crosses_to_another_box_once_and_is_passed_on_inside():
    """Rank 1 of four boxes' two: experts on ranks 0, 4, 5 and 6; its own box is reached at once."""
    first, second = (without_own(item) for item in relayed(np.array([1]), np.array([[0, 4, 5, 6]]), 8, 2))
    assert [tuple(pair) for pair in np.argwhere(first).tolist()] == [(1, 5), (1, 7)]
    assert [tuple(pair) for pair in np.argwhere(second).tolist()] == [(1, 0), (5, 4), (7, 6)]
    assert first.max() == second.max() == 1


def test_in_a_last_box_that_is_not_full_its_last_rank_passes_on():
    first, second = relayed(np.array([3]), np.array([[4]]), 5, 4)
    assert first[3, 4] == 1
    assert without_own(second).sum() == 0


def test_tokens_stand_on_ranks_in_equal_shares():
    assert dealt(6, 3).tolist() == [0, 0, 1, 1, 2, 2]
    assert np.bincount(dealt(10, 4)).tolist() == [3, 2, 3, 2]
