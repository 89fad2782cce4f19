"""What is saved, how fast, and what fails goes in; what an interval is chosen by (rates, stalls, bounds) comes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from meshwright.base.errors import CheckpointError, JobError
from meshwright.base.numbers import maximum
from meshwright.base.traced import Traced, held
from meshwright.base.units import Bytes, BytesPerSecond, Seconds, Share, show_seconds
from meshwright.cost.kept import saved_parts
from meshwright.cost.overheads import devices_failures_per_s, exposed_restart_s
from meshwright.job.recipe import Recipe, checked_recipe
from meshwright.job.serve import check_range
from meshwright.model.model import Model
from meshwright.sim.failures import Recovery

Mode: TypeAlias = Literal["sync", "async"]
_LONGEST_S: Final = 1e12
_MOST_DEVICES: Final = 2**24
_MOST_INTERVALS: Final = 16
_MOST_RUNS: Final = 100_000
MOST_EXPECTED: Final = 50.0
"""Failures expected in one cycle, above which it is not asked when it ends."""
_NOTHING_S: Final = Seconds(0.0)
_WORK_S: Final = Seconds(25 * 86_400.0)
_ONE_POINT: Final = Share(0.01)
_COMPARED: Final = (Seconds(300.0), Seconds(900.0), Seconds(1800.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalOptions:
    """What a save is, what fails, and the run that both belong to.

    size: of one save, None when a model's is meant, under recipe.   write: what the storage takes, all writers
    together.   devices: of the job.   job_mtbf: between failures of the whole job's hardware; or card_mtbf of one
    device, with common_mode_mtbf of each thing that stops all of them (counted once).   spike_interval: between
    loss spikes of the job, which roll back as a failure does.   restart: from a failure until training runs again.
    mode, copy, commit: a save holds training from its copy to its commit (sync), or for its copy only (async).
    recovery: failures may hit a restart (exposed) or not (safe).   intervals: to be compared.   within: of the best
    overhead, in points, what counts as flat.   work: useful training time of the run.   reserve: planned stops
    within it.   runs, seed: of the simulation; 0 runs for none.
    """

    write: BytesPerSecond
    restart: Seconds
    size: Bytes | None = None
    recipe: Recipe = field(default_factory=Recipe)
    devices: int = 1
    job_mtbf: Seconds | None = None
    card_mtbf: Seconds | None = None
    common_mode_mtbf: tuple[Seconds, ...] = field(default=())
    spike_interval: Seconds | None = None
    mode: Mode = "sync"
    copy: Seconds = _NOTHING_S
    commit: Seconds = _NOTHING_S
    recovery: Recovery = "safe"
    intervals: tuple[Seconds, ...] = _COMPARED
    within: Share = _ONE_POINT
    work: Seconds = _WORK_S
    reserve: Seconds = _NOTHING_S
    runs: int = 1000
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The numbers that an interval is chosen by: columns of one row, but the size, which is exact.

    size_bytes, write_s: of one save.   stall_s, lag_s: as in `cost.overheads`.   least_s: the shortest interval that
    the writer keeps up with.   hardware_failures_per_s, spikes_per_s: they add up to failures_per_s.   recovery_s: the
    mean of a restart, which failures may hit.
    """

    size_bytes: Any
    parts_bytes: dict[str, Any] | None
    write_s: Any
    stall_s: Any
    lag_s: Any
    least_s: Any
    hardware_failures_per_s: Any
    spikes_per_s: Any
    failures_per_s: Any
    recovery_s: Any


def column(*numbers: Any) -> Any:
    """Numbers as a column: of floats, or of objects where one of them is traced."""
    traced = any(isinstance(item, Traced) for item in numbers)
    return np.array(numbers, dtype=object if traced else np.float64)


def case_of(options: IntervalOptions, model: Model | None) -> Case:
    """The case of checked options.

    Raises JOB001 (counts), CKP001 (size or rate), CKP006 (no size, or two), CKP007 (failure rates), CKP009 (failures
    too frequent for any interval).
    """
    parts = _parts(options, model)
    size = options.size if parts is None else sum(parts.values())
    if not held(size) or not options.write:
        cause = f"saves of {held(size)} bytes at {options.write:g} bytes/s"
        raise CheckpointError(1, cause, "give both above zero, as in --size 112GB --write 7GB/s")
    _check_counts(options)
    write_s = column(size) / column(options.write)
    copy, commit = column(options.copy), column(options.commit)
    asynchronous = options.mode == "async"
    hardware, spikes = _rates(options)
    rate = hardware + spikes
    restart = column(options.restart)
    stall, lag = (copy, write_s + commit) if asynchronous else (copy + write_s + commit, column(0.0))
    _check_ends(rate, stall + lag + restart)
    return Case(
        size_bytes=size,
        parts_bytes=parts,
        write_s=write_s,
        stall_s=stall,
        lag_s=lag,
        least_s=maximum(write_s - copy, 0) if asynchronous else column(0.0),
        hardware_failures_per_s=hardware,
        spikes_per_s=spikes,
        failures_per_s=rate,
        recovery_s=exposed_restart_s(restart, rate) if options.recovery == "exposed" else restart,
    )


