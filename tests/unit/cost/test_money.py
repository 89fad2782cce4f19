"""What is occupied, who is on time, and what one on-time session costs."""

from __future__ import annotations

from math import isclose

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.cost.money import finish_s, occupied_gpu_s, on_time_count, per_on_time_gpu_s, turns


def test_sessions_are_dealt_round_robin_and_run_one_at_a_time():
    assert turns(np.array([4, 2, 1]), 4).tolist() == [[1, 1, 1, 1], [1, 1, 2, 2], [1, 2, 3, 4]]


@given(
    services=st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=4),
    replicas=st.integers(1, 9),
    sessions=st.integers(1, 40),
    data=st.data(),
)
def test_on_time_count_is_the_count_of_finishes_by_the_deadline(services, replicas, sessions, data):
    """At a deadline that is exactly some finish, too."""
    exact = [service * data.draw(st.integers(1, 40)) for service in services]
    deadline = data.draw(st.sampled_from(exact) | st.floats(1e-4, 1e5))
    rows = np.full(len(services), replicas)
    finishes = finish_s(np.array(services)[:, None], turns(rows, sessions))
    expected = (finishes <= deadline).sum(axis=1).tolist()
    assert on_time_count(np.array(services), rows, sessions, deadline).tolist() == expected


@pytest.mark.parametrize(("service", "turn"), [(651.5933211297902, 14), (591.1538438478689, 7), (0.1, 3)])
def test_a_finish_exactly_at_the_deadline_is_on_time_however_the_quotient_rounds(service, turn):
    deadline = service * turn
    assert on_time_count(np.array([service]), np.array([1]), 40, deadline).tolist() == [turn]
    assert on_time_count(np.array([service]), np.array([1]), 40, np.nextafter(deadline, 0)).tolist() == [turn - 1]


def test_without_a_deadline_all_are_on_time_and_without_a_time_none_is():
    assert on_time_count(np.array([1.0, 2.0]), np.array([1, 1]), 5, None).tolist() == [5, 5]
    assert on_time_count(np.array([np.nan]), np.array([2]), 5, 1.0).tolist() == [0]


@pytest.mark.parametrize(
    ("service", "replicas", "on_time", "cost", "each"),
    [(0.1191, 4, 4, 0.953, 0.238), (0.0638, 2, 4, 1.021, 0.255), (0.0412, 1, 3, 1.318, 0.439)],
)
def test_the_chapters_costs_at_130_ms(service, replicas, on_time, cost, each):
    """Chapter "Supernodes", section 6.7.2: four sessions on eight cards."""
    column, rows = np.array([service]), np.array([replicas])
    count = on_time_count(column, rows, 4, 0.13)
    assert count.tolist() == [on_time]
    occupied = occupied_gpu_s(8, finish_s(column, -(-4 // rows)))
    assert isclose(float(occupied[0]), cost, rel_tol=2e-3)
    assert isclose(float(per_on_time_gpu_s(occupied, count)[0]), each, rel_tol=2e-3)


def test_no_on_time_session_has_no_cost_not_zero():
    assert np.isnan(per_on_time_gpu_s(np.array([1.0]), np.array([0]))[0])
