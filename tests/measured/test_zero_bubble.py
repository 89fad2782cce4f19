"""The zero-bubble paper's throughputs beside what the schedules say of them from the 1F1B rows alone."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.measured.zero_bubble import (
    FITTED,
    PAGE,
    SCHEDULE_OF,
    configuration,
    findings,
    measured_step_s,
    median_and_worst,
    page,
    pairs,
    predicted,
    rows,
)


def test_every_measured_row_is_compared_or_fitted():
    assert Counter(found.row["schedule"] for found in findings()) == Counter(row["schedule"] for row in rows())
    assert len(rows()) == 84
    assert len(predicted()) == 63
    assert {row["schedule"] for row in rows()} == set(SCHEDULE_OF)


def test_each_configuration_is_fitted_once_and_gives_its_1f1b_step_back():
    fitted = [found for found in findings() if found.row["schedule"] == FITTED]
    assert len({configuration(found) for found in fitted}) == len(fitted) == 21
    for found in fitted:
        assert found.step_s == pytest.approx(measured_step_s(found.row), rel=1e-4)
        assert found.gain == found.gain_alone == 0


def test_the_gain_over_1f1b_is_off_by_so_many_points():
    """As found with one time fitted and nothing tuned; the page has it by schedule."""
    middle, worst = median_and_worst(found.error for found in predicted())
    assert (round(100 * middle, 1), round(100 * worst, 1)) == (4.4, 10.9)
    middle, worst = median_and_worst(found.error_alone for found in predicted())
    assert (round(100 * middle, 1), round(100 * worst, 1)) == (4.2, 10.8)


def test_every_schedule_is_measured_and_predicted_faster_than_1f1b():
    beside = [order for fast, slow, order in pairs() if FITTED in (fast.row["schedule"], slow.row["schedule"])]
    assert beside
    assert set(beside) == {"as measured"}


def test_the_orders_that_are_reversed_are_those_of_smaller_micro_batches_in_two_large_batches():
    """Ties apart; the page lists both."""
    reversed_pairs = {
        (fast.row["id"], slow.row["id"], fast.row["schedule"], slow.row["schedule"])
        for fast, slow, order in pairs()
        if order == "reversed"
    }
    assert reversed_pairs == {("ZB-143", "ZB-125", "ZB-1p", "ZB-2p*"), ("ZB-149", "ZB-131", "ZB-1p", "ZB-2p*")}


def test_the_orders_that_are_tied_are_those_of_schedules_with_one_bubble():
    ties = Counter(
        frozenset((fast.row["schedule"], slow.row["schedule"])) for fast, slow, order in pairs() if order == "tied"
    )
    assert ties == {frozenset({"interleaved 1F1B", "ZB-1p"}): 5, frozenset({"ZB-V", "ZB-2p*"}): 7}


def test_a_barrier_between_steps_would_take_from_zb_2p_what_it_is_measured_to_gain():
    """The comparison can fail: alone, H2 is no faster than H1, and every measured row says otherwise."""
    of = {(configuration(found), found.row["schedule"]): found for found in findings()}
    seconds = [found for found in findings() if found.row["schedule"] == "ZB-2p"]
    assert len(seconds) == 12
    for found in seconds:
        first = of[configuration(found), "ZB-1p"]
        assert found.measured > first.measured
        assert found.gain > first.gain
        assert found.gain_alone == pytest.approx(first.gain_alone)


def test_the_page_is_what_the_command_writes():
    assert PAGE.read_text(encoding="utf-8") == page()
