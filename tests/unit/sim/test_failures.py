"""One run with given failures: what is kept, what is done again, and when it ends."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import numpy as np
import pytest

from meshwright.sim.failures import FailingRun, monte_carlo

RUN = FailingRun(
    work_s=1000.0, interval_s=300.0, stall_s=10.0, lag_s=0.0, failures_per_s=1e-3, restart_s=50.0, recovery="safe"
)


class Given:
    """Times between failures as listed, then none."""

    def __init__(self, *gaps: float) -> None:
        self.gaps = list(gaps)

    def exponential(self, scale: float, count: int) -> np.ndarray:
        assert scale == 1000.0
        return np.full(count, self.gaps.pop(0) if self.gaps else np.inf)


def drawn(run: FailingRun, *gaps: float) -> tuple[float, int, float]:
    found = monte_carlo(run, 1, Given(*gaps))
    return float(found.finish_s[0]), int(found.failures[0]), float(found.redone_s[0])


def test_without_failures_a_run_is_its_work_and_its_saves():
    """300, 300, 300 and 100 s, each with its save."""
    assert drawn(RUN) == (1040.0, 0, 0.0)


def test_a_run_of_more_saves_than_an_integer_counts_is_drawn():
    """1e50 s of work every 300 s."""
    assert drawn(replace(RUN, work_s=1e50, stall_s=0.0)) == (1e50, 0, 0.0)


@pytest.mark.parametrize(
    ("gap", "finish", "redone"),
    [
        (200.0, 200 + 50 + 1040, 200.0),
        (305.0, 305 + 50 + 1040, 300.0),  # within the first save: all of its interval is lost
        (310.0, 310 + 50 + 730, 0.0),  # its end counts
        (400.0, 400 + 50 + 730, 90.0),
        (1039.0, 1039 + 50 + 110, 100.0),  # within the last save
        (1040.0, 1040.0, 0.0),
    ],
)
def test_a_failure_goes_back_to_the_newest_save_that_ended(gap, finish, redone):
    assert drawn(RUN, gap) == (finish, int(gap < 1040), redone)


def test_a_save_written_beside_training_counts_once_it_is_committed():
    """The first copy ends at 302 s, and its save counts at 362 s: a failure before that loses all."""
    run = replace(RUN, stall_s=2.0, lag_s=60.0)
    assert drawn(run) == (1068.0, 0, 0.0)
    assert drawn(run, 361.0) == (361 + 50 + 1068, 1, 359.0)
    assert drawn(run, 362.0) == (362 + 50 + 1068 - 302, 1, 60.0)


def test_a_restart_can_itself_fail_where_it_is_exposed():
    exposed = replace(RUN, recovery="exposed")
    assert drawn(RUN, 200.0, 30.0) == (200 + 50 + 30 + 50 + 1040, 2, 230.0)
    assert drawn(exposed, 200.0, 30.0) == (200 + 30 + 50 + 1040, 2, 200.0)
    assert drawn(exposed, 200.0, 80.0) == (200 + 80 + 50 + 1040, 2, 230.0)


def test_work_of_whole_intervals_has_no_save_more():
    assert drawn(replace(RUN, work_s=0.3 * 3, interval_s=0.3, stall_s=1.0)) == (pytest.approx(3.9), 0, 0.0)


def test_a_rate_of_zero_never_fails():
    found = monte_carlo(replace(RUN, failures_per_s=0.0), 3, np.random.default_rng(0))
    assert found.finish_s.tolist() == [1040.0] * 3


def test_the_same_seed_gives_the_same_columns():
    first, second, other = (monte_carlo(RUN, 50, np.random.default_rng(seed)) for seed in (7, 7, 8))
    assert first.finish_s.tolist() == second.finish_s.tolist() != other.finish_s.tolist()


def test_a_thousand_runs_of_25_days_are_drawn_as_columns():
    """Some 80 failures a run: one round of columns for each, not a Python step for each failure of each run."""
    run = FailingRun(
        work_s=25 * 86_400.0, interval_s=900.0, stall_s=16.4, lag_s=0.0, failures_per_s=1 / 28_440, restart_s=120.0
    )
    calls = Counted()
    begun = perf_counter()
    found = monte_carlo(run, 1000, calls)
    assert calls.rounds == found.failures.max() + 1 < 200
    assert perf_counter() - begun < 1.0


class Counted:
    """A generator that counts how often it is asked."""

    def __init__(self) -> None:
        self.rounds = 0
        self.inner = np.random.default_rng(0)

    def exponential(self, scale: float, count: int) -> np.ndarray:
        self.rounds += 1
        return self.inner.exponential(scale, count)