def _parts(options: IntervalOptions, model: Model | None) -> dict[str, Any] | None:
    """Bytes of a model's save by part; None where a size is given. Raises CKP006."""
    if (options.size is None) == (model is None):
        given = "no size" if model is None else "a size and a model"
        raise CheckpointError(6, f"{given}: what is saved is one or the other", "--size 112GB or --model MODEL")
    if model is None:
        return None
    return saved_parts(model, checked_recipe(options.recipe))


def _check_counts(options: IntervalOptions) -> None:
    check_range("devices", options.devices, 1, _MOST_DEVICES)
    check_range("runs", options.runs, 0, _MOST_RUNS)
    check_range("intervals", len(options.intervals), 0, _MOST_INTERVALS)
    for name, least in (("restart", 0), ("copy", 0), ("commit", 0), ("reserve", 0), ("work", 1)):
        value: Seconds = getattr(options, name)
        if not least <= value <= _LONGEST_S:
            raise JobError(1, f"{name} is {value:g} s", f"give between {least} s and {_LONGEST_S:g} s")


def _rates(options: IntervalOptions) -> tuple[Any, Any]:
    """Failures a second of the hardware, and loss spikes a second. Raises CKP007."""
    named = [
        ("--job-mtbf", options.job_mtbf),
        ("--card-mtbf", options.card_mtbf),
        ("--spike-interval", options.spike_interval),
        *(("--common-mode-mtbf", time) for time in options.common_mode_mtbf),
    ]
    given = [(name, time) for name, time in named if time is not None]
    wrong = [f"{name} of {time:g} s" for name, time in given if not 0 < time <= _LONGEST_S]
    if wrong or not given:
        cause = ", ".join(wrong) or "no time between failures"
        raise CheckpointError(7, cause, f"give one above zero, to {_LONGEST_S:g}s, as in --job-mtbf 7.9h")
    if options.job_mtbf is not None and (options.card_mtbf is not None or options.common_mode_mtbf):
        cause = "--job-mtbf is of all hardware of the job, and another option states a part of it"
        raise CheckpointError(7, cause, "leave --job-mtbf out, or --card-mtbf and --common-mode-mtbf")
    common: Any = sum((1 / column(time) for time in options.common_mode_mtbf), start=column(0.0))
    hardware = common
    if options.job_mtbf is not None:
        hardware = 1 / column(options.job_mtbf)
    if options.card_mtbf is not None:
        hardware = devices_failures_per_s(column(options.devices), column(options.card_mtbf), common)
    spikes = column(0.0) if options.spike_interval is None else 1 / column(options.spike_interval)
    return hardware, spikes


def _check_ends(rate: Any, cycle_s: Any) -> None:
    """Raises CKP009 where even a cycle without any work is hit time and again."""
    expected = held((rate * cycle_s)[0])
    if expected > MOST_EXPECTED:
        mean, cycle = show_seconds(1 / held(rate[0])), show_seconds(held(cycle_s[0]))
        cause = f"a save and a restart take {cycle}, and a failure comes every {mean}: no work is ever saved"
        raise CheckpointError(9, cause, "give a faster --write or --restart, or a longer time between failures")


def check_intervals(options: IntervalOptions, case: Case) -> None:
    """Raises CKP008 for an interval shorter than its save, CKP009 for one that failures never let end."""
    hold = max(float(held(case.stall_s[0])), float(held(case.least_s[0])))
    rate = float(held(case.failures_per_s[0]))
    for interval in options.intervals:
        if not interval or interval < hold:
            what = "save, which holds training" if options.mode == "sync" else "save on its writer:"
            cause = f"an interval of {show_seconds(interval)} is shorter than its {what} {show_seconds(hold)}"
            raise CheckpointError(8, cause, f"--intervals of {hold:.6g}s or more, or a faster --write")
        if rate * interval > MOST_EXPECTED:
            cause = f"an interval of {show_seconds(interval)}, and a failure every {show_seconds(1 / rate)}"
            raise CheckpointError(9, cause, f"--intervals up to {MOST_EXPECTED / rate:.6g}s")
