"""A run with saves and failures and a generator go in; when it ends, drawn many times, comes out as a column.

`monte_carlo(run, draws, generator)` draws failures one after the other, in all draws at once: from one failure to the
next a draw is either done, or thrown back to the newest save that counts. What a failure loses is simulated, not taken
from a formula. The same generator state gives the same columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from meshwright.base.numbers import Floats, Ints

Recovery: TypeAlias = Literal["safe", "exposed"]
MOST_FAILURES: Final = 10_000
"""Expected failures of a run, above which it is not drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingRun:
    """A run of `work_s` useful seconds, saved every `interval_s` of them, the last save at its end.

    stall_s: what a save holds training.   lag_s: from then until it counts, while training goes on; a writer that keeps
    up with the saves begins each at once.   failures_per_s: of the whole job, with exponential times between them; a
    failure may hit a save, and loses all that is not committed.   restart_s: until training runs again.   recovery:
    failures may hit it (exposed), each beginning it anew, or not (safe).
    """

    work_s: float
    interval_s: float
    stall_s: float
    lag_s: float
    failures_per_s: float
    restart_s: float
    recovery: Recovery = "safe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """One entry a draw: when its last save counts, how often it failed, and the training time that was done again."""

    finish_s: Floats
    failures: Ints
    redone_s: Floats


def monte_carlo(run: FailingRun, draws: int, generator: np.random.Generator) -> Drawn:
    """The whole run, drawn `draws` times.

    The number of rounds is that of the unluckiest draw's failures, so the caller bounds what is expected
    (`MOST_FAILURES`). Leaves out failures that come in groups, and rates that change with time.
    """
    whole = max(1.0, float(np.ceil(run.work_s / run.interval_s * (1 - _ROUNDING))))
    cycles = int(min(whole, _MOST_CYCLES))
    clock, redone = np.zeros(draws), np.zeros(draws)
    saved, failures = np.zeros(draws, dtype=np.int64), np.zeros(draws, dtype=np.int64)
    recovering = np.zeros(draws)
    running = np.arange(draws)
    while running.size:
        left = run.work_s - saved[running] * run.interval_s + (whole - saved[running]) * run.stall_s + run.lag_s
        gap = _gaps(run, running.size, generator)
        ran = gap - recovering[running]
        done = ran >= left
        clock[running[done]] += recovering[running[done]] + left[done]
        running, ran, gap = running[~done], ran[~done], gap[~done]
        kept = _kept(run, ran, cycles - saved[running])
        trained = np.minimum(_trained(run, ran), run.work_s - saved[running] * run.interval_s)
        redone[running] += trained - kept * run.interval_s
        saved[running] += kept
        failures[running] += 1
        clock[running] += gap if run.recovery == "exposed" else gap + run.restart_s
        recovering[running] = run.restart_s if run.recovery == "exposed" else 0.0
    return Drawn(finish_s=clock, failures=failures, redone_s=redone)


_ROUNDING: Final = 1e-12
_MOST_CYCLES: Final = 2**62
"""What a count of saves can hold; a longer run has as many before it ends, and does not end."""


def _gaps(run: FailingRun, count: int, generator: np.random.Generator) -> Floats:
    """Seconds to the next failure; never where the rate is zero."""
    if not run.failures_per_s:
        return np.full(count, np.inf)
    return generator.exponential(1 / run.failures_per_s, count)


def _kept(run: FailingRun, ran: Floats, cycles_left: Ints) -> Ints:
    """Saves that count when a failure comes `ran` seconds after training began; the last of all would have ended it."""
    cycle = run.interval_s + run.stall_s
    committed = np.floor(np.maximum(ran - run.lag_s, 0.0) / cycle).astype(np.int64)
    return np.minimum(committed, cycles_left - 1)


def _trained(run: FailingRun, ran: Floats) -> Floats:
    """Training time within `ran` seconds: each interval is followed by its stall."""
    cycle = run.interval_s + run.stall_s
    whole = np.floor(np.maximum(ran, 0.0) / cycle)
    return whole * run.interval_s + np.minimum(np.maximum(ran, 0.0) - whole * cycle, run.interval_s)
