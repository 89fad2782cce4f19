"""A plan's saves and failures go in; what they add to the run comes out: by first order, by Poisson retry, and drawn.

First order decides. What it leaves out stands beside it: failures that hit a save or come again in redone work (retry),
and the spread of the date over runs that are drawn from a seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.errors import JobError
from meshwright.base.units import show_seconds
from meshwright.cost.kept import saved_parts
from meshwright.cost.overheads import (
    devices_failures_per_s,
    finish_s,
    overhead_fraction,
    recovery_fraction,
    retry_overhead_fraction,
    rework_fraction,
    save_fraction,
)
from meshwright.scenarios._interval import MOST_EXPECTED, Case, column
from meshwright.scenarios._interval_rows import MOST_DRAWN, Optimum, expected_failures, optima
from meshwright.scenarios.checkpoint_interval import FIRST_ORDER_HOLDS
from meshwright.sim.failures import MOST_FAILURES, FailingRun, monte_carlo

if TYPE_CHECKING:
    from meshwright.base.result import Candidate
    from meshwright.job.train import TrainJob
    from meshwright.model.model import Model
    from meshwright.scenarios._training_options import TrainOptions
    from meshwright.system.system import System

_QUANTILES: Final = (0.1, 0.5, 0.9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """What a run saves and what stops it; see `cost.overheads`.

    size_bytes: of a save.   write_s: until it is written.   stall_s, lag_s: of it, training stands, and until it counts
    beside training.   hardware_failures_per_s, spikes_per_s: of the job.   interval_s, restart_s: as asked.
    """

    size_bytes: int
    write_s: float
    stall_s: float
    lag_s: float
    hardware_failures_per_s: float
    spikes_per_s: float
    interval_s: float
    restart_s: float

    @property
    def failures_per_s(self) -> float:
        """Of the whole job."""
        return self.hardware_failures_per_s + self.spikes_per_s

    @property
    def terms(self) -> tuple[float, float, float, float]:
        """What the formulas take behind an interval."""
        return self.stall_s, self.lag_s, self.failures_per_s, self.restart_s


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnFinish:
    """The run drawn `runs` times from a seed: calendar time with planned stops; failures and redone_s are means.

    on_time_share: of the runs, None without a deadline.
    """

    runs: int
    seed: int
    mean_s: float
    standard_error_s: float
    p10_s: float
    p50_s: float
    p90_s: float
    on_time_share: float | None
    failures: float
    redone_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Overheads:
    """What is added to a run's useful time, as fractions of it; save, rework and recovery are the first order.

    spikes_fraction: of rework and recovery, what loss spikes cause.   retry_finish_s: with the retry overhead.
    best_first_order, best_retry: the interval with the least overhead by each, None where nothing fails or a save
    costs nothing.   best_saves_s: what the first of them would save of the date.   drawn: None for no runs, or where
    failures are too many to be drawn.
    """

    save_fraction: float
    rework_fraction: float
    recovery_fraction: float
    overhead_fraction: float
    spikes_fraction: float
    retry_overhead_fraction: float
    retry_finish_s: float
    best_first_order: Optimum | None
    best_retry: Optimum | None
    best_saves_s: float | None
    drawn: DrawnFinish | None


def saving_of(model: Model, system: System, job: TrainJob, options: TrainOptions) -> Saving:
    """The saves and failures of a plan. Source: chapter "Training systems", sections 10.4.2 and 10.4.4.

    Without a rate of storage a save takes no time; without failures only saves cost. With a copy, training stands for
    the copy alone, and the save counts once it is written. Raises JOB023: an interval shorter than its save, or one
    that failures never let end.
    """
    saving = expected_saving(sum(saved_parts(model, job.recipe).values()), system, options)
    hold = max(saving.stall_s, _least_s(saving))
    if saving.interval_s < hold:
        cause = f"--checkpoint-interval {show_seconds(saving.interval_s)} is shorter than a save: {show_seconds(hold)}"
        raise JobError(23, cause, f"--checkpoint-interval {hold:.6g}s or more, or a faster --storage-write")
    expected = saving.failures_per_s * (saving.interval_s + saving.stall_s + saving.restart_s)
    if expected > MOST_EXPECTED:
        cause = (
            f"a failure every {show_seconds(1 / saving.failures_per_s)}, and {show_seconds(saving.interval_s)} between "
            f"saves with {show_seconds(saving.restart_s)} to restart: the run gets nowhere"
        )
        raise JobError(
            23, cause, "give a shorter --checkpoint-interval or --restart, or a longer time between failures"
        )
    return saving


def expected_saving(size_bytes: int, system: System, options: TrainOptions) -> Saving:
    """The same of a save of so many bytes, whatever comes of it; times and rates may be columns."""
    write: Any = 0.0 if options.storage_write is None else size_bytes / options.storage_write
    copy = options.checkpoint_copy
    return Saving(
        size_bytes=size_bytes,
        write_s=write,
        stall_s=write if copy is None else copy,
        lag_s=0.0 if copy is None else write,
        hardware_failures_per_s=hardware_failures_per_s(system, options),
        spikes_per_s=0.0 if options.spike_interval is None else 1.0 / options.spike_interval,
        interval_s=options.checkpoint_interval,
        restart_s=options.restart,
    )


def first_order(saving: Saving) -> float:
    """Extra time per useful time, at the interval asked for."""
    return overhead_fraction(saving.interval_s, *saving.terms)


def overheads_of(job: TrainJob, options: TrainOptions, saving: Saving, shown: Candidate) -> Overheads:
    """All of it for one candidate."""
    useful, interval, terms = shown.measures["useful_s"], saving.interval_s, saving.terms
    retry = retry_overhead_fraction(interval, *terms)
    spikes = rework_fraction(interval, saving.lag_s, saving.spikes_per_s)
    best = optima(_case(saving)) if saving.failures_per_s and saving.stall_s else (None, None)
    first = first_order(saving)
    return Overheads(
        save_fraction=save_fraction(interval, saving.stall_s),
        rework_fraction=rework_fraction(interval, saving.lag_s, saving.failures_per_s),
        recovery_fraction=recovery_fraction(saving.restart_s, saving.failures_per_s),
        overhead_fraction=first,
        spikes_fraction=spikes + recovery_fraction(saving.restart_s, saving.spikes_per_s),
        retry_overhead_fraction=retry,
        retry_finish_s=finish_s(1, useful, retry, job.reserve),
        best_first_order=best[0],
        best_retry=best[1],
        best_saves_s=None if best[0] is None else useful * (first - best[0].overhead_fraction),
        drawn=_drawn(job, options, saving, useful),
    )


def overhead_warnings(options: TrainOptions, found: Overheads, useful_s: float) -> tuple[str, ...]:
    """Where first order does not hold, and where runs were asked for and not drawn. useful_s: of all steps."""
    told: list[str] = []
    if found.overhead_fraction > FIRST_ORDER_HOLDS:
        told.append(
            f"first order holds where the overhead is far below 1: it says {found.overhead_fraction:.1%}, above "
            f"{FIRST_ORDER_HOLDS:.0%}, and Poisson retry {found.retry_overhead_fraction:.1%}"
        )
    if found.overhead_fraction and useful_s < options.checkpoint_interval:
        told.append(
            f"the run's {show_seconds(useful_s)} end before its first save, after "
            f"{show_seconds(options.checkpoint_interval)}: first order counts saves and rework as of a longer run"
        )
    if options.runs and found.drawn is None:
        told.append(f"not drawn, failing too often for {options.runs} runs: give fewer --runs")
    return tuple(told)


def hardware_failures_per_s(system: System, options: TrainOptions) -> float:
    """Of the devices, and once for the job of each thing that stops all of them; or of all as stated."""
    if options.job_mtbf is not None:
        return 1.0 / options.job_mtbf
    common = sum(1.0 / time for time in options.common_mode_mtbf)
    if options.card_mtbf is None:
        return common
    return devices_failures_per_s(system.devices, options.card_mtbf, common)


def _least_s(saving: Saving) -> float:
    """The shortest interval that the writer keeps up with."""
    return max(saving.lag_s - saving.stall_s, 0.0) if saving.lag_s else 0.0


def _case(saving: Saving) -> Case:
    """What `optima` reads."""
    return Case(
        size_bytes=saving.size_bytes,
        parts_bytes=None,
        write_s=column(saving.write_s),
        stall_s=column(saving.stall_s),
        lag_s=column(saving.lag_s),
        least_s=column(_least_s(saving)),
        hardware_failures_per_s=column(saving.hardware_failures_per_s),
        spikes_per_s=column(saving.spikes_per_s),
        failures_per_s=column(saving.failures_per_s),
        recovery_s=column(saving.restart_s),
    )


def _drawn(job: TrainJob, options: TrainOptions, saving: Saving, useful_s: Any) -> DrawnFinish | None:
    """The run of useful_s, from one generator; None where it is not drawn."""
    run = FailingRun(
        work_s=float(useful_s),
        interval_s=saving.interval_s,
        stall_s=saving.stall_s,
        lag_s=saving.lag_s,
        failures_per_s=saving.failures_per_s,
        restart_s=saving.restart_s,
    )
    runs = options.runs
    if not runs or expected_failures(run) * max(runs, MOST_DRAWN // MOST_FAILURES) > MOST_DRAWN:
        return None
    drawn = monte_carlo(run, runs, np.random.default_rng(options.seed))
    finish = drawn.finish_s + job.reserve
    p10, p50, p90 = np.quantile(finish, _QUANTILES).tolist()
    return DrawnFinish(
        runs=runs,
        seed=options.seed,
        mean_s=float(finish.mean()),
        standard_error_s=float(finish.std(ddof=1) / runs**0.5) if runs > 1 else 0.0,
        p10_s=p10,
        p50_s=p50,
        p90_s=p90,
        on_time_share=None if job.deadline is None else float((finish <= job.deadline).mean()),
        failures=float(drawn.failures.mean()),
        redone_s=float(drawn.redone_s.mean()),
    )
