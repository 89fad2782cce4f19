"""Candidates, order and levers, on functions that the test makes up."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from meshwright.search.candidates import combinations, divisors
from meshwright.search.rank import order
from meshwright.search.sensitivity import levers


def test_combinations_are_the_product_that_the_filter_keeps_last_axis_fastest():
    found = combinations({"tp": [1, 2, 4], "pp": [1, 2]}, lambda rows: rows["tp"] * rows["pp"] <= 4)
    pairs = list(zip(found["tp"].tolist(), found["pp"].tolist(), strict=True))
    assert pairs == [(1, 1), (1, 2), (2, 1), (2, 2), (4, 1)]


@given(number=st.integers(1, 5000))
def test_divisors_are_all_of_them_rising(number):
    assert list(divisors(number)) == [value for value in range(1, number + 1) if number % value == 0]


def test_order_takes_scores_in_turn_then_names_and_puts_nan_last():
    scores = [[1, 0, 0, 0, 0], [5.0, 2.0, np.nan, 1.0, 1.0]]
    assert order(scores, ["e", "d", "c", "b", "a"]).tolist() == [4, 3, 1, 2, 0]


@given(st.permutations(range(6)))
def test_order_does_not_depend_on_the_order_of_rows(places):
    score, names = [3.0, 1.0, 1.0, np.nan, 2.0, np.nan], list("fedcba")
    straight = [names[row] for row in order([score], names)]
    shuffled = [names[place] for place in places]
    again = order([[score[place] for place in places]], shuffled)
    assert [shuffled[row] for row in again] == straight


def test_levers_are_ranked_by_what_they_save():
    def seconds_with(path: str, value: float) -> float:
        return {"latency": 10.0 * value, "bandwidth": 8.0 / value}[path] + (2.0 if path == "latency" else 10.0)

    found = levers([("latency", 1.0, "s"), ("bandwidth", 4.0, "B/s")], seconds_with, 12.0)
    assert [(lever.parameter, lever.change, lever.saving_s) for lever in found] == [
        ("latency", "halved", 5.0),
        ("bandwidth", "doubled", 1.0),
        ("bandwidth", "halved", -2.0),
        ("latency", "doubled", -10.0),
    ]
    assert (found[0].value, found[0].unit) == (0.5, "s")


def test_scores_that_only_rounding_tells_apart_are_ordered_by_name():
    assert order([[0.1 + 0.2, 0.3, np.inf, np.nan, -np.inf]], ["a", "b", "d", "c", "e"]).tolist() == [4, 0, 1, 3, 2]
