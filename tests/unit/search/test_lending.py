"""Fewest loans: against every set of loans, and by what every plan must keep."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.search.lending import lend

AMOUNTS = st.integers(1, 30)


def fewest(needs, spares):
    """By every set of loans, smallest sets first: one suffices when no borrowers need more than their lenders have."""
    pairs = list(product(range(len(needs)), range(len(spares))))
    for count in range(len(needs), len(pairs) + 1):
        if any(suffices(chosen, needs, spares) for chosen in combinations(pairs, count)):
            return count
    raise AssertionError


def suffices(chosen, needs, spares):
    """Hall's condition, for every group of borrowers."""
    places = range(len(needs))
    groups = (group for size in range(1, len(needs) + 1) for group in combinations(places, size))
    return all(
        sum(needs[place] for place in group)
        <= sum(spares[lender] for lender in {lender for borrower, lender in chosen if borrower in group})
        for group in groups
    )


@settings(max_examples=60, deadline=None)
@given(needs=st.lists(AMOUNTS, min_size=1, max_size=3), spares=st.lists(AMOUNTS, min_size=1, max_size=4))
def test_small_plans_have_the_fewest_loans(needs, spares):
    found = lend([*needs, *([0] * len(spares))], [*([0] * len(needs)), *spares])
    if sum(needs) > sum(spares):
        assert found is None
        return
    assert found.search == "exact"
    assert len(found.loans) == fewest(needs, spares)


@given(
    needs=st.lists(st.integers(0, 10**12), min_size=1, max_size=12),
    spares=st.lists(st.integers(0, 10**12), min_size=1, max_size=12),
)
@settings(max_examples=60, deadline=None)
def test_every_plan_covers_what_is_needed_and_lends_no_more_than_there_is(needs, spares):
    found = lend([*needs, *([0] * len(spares))], [*([0] * len(needs)), *spares])
    if sum(needs) > sum(spares):
        assert found is None
        return
    given_, taken = [0] * (len(needs) + len(spares)), [0] * (len(needs) + len(spares))
    for loan in found.loans:
        assert loan.amount > 0
        given_[loan.lender] += loan.amount
        taken[loan.borrower] += loan.amount
    assert taken[: len(needs)] == needs
    assert all(each <= spare for each, spare in zip(given_[len(needs) :], spares, strict=True))
    assert len({(loan.borrower, loan.lender) for loan in found.loans}) == len(found.loans)


def test_the_largest_spaces_stay_whole():
    """Chapter "Supernodes", section 6.6.1: 20 GB for job 0 come from node 1, which has just that."""
    (loan,) = lend([20, 0, 0, 0], [0, 20, 40, 40]).loans
    assert (loan.borrower, loan.lender, loan.amount) == (0, 1, 20)


def test_a_shortfall_larger_than_any_spare_is_split_over_lenders():
    found = lend([50, 0, 0, 0], [0, 20, 40, 10])
    assert [(loan.lender, loan.amount) for loan in found.loans] == [(2, 40), (3, 10)]
    assert sum(loan.amount for loan in found.loans) == 50


@pytest.mark.parametrize("count", [10, 200])
def test_beyond_nine_places_the_search_is_greedy_and_says_so(count):
    found = lend([5] * count + [0] * count, [0] * count + [7] * count)
    assert found.search == "greedy"
    assert len(found.loans) >= count
