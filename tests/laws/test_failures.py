"""Closed forms, the drawn run and the save timeline agree wherever they speak of the same thing."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.cost.overheads import (
    exposed_restart_s,
    first_order_interval_s,
    overhead_fraction,
    retry_cycle_s,
    retry_interval_s,
    retry_overhead_fraction,
)
from meshwright.scenarios._saves import SaveOptions
from meshwright.scenarios.checkpointing import checkpoint_timeline
from meshwright.sim.failures import FailingRun, monte_carlo

RUNS = 2000
ROUNDING = 1e-12
"""Three intervals of work are three, though a product of floats may say a little more or less."""
SIGMAS = 4.5
"""Of a mean of 2,000 draws: less than one case in 100,000 lies further off by chance."""


def mean_and_error(run: FailingRun, seed: int) -> tuple[float, float]:
    drawn = monte_carlo(run, RUNS, np.random.default_rng(seed)).finish_s
    return float(drawn.mean()), float(drawn.std(ddof=1) / RUNS**0.5)


def expected_s(run: FailingRun) -> float:
    """Every cycle's mean by Poisson retry, that of a shorter last one included."""
    restart = run.restart_s
    if run.recovery == "exposed":
        restart = exposed_restart_s(restart, run.failures_per_s)
    whole = math.floor(run.work_s / run.interval_s * (1 + ROUNDING))
    rest = max(run.work_s - whole * run.interval_s, 0.0)
    rest = rest if rest > ROUNDING * run.interval_s else 0.0
    given = (run.stall_s, run.lag_s, run.failures_per_s, restart)
    return whole * retry_cycle_s(run.interval_s, *given) + (retry_cycle_s(rest, *given) if rest else 0.0)


