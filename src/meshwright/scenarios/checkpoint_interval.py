"""How often should a run save? Saves, failures and intervals go in; the best interval and what each costs come out.

Three ways, with rising fidelity: first order, Poisson retry, and the whole run drawn from a seed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from meshwright.base.result import Basis, Result, Verdict
from meshwright.base.traced import cell, held
from meshwright.base.units import Bytes, BytesPerSecond, Seconds, show_seconds
from meshwright.cost.overheads import device_mtbf_s
from meshwright.model.model import Model
from meshwright.scenarios._interval import Case, IntervalOptions, case_of, check_intervals, column
from meshwright.scenarios._interval_rows import (
    BEST,
    Flat,
    IntervalRow,
    Optimum,
    Simulated,
    curve,
    flat,
    interval_rows,
    optima,
    simulated,
)
from meshwright.scenarios._shared import sources_of, stated_model

FIRST_ORDER_HOLDS: Final = 0.1
"""The overhead up to which first order passes without a warning."""
_LEFT_OUT: Final = (
    "failures that come in groups, and a rate that changes over the run: times between failures are exponential",
    "spread of a restart: each takes as long, detection and reading the save back included",
    "a save that is damaged or holds what led to a spike: the newest committed one is always good",
    "readers of the same storage (study save-and-input shares it), and a save more or less to end on a whole step",
)
_BASIS: Final = {
    "save_s": Basis.FORMULA.value,
    "size_parts": f"{Basis.CONFIG.value}: what the recipe keeps of every parameter, but gradients",
    "failures_per_s": Basis.FORMULA.value,
    "first_order": f"{Basis.FORMULA.value}: save / interval + rate (interval / 2 + lag + recovery)",
    "retry": f"{Basis.FORMULA.value}: Poisson retry of a cycle of interval and stall",
    "intervals[]": f"{Basis.FORMULA.value}: first order, and Poisson retry for retry_overhead_fraction and finish_s",
    "curve[]": Basis.FORMULA.value,
    "flat": f"{Basis.FORMULA.value}: Poisson retry, searched",
    "inputs.options": f"{Basis.ASSUMED.value}: as asked",
}


def checkpoint_interval(options: IntervalOptions, model: Model | None = None) -> Result:
    """The interval between saves with the least overhead, what others cost, and the run simulated at each.

    yes: at the best interval a run spends less time on saves, rework and recovery than on new work. Raises JOB001
    (counts), CKP001 (size, rate), CKP006 (no size, or two), CKP007 (failure rates), CKP008 (an interval shorter than
    its save), CKP009 (failures too frequent). Source: chapter "Training systems", sections 10.4.4, 10.4.5, note 20.
    """
    case = case_of(options, model)
    check_intervals(options, case)
    first, retry = optima(case)
    best_s = float(held(retry.interval_s))
    rows = interval_rows(options, case, retry.interval_s)
    drawn = simulated(options, case, best_s)
    near = flat(options, case, best_s)
    return Result(
        command="checkpoint interval",
        verdict=_verdict(first, retry, near, drawn),
        inputs={
            "model": None if model is None else stated_model(model),
            "system": None,
            "job": None,
            "layout": None,
            "options": options,
        },
        defaulted=() if model is None else model.defaulted,
        warnings=_warnings(options, case, rows, drawn),
        not_modelled=_LEFT_OUT,
        sources=() if model is None else sources_of(model, None),
        basis=_BASIS | {"simulated[]": f"{Basis.SIMULATED.value}: {options.runs} runs from seed {options.seed}"},
        body={
            **_save(case),
            **_between_failures(options, case),
            "first_order": first,
            "retry": retry,
            "flat": near,
            "intervals": rows,
            "curve": curve(case, retry.interval_s),
            "simulated": drawn,
        },
        next_commands=_next(options, case, best_s),
    )


def _save(case: Case) -> dict[str, Any]:
    """One save: its bytes, those of a model by part, and its times."""
    parts = case.parts_bytes
    return {
        "size_bytes": case.size_bytes,
        "size_parts": None if parts is None else {f"{name}_bytes": size for name, size in parts.items()},
        "save_s": cell(case.write_s, 0),
        "stall_s": cell(case.stall_s, 0),
        "lag_s": cell(case.lag_s, 0),
    }


def _between_failures(options: IntervalOptions, case: Case) -> dict[str, Any]:
    """Rates of the job, and mean times between failures of its hardware; None where none is stated."""
    of_job = 1 / case.hardware_failures_per_s if held(case.hardware_failures_per_s[0]) else None
    of_card = None if options.card_mtbf is None else column(options.card_mtbf)
    if options.job_mtbf is not None:
        of_card = device_mtbf_s(column(options.devices), column(options.job_mtbf))
    return {
        "failures_per_s": cell(case.failures_per_s, 0),
        "spikes_per_s": cell(case.spikes_per_s, 0),
        "job_mtbf_s": None if of_job is None else cell(of_job, 0),
        "card_mtbf_s": None if of_card is None else cell(of_card, 0),
    }


def _verdict(first: Optimum, retry: Optimum, near: Flat, drawn: tuple[Simulated, ...]) -> Verdict:
    good = retry.overhead_fraction < 1
    best_s, first_s = show_seconds(held(retry.interval_s)), show_seconds(held(first.interval_s))
    told = [
        f"save every {best_s} (first order {first_s}): {retry.overhead_fraction:.2%} on top of useful time",
        f"{show_seconds(near.from_s)} to {show_seconds(near.to_s)} stay within {near.within_fraction * 100:.2f} points",
    ]
    if drawn and drawn[-1].id == BEST:
        best = drawn[-1]
        told.append(
            f"the run ends after {show_seconds(best.mean_s)} on average, {show_seconds(best.p05_s)} to "
            f"{show_seconds(best.p95_s)} in nine of ten"
        )
    if not good:
        told.insert(0, "more time goes to saves, rework and recovery than to new work")
    return Verdict(answer="yes" if good else "no", text="; ".join(told))


def _warnings(
    options: IntervalOptions, case: Case, rows: tuple[IntervalRow, ...], drawn: tuple[Simulated, ...]
) -> tuple[str, ...]:
    found: list[str] = []
    worst = max(rows, key=lambda row: float(held(row.overhead_fraction)))
    if worst.overhead_fraction > FIRST_ORDER_HOLDS:
        found.append(
            f"first order holds where the overhead is far below 1: it says {worst.overhead_fraction:.1%} at "
            f"{show_seconds(held(worst.interval_s))}, above {FIRST_ORDER_HOLDS:.0%}, and Poisson retry "
            f"{worst.retry_overhead_fraction:.1%}"
        )
    missing = [row.id for row in rows if row.id not in {item.id for item in drawn}]
    if options.runs and missing:
        found.append(f"not simulated, failing too often for {options.runs} runs: {', '.join(missing)}")
    if options.work < rows[-1].interval_s:
        found.append(
            f"the run's {show_seconds(held(options.work))} of work end before its best interval: one save at their end"
        )
    least = float(held(case.least_s[0]))
    if least and rows[-1].interval_s <= least:
        found.append(f"the writer takes {show_seconds(least)} a save more than the copy: no interval is shorter")
    return tuple(found)


def _next(options: IntervalOptions, case: Case, best_s: float) -> tuple[str, ...]:
    """The saves themselves at the best interval."""
    every = max(float(math.ceil(best_s)), 1.0)
    size = int(held(case.size_bytes))
    words = f"--size {size}B --write {float(options.write):.17g}B/s --every {every:g}s --count 4 --clock training"
    held_for = f"--mode {options.mode} --copy {float(options.copy):.17g}s --commit {float(options.commit):.17g}s"
    return (f"meshwright checkpoint timeline {words} {held_for}",)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalPoint:
    """A job and its saves: the best interval (first order), and the overhead (first order) at the interval it has."""

    devices: float
    save_s: float
    job_mtbf_s: float
    best_interval_s: float
    overhead_fraction: float


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalChange:
    """A job before and after a change. best_interval_ratio: after over before.   overhead_added: after less before."""

    before: IntervalPoint
    after: IntervalPoint
    best_interval_ratio: float
    overhead_added: float


def interval_scaling(
    *,
    size_bytes: Bytes,
    write_bytes_per_s: BytesPerSecond,
    devices: int,
    card_mtbf_s: Seconds,
    restart_s: Seconds,
    interval_s: Seconds,
    device_factor: float,
    write_factor: float,
) -> IntervalChange:
    """What becomes of the best interval and of the overhead when a job has more devices, or saves faster.

    Raises what `checkpoint_interval` raises. Source: chapter "Training systems", section 10.4.4.
    """
    points: list[IntervalPoint] = []
    for more, faster in ((1.0, 1.0), (device_factor, write_factor)):
        options = IntervalOptions(
            size=size_bytes,
            write=BytesPerSecond(write_bytes_per_s * faster),
            card_mtbf=Seconds(card_mtbf_s / (devices * more) if more else 0.0),
            restart=restart_s,
            intervals=(interval_s,),
            runs=0,
        )
        case = case_of(options, None)
        check_intervals(options, case)
        row = interval_rows(options, case, interval_s)[0]
        points.append(
            IntervalPoint(
                devices=devices * more,
                save_s=cell(case.write_s, 0),
                job_mtbf_s=cell(1 / case.hardware_failures_per_s, 0),
                best_interval_s=optima(case)[0].interval_s,
                overhead_fraction=row.overhead_fraction,
            )
        )
    before, after = points
    return IntervalChange(
        before=before,
        after=after,
        best_interval_ratio=after.best_interval_s / before.best_interval_s,
        overhead_added=after.overhead_fraction - before.overhead_fraction,
    )
