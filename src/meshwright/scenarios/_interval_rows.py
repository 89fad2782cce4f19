"""A case and intervals go in; what each costs, the curve around the best, its flat part and drawn runs come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.numbers import maximum
from meshwright.base.traced import cell, held, values
from meshwright.cost.overheads import (
    finish_s,
    first_order_interval_s,
    overhead_fraction,
    recovery_fraction,
    retry_cycle_s,
    retry_interval_s,
    retry_overhead_fraction,
    rework_fraction,
    save_fraction,
)
from meshwright.scenarios._interval import MOST_EXPECTED, Case, IntervalOptions, column
from meshwright.sim.failures import MOST_FAILURES, FailingRun, monte_carlo

if TYPE_CHECKING:
    from collections.abc import Callable

BEST: Final = "best"
MOST_DRAWN: Final = 5_000_000
_POINTS: Final = 12
_STEPS: Final = 4
_HALVINGS: Final = 100
_QUANTILES: Final = (0.05, 0.5, 0.95)


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimum:
    """The best interval of one form, and its overhead in that form."""

    interval_s: float
    overhead_fraction: float


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalRow:
    """One interval. Fractions are of useful time; save, rework and recovery add up to overhead_fraction (first order).

    spikes_fraction: of rework and recovery, what loss spikes cause; spikes_s: over the run.   finish_s: of the run, by
    retry_overhead_fraction.
    """

    id: str
    interval_s: float
    save_fraction: float
    rework_fraction: float
    recovery_fraction: float
    overhead_fraction: float
    retry_overhead_fraction: float
    spikes_fraction: float
    spikes_s: float
    finish_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """The overhead of one interval in both forms."""

    id: str
    interval_s: float
    overhead_fraction: float
    retry_overhead_fraction: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Flat:
    """The intervals whose overhead (Poisson retry) is at most so many points above the best."""

    within_fraction: float
    from_s: float
    to_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """The run drawn `runs` times at one interval: calendar time with planned stops; failures and redone_s are means."""

    id: str
    interval_s: float
    runs: int
    mean_s: float
    standard_error_s: float
    p05_s: float
    p50_s: float
    p95_s: float
    overhead_fraction: float
    failures: float
    redone_s: float


def optima(case: Case) -> tuple[Optimum, Optimum]:
    """First order and Poisson retry, neither shorter than the writer keeps up with."""
    found: list[Optimum] = []
    for best, overhead in (
        (first_order_interval_s, overhead_fraction),
        (retry_interval_s, retry_overhead_fraction),
    ):
        interval = best(case.stall_s, case.failures_per_s)
        interval = maximum(interval, case.least_s) if held(case.least_s[0]) else interval
        fraction = overhead(interval, case.stall_s, case.lag_s, case.failures_per_s, case.recovery_s)
        found.append(Optimum(interval_s=cell(interval, 0), overhead_fraction=cell(fraction, 0)))
    return found[0], found[1]


def interval_rows(options: IntervalOptions, case: Case, best_s: Any) -> tuple[IntervalRow, ...]:
    """The intervals asked for, then the best."""
    names = [*(_name(interval) for interval in options.intervals), BEST]
    interval = column(*options.intervals, best_s)
    first, retry = _both(case, interval)
    of_spikes = rework_fraction(interval, case.lag_s, case.spikes_per_s) + recovery_fraction(
        case.recovery_s, case.spikes_per_s
    )
    columns: dict[str, Any] = {
        "interval_s": interval,
        "save_fraction": save_fraction(interval, case.stall_s),
        "rework_fraction": rework_fraction(interval, case.lag_s, case.failures_per_s),
        "recovery_fraction": recovery_fraction(case.recovery_s, case.failures_per_s) + 0 * interval,
        "overhead_fraction": first,
        "retry_overhead_fraction": retry,
        "spikes_fraction": of_spikes,
        "spikes_s": of_spikes * options.work,
        "finish_s": finish_s(1, column(options.work), retry, column(options.reserve)),
    }
    return tuple(
        IntervalRow(id=name, **{key: cell(numbers, row) for key, numbers in columns.items()})
        for row, name in enumerate(names)
    )


def curve(case: Case, best_s: Any) -> tuple[CurvePoint, ...]:
    """The best interval and twelve on either side, four to a doubling; those that can be asked about."""
    factors = 2.0 ** (np.arange(-_POINTS, _POINTS + 1) / _STEPS)
    lengths = held(best_s) * factors
    asked = (lengths >= held(case.least_s[0])) & (lengths * held(case.failures_per_s[0]) <= MOST_EXPECTED)
    interval = factors[asked] * column(best_s)
    first, retry = _both(case, interval)
    return tuple(
        CurvePoint(
            id=_name(cell(interval, row)),
            interval_s=cell(interval, row),
            overhead_fraction=cell(first, row),
            retry_overhead_fraction=cell(retry, row),
        )
        for row in range(len(interval))
    )


def flat(options: IntervalOptions, case: Case, best_s: float) -> Flat:
    """Where the overhead (Poisson retry) stays near the best: it falls up to the best interval and rises from it."""
    plain = [float(held(item[0])) for item in (case.stall_s, case.lag_s, case.failures_per_s, case.recovery_s)]
    within = float(held(options.within))

    def near(interval_s: float) -> bool:
        return bool(float(retry_overhead_fraction(interval_s, *plain)) <= limit)

    limit = float(retry_overhead_fraction(best_s, *plain)) + within
    longest = MOST_EXPECTED / plain[2]
    shortest = max(float(held(case.least_s[0])), best_s * 1e-9)
    return Flat(
        within_fraction=within,
        from_s=shortest if near(shortest) else _edge(near, best_s, shortest),
        to_s=longest if near(longest) else _edge(near, best_s, longest),
    )


def _edge(near: Callable[[float], bool], inside_s: float, outside_s: float) -> float:
    """The last interval that is near, between one that is and one that is not."""
    for _ in range(_HALVINGS):
        middle = (inside_s * outside_s) ** 0.5
        if middle in {inside_s, outside_s}:
            break
        inside_s, outside_s = (middle, outside_s) if near(middle) else (inside_s, middle)
    return inside_s


def simulated(options: IntervalOptions, case: Case, best_s: float) -> tuple[Simulated, ...]:
    """Every interval asked for and the best, each from the same seed, but those that fail too often to be drawn."""
    found: list[Simulated] = []
    for name, interval in (*((_name(item), item) for item in options.intervals), (BEST, best_s)):
        run = FailingRun(
            work_s=float(options.work),
            interval_s=float(interval),
            stall_s=float(values(case.stall_s)[0]),
            lag_s=float(values(case.lag_s)[0]),
            failures_per_s=float(values(case.failures_per_s)[0]),
            restart_s=float(options.restart),
            recovery=options.recovery,
        )
        if options.runs and expected_failures(run) * max(options.runs, MOST_DRAWN // MOST_FAILURES) <= MOST_DRAWN:
            found.append(_drawn(options, name, run))
    return tuple(found)


def expected_failures(run: FailingRun) -> float:
    """Failures of the run: its time over the mean time between them."""
    each = retry_cycle_s(run.interval_s, run.stall_s, run.lag_s, run.failures_per_s, run.restart_s)
    return float(each * run.work_s / run.interval_s * run.failures_per_s)


def _drawn(options: IntervalOptions, name: str, run: FailingRun) -> Simulated:
    drawn = monte_carlo(run, options.runs, np.random.default_rng(options.seed))
    finish = drawn.finish_s + options.reserve
    p05, p50, p95 = np.quantile(finish, _QUANTILES).tolist()
    mean = float(finish.mean())
    return Simulated(
        id=name,
        interval_s=run.interval_s,
        runs=options.runs,
        mean_s=mean,
        standard_error_s=float(finish.std(ddof=1) / options.runs**0.5) if options.runs > 1 else 0.0,
        p05_s=p05,
        p50_s=p50,
        p95_s=p95,
        overhead_fraction=(mean - options.reserve) / run.work_s - 1,
        failures=float(drawn.failures.mean()),
        redone_s=float(drawn.redone_s.mean()),
    )


def _both(case: Case, interval: Any) -> tuple[Any, Any]:
    """The overhead of every interval by first order and by Poisson retry."""
    given = (case.stall_s, case.lag_s, case.failures_per_s, case.recovery_s)
    return overhead_fraction(interval, *given), retry_overhead_fraction(interval, *given)


def _name(interval: Any) -> str:
    return f"{interval:.10g}s"