@settings(max_examples=20, deadline=None)
@given(
    mtbf=st.floats(1e3, 1e6),
    tau=st.floats(0.02, 1.5),
    stall=st.floats(0.0, 0.3),
    cycles=st.floats(2.0, 60.0),
    restart=st.floats(0.0, 0.5),
    recovery=st.sampled_from(["safe", "exposed"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_drawn_mean_is_that_of_poisson_retry(  # noqa: PLR0917 - the numbers of a run
    mtbf, tau, stall, cycles, restart, recovery, seed
):
    run = FailingRun(
        work_s=round(cycles, 1) * tau * mtbf,
        interval_s=tau * mtbf,
        stall_s=stall * mtbf,
        lag_s=0.0,
        failures_per_s=1 / mtbf,
        restart_s=restart * mtbf,
        recovery=recovery,
    )
    mean, error = mean_and_error(run, seed)
    assert abs(mean - expected_s(run)) <= SIGMAS * error + 1e-9 * mean


@settings(max_examples=20, deadline=None)
@given(tau=st.floats(0.1, 1.0), stall=st.floats(0.0, 0.1), lag=st.floats(0.0, 0.1), seed=st.integers(0, 2**32 - 1))
def test_with_a_lag_the_drawn_mean_of_a_long_run_is_that_of_poisson_retry(tau, stall, lag, seed):
    """The end of a run differs by what is in flight there: at most a lag and a cycle."""
    run = FailingRun(
        work_s=400 * tau, interval_s=tau, stall_s=stall, lag_s=lag, failures_per_s=1.0, restart_s=0.1, recovery="safe"
    )
    mean, error = mean_and_error(run, seed)
    assert abs(mean - expected_s(run)) <= SIGMAS * error + 2 * (tau + stall + lag)


@pytest.mark.parametrize(("stall", "lag"), [(16.4, 0.0), (1.0, 60.0)])
@pytest.mark.parametrize("tau", [600.0, 1800.0])
def test_the_drawn_mean_is_that_of_first_order_where_overheads_are_small(stall, lag, tau):
    """A job that fails once a week for 500 days: 1 to 3 %, and first order is off by its square."""
    run = FailingRun(
        work_s=500 * 86_400.0, interval_s=tau, stall_s=stall, lag_s=lag, failures_per_s=1 / 604_800, restart_s=120.0
    )
    mean, error = mean_and_error(run, 0)
    share = overhead_fraction(tau, stall, lag, run.failures_per_s, run.restart_s)
    assert 0 < share < 0.03
    assert abs(mean / run.work_s - 1 - share) <= SIGMAS * error / run.work_s + share**2


@given(stall=st.floats(1e-6, 1e4), rate=st.floats(1e-9, 1e-3), lag=st.floats(0, 100), restart=st.floats(0, 1e4))
def test_no_interval_beats_the_best_of_either_form(stall, rate, lag, restart):
    for best, overhead in (
        (first_order_interval_s, overhead_fraction),
        (retry_interval_s, retry_overhead_fraction),
    ):
        tau = float(best(stall, rate))
        least = overhead(tau, stall, lag, rate, restart)
        others = overhead(tau * np.array([0.2, 0.5, 0.9, 1.1, 2.0, 5.0]), stall, lag, rate, restart)
        assert (others > least).all()


@given(stall=st.floats(1e-6, 1e4), rate=st.floats(1e-9, 1e-3))
def test_the_best_interval_of_poisson_retry_is_below_that_of_first_order_and_below_the_mean_between_failures(
    stall, rate
):
    tau = float(retry_interval_s(stall, rate))
    assert tau <= float(first_order_interval_s(stall, rate)) * (1 + 1e-12)
    assert tau * rate <= 1


@given(stall=st.floats(1e-3, 1e3), rate=st.floats(1e-9, 1e-3), factor=st.floats(1.1, 100))
def test_the_best_interval_goes_with_the_root_of_the_save_and_against_that_of_the_rate(stall, rate, factor):
    tau = first_order_interval_s(stall, rate)
    assert first_order_interval_s(stall * factor, rate) == pytest.approx(tau * math.sqrt(factor))
    assert first_order_interval_s(stall, rate * factor) == pytest.approx(tau / math.sqrt(factor))


@given(tau=st.floats(1.0, 1e5), stall=st.floats(0, 1e3), lag=st.floats(0, 1e3), rate=st.floats(1e-9, 1e-3))
def test_more_failures_slower_saves_and_longer_restarts_cost_more_in_both_forms(tau, stall, lag, rate):
    for overhead in (overhead_fraction, retry_overhead_fraction):
        base = overhead(tau, stall, lag, rate, 60.0)
        assert overhead(tau, stall, lag, 2 * rate, 60.0) > base
        assert overhead(tau, stall + 1, lag, rate, 60.0) > base
        assert overhead(tau, stall, lag + 1, rate, 60.0) >= base
        assert overhead(tau, stall, lag, rate, 120.0) > base


class Once:
    """One failure at a given time, and none after it."""

    def __init__(self, at_s: float) -> None:
        self.gaps = [at_s]

    def exponential(self, _scale: float, count: int) -> np.ndarray:
        return np.full(count, self.gaps.pop() if self.gaps else np.inf)


@settings(max_examples=40, deadline=None)
@given(
    mode=st.sampled_from(["sync", "async"]),
    every=st.integers(20, 60),
    copy=st.integers(0, 3),
    commit=st.integers(0, 3),
    write=st.integers(1, 20),
    fail=st.integers(1, 300),
)
def test_a_failure_goes_back_to_the_save_that_the_timeline_recovers(  # noqa: PLR0917 - the numbers of a save
    mode, every, copy, commit, write, fail
):
    """The drawn run against the event engine: the newest capture whose data and record are there."""
    at_s = fail + 0.5
    save = SaveOptions(
        size=write * 10**9, write=1e9, every=float(every), count=16, copy=float(copy), commit=float(commit), mode=mode,
        fail=at_s, clock="training",
    )  # fmt: skip
    loss = checkpoint_timeline(save).body["failure"]
    kept = 0 if loss.recovered is None else int(loss.recovered.removeprefix("save-"))
    hold = float(copy + write + commit) if mode == "sync" else float(copy)
    run = FailingRun(
        work_s=16.0 * every,
        interval_s=float(every),
        stall_s=hold,
        lag_s=0.0 if mode == "sync" else float(write + commit),
        failures_per_s=1e-3,
        restart_s=0.0,
    )
    failed, plain = (monte_carlo(item, 1, Once(at_s)).finish_s[0] for item in (run, replace(run, failures_per_s=0.0)))
    assert failed - at_s == pytest.approx(plain - kept * (every + hold))
