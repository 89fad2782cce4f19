"""The expected largest of so many normal variables, and what it does to a step."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from meshwright.base.traced import expression, leaf
from meshwright.cost import stragglers
from meshwright.cost.stragglers import (
    exact_late_device_s,
    expected_max,
    late_device_s,
    redistributed_s,
    straggler_s,
)

EXACT = {
    1: 0.0,
    2: 1 / math.sqrt(math.pi),
    3: 1.5 / math.sqrt(math.pi),
    4: 3 / math.sqrt(math.pi) * (0.5 + math.asin(1 / 3) / math.pi),
    5: 5 / math.sqrt(math.pi) * (0.25 + 1.5 * math.asin(1 / 3) / math.pi),
}
"""The closed forms that exist: Jones, "Exact lower moments of order statistics in small samples" (1948)."""


def by_the_density(count):
    """The integral of x n phi(x) Phi(x)^(n-1), by the midpoints of 24000 steps: another integrand, another rule."""
    normal, step = NormalDist(), 1e-3
    places = [-12 + step * (place + 0.5) for place in range(24_000)]
    return sum(x * count * normal.pdf(x) * normal.cdf(x) ** (count - 1) for x in places) * step


@pytest.mark.parametrize("count", EXACT)
def test_the_largest_of_a_few_has_its_closed_form(count):
    assert expected_max(count) == pytest.approx(EXACT[count], abs=1e-13)


@pytest.mark.parametrize("count", [8, 48, 1024, 100_000])
def test_the_integral_of_the_tails_is_that_of_the_density(count):
    assert expected_max(count) == pytest.approx(by_the_density(count), abs=1e-6)


def test_a_column_gives_what_its_numbers_give_and_asks_once_for_each_distinct_one():
    stragglers._expected_max.cache_clear()
    counts = np.array([[8, 48, 8], [1, 48, 8]])
    found = expected_max(counts)
    assert stragglers._expected_max.cache_info().misses == 3
    assert found.tolist() == [[expected_max(item) for item in row] for row in counts.tolist()]


def test_traced_counts_give_the_same_and_remember_the_count():
    column = np.array([leaf(8, "devices", basis="config"), leaf(48, "devices", basis="config")])
    found = straggler_s(52.2, 0.02, column)
    assert [item.value for item in found] == straggler_s(52.2, 0.02, np.array([8, 48])).tolist()
    nodes = expression(found[0], "x")
    assert [node["value"] for node in nodes if node["operation"] == "leaf"] == [8]
    assert any(node["operation"] == "expected_max" for node in nodes)


@pytest.mark.parametrize("count", [1, 7, 47, 1023])
def test_the_exact_wait_for_one_late_device_is_the_chapters_plus_what_the_others_exceed_it_by(count):
    """E[(late - M)+] = late - E[M] + E[(M - late)+], and the last is what the density says."""
    normal, step, late = NormalDist(), 1e-3, 3.0
    places = [late + step * (place + 0.5) for place in range(9000)]
    over = sum((x - late) * count * normal.pdf(x) * normal.cdf(x) ** (count - 1) for x in places) * step
    assert exact_late_device_s(1.0, late, count) == pytest.approx(late - expected_max(count) + over, abs=1e-6)
    assert exact_late_device_s(1.0, late, count) >= late_device_s(1.0, late, count)


def test_far_above_the_others_both_forms_are_the_lateness_less_their_largest():
    for late in (15.0, 12.0, 40.0):
        assert exact_late_device_s(1.0, late, 47) == pytest.approx(late - expected_max(47))
        assert late_device_s(1.0, late, 47) == pytest.approx(late - expected_max(47))


def test_work_of_one_device_spread_over_the_others_grows_the_mean_and_not_the_spread():
    assert redistributed_s(52.2, 0.0, 7) == pytest.approx(52.2 * 8 / 7)
    assert redistributed_s(52.2, 0.02, 7) - redistributed_s(52.2, 0.0, 7) == pytest.approx(straggler_s(52.2, 0.02, 7))
