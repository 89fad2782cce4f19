"""Overheads in closed form: the chapter's figures, the root behind the best interval, and columns equal to rows."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest

from meshwright.cost.overheads import (
    device_mtbf_s,
    devices_failures_per_s,
    exposed_restart_s,
    finish_s,
    first_order_interval_s,
    overhead_fraction,
    recovery_fraction,
    retry_count,
    retry_cycle_s,
    retry_interval_s,
    retry_overhead_fraction,
    rework_fraction,
    save_fraction,
)

SAVE_S = 114_670_295_040 / 7e9
RATE = 1 / 28_440


def test_the_chapters_job_is_saved_every_965_or_954_seconds():
    """Chapter "Training systems", section 10.4.4 and note 20."""
    assert round(first_order_interval_s(SAVE_S, RATE), 2) == 965.29
    assert round(retry_interval_s(SAVE_S, RATE), 2) == 954.40


def test_the_chapters_table_of_three_intervals():
    """Chapter "Training systems", section 10.4.4: 6.4, 3.8 and 4.5 % at 5, 15 and 30 minutes."""
    found = overhead_fraction(np.array([300.0, 900.0, 1800.0]), SAVE_S, 0.0, RATE, 120.0)
    assert found.round(3).tolist() == [0.064, 0.038, 0.045]


def test_save_rework_and_recovery_add_up_to_first_order():
    interval = np.array([300.0, 900.0, 1800.0])
    parts = save_fraction(interval, 3.0) + rework_fraction(interval, 7.0, RATE) + recovery_fraction(120.0, RATE)
    assert parts == pytest.approx(overhead_fraction(interval, 3.0, 7.0, RATE, 120.0), rel=1e-15)


def test_what_stops_all_devices_is_counted_once():
    both = devices_failures_per_s(np.array([1, 1000]), 1e6, 1e-5)
    assert both.tolist() == pytest.approx([1e-6 + 1e-5, 1e-3 + 1e-5])
    assert 1 / devices_failures_per_s(1024, device_mtbf_s(1024, 28_440.0), 0.0) == pytest.approx(28_440.0)


@pytest.mark.parametrize("stalls", [1e-300, 1e-30, 1e-12, 1e-6, 5.76e-4, 1e-2, 0.5, 1.0, 3.0, 30.0, 700.0])
def test_the_root_is_the_one_that_exact_decimals_give(stalls):
    with localcontext() as exact:
        exact.prec = 700
        x = Decimal(stalls)
        low, high = Decimal(0), Decimal(1)
        for _ in range(1100):
            middle = (low + high) / 2
            low, high = (low, middle) if middle - 1 + (-middle - x).exp() > 0 else (middle, high)
            if high - low <= low * Decimal("1e-20"):
                break
    assert retry_count(stalls) == pytest.approx(float(high), rel=1e-8)


def test_a_save_that_holds_nothing_is_best_taken_without_end():
    assert retry_count(np.array([0.0])).tolist() == [0.0]
    assert first_order_interval_s(0.0, RATE) == 0


def test_a_job_without_failures_has_only_its_saves():
    none = np.zeros(2)
    assert retry_cycle_s(np.array([300.0, 900.0]), 16.0, 60.0, none, 120.0).tolist() == [316.0, 916.0]
    assert overhead_fraction(np.array([300.0, 900.0]), 16.0, 60.0, none, 120.0) == pytest.approx([16 / 300, 16 / 900])
    assert exposed_restart_s(120.0, none).tolist() == [120.0, 120.0]


def test_a_table_gives_what_its_rows_give_alone():
    interval, stall = np.array([300.0, 900.0, 1800.0]), np.array([1.0, 16.0, 60.0])
    rate, restart = np.array([1e-6, 1e-4, 1e-3]), np.array([0.0, 120.0, 600.0])
    whole = retry_overhead_fraction(interval, stall, 5.0, rate, restart)
    best = retry_interval_s(stall, rate)
    for row in range(3):
        one = slice(row, row + 1)
        alone = retry_overhead_fraction(interval[one], stall[one], 5.0, rate[one], restart[one])
        assert alone.tolist() == [whole[row]]
        assert retry_interval_s(stall[one], rate[one]).tolist() == [best[row]]


def test_a_finish_is_planned_stops_and_every_step_with_its_overhead():
    """Chapter "Training systems", section 10.6.1: 48 cards, 31,790 steps of 52.8 s, 1.078 % and five days: 24.64 d."""
    assert finish_s(31_790, 52.8, 0.01078, 5 * 86_400) / 86_400 == pytest.approx(24.64, abs=0.005)


def test_a_recovery_that_may_fail_takes_longer():
    assert exposed_restart_s(120.0, 1e-3) == pytest.approx((np.exp(0.12) - 1) / 1e-3)
    assert exposed_restart_s(120.0, 1e-9) == pytest.approx(120.0)
