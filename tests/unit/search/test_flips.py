"""Flips of made-up rows, against every crossing of their lines, computed pair by pair."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.search.flips import RESOLUTION, Goal, Judged, changes

LOW, HIGH = 1.0, 1024.0
LINES = st.lists(
    st.tuples(st.floats(0.1, 100.0), st.floats(0.0, 10.0), st.floats(LOW, HIGH / 2)),
    min_size=1,
    max_size=8,
    unique=True,
)


def _judge(rows, *, inverse=False):
    """Rows of base + slope * x (or / x), each eligible from a value on."""
    base, slope, start = np.array(rows).T

    def judge(values, places):
        goal = base[places] + slope[places] * (1 / values if inverse else values)
        same = Goal(value=goal, over=goal, under=1)
        return Judged(eligible=values >= start[places], goals=(same, same))

    return judge


def _exact(rows, *, inverse):
    """Every event and crossing of two lines, and the choice between neighbouring ones."""
    points = {LOW, HIGH, *(start for _, _, start in rows)}
    for (one, slope, _), (other, steep, _) in combinations(rows, 2):
        if slope != steep:
            at = (other - one) / (slope - steep)
            at = 1 / at if inverse and at else at
            points |= {at} if LOW < at < HIGH else set()
    points = sorted(points)
    between = [(first + last) / 2 for first, last in pairwise(points)]
    chosen = []
    for value in between:
        own = [
            (base + slope * (1 / value if inverse else value), row)
            for row, (base, slope, start) in enumerate(rows)
            if value >= start
        ]
        chosen.append(min(own)[1] if own else -1)
    inner = zip(points[1:-1], chosen, chosen[1:], strict=False)
    return [(at, before, after) for at, before, after in inner if before != after]


@given(rows=LINES, inverse=st.booleans())
def test_changes_of_lines_are_all_their_crossings(rows, inverse):
    found = changes(_judge(rows, inverse=inverse), np.arange(len(rows)), LOW, HIGH, whole=False)
    exact = _exact(rows, inverse=inverse)
    values = [LOW, *(value for value, _, _ in exact), HIGH]
    if any(last / first - 1 < 4 * RESOLUTION for first, last in pairwise(values)):
        return  # closer than what is promised
    assert [(change.before, change.after) for change in found] == [(before, after) for _, before, after in exact]
    assert [change.value for change in found] == pytest.approx([value for value, _, _ in exact], rel=1e-9)


def test_a_pair_of_flips_inside_one_cell_of_the_first_grid_is_found():
    # the line of row 1 is below the bent choice of rows 0 and 2 only from 100 to 102
    rows = [(1.0, 1.0, LOW), (51.0, 0.5, LOW), (52.5, 0.48529411764705, LOW)]
    found = changes(_judge(rows), np.arange(3), LOW, HIGH, whole=False)
    assert [(change.before, change.after) for change in found] == [(0, 1), (1, 2)]
    assert [change.value for change in found] == pytest.approx([100.0, 102.0], rel=1e-6)


@pytest.mark.parametrize("stale", [3, 40, 900])
def test_whole_numbers_are_asked_one_by_one_where_a_choice_lasts_for_one(stale):
    def judge(values, places):
        batch = np.where(places == 0, 1, np.where(values >= stale, np.where(values > stale, 3, 2), 1))
        over = np.where(places == 0, values * 1.0, np.where(values > stale, 3.5, 1.9) * values)
        goal = Goal(value=over / batch, over=over, under=batch)
        return Judged(eligible=np.ones(len(values), dtype=bool), goals=(goal, goal))

    found = changes(judge, np.arange(2), 1, 1000, whole=True)
    assert [(change.value, change.before, change.after) for change in found] == [(stale, 0, 1), (stale + 1, 1, 0)]


def test_a_row_that_is_its_neighbour_s_twin_costs_no_division():
    asked = []

    def judge(values, places):
        asked.append(len(values))
        goal = Goal(value=1 / values, over=1 / values, under=1)
        return Judged(eligible=np.ones(len(values), dtype=bool), goals=(goal, goal))

    assert not changes(judge, np.array([1, 0]), LOW, HIGH, whole=False)
    assert len(asked) == 1


def test_rows_that_only_rounding_tells_apart_are_one_choice_and_cost_no_division():
    """Three tenths of a value, summed in two ways: each way is the lesser by a bit at half of all values."""
    asked = []

    def judge(values, places):
        asked.append(len(values))
        goal = np.where(places == 0, values * 0.3, values * 0.1 + values * 0.2)
        same = Goal(value=goal, over=goal, under=1)
        return Judged(eligible=np.ones(len(values), dtype=bool), goals=(same, same))

    assert changes(judge, np.arange(2), LOW, HIGH, whole=False) == ()
    assert len(asked) == 1
