"""What can this machine do? Its processes measure it; every figure with its spread comes out, and a calibration.

Where a layout is to be checked, its real steps run among the measurements, in the same random order, and must lie in
the interval that the calibration states for them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch

from meshwright.base.result import Basis, Result, Verdict
from meshwright.base.units import Bytes, show_rate, show_seconds
from meshwright.scenarios.overlap import Interference, interference
from meshwright.verify.local.assemble import Machine, assembled
from meshwright.verify.local.cases import MIB, cases_of, checked_local
from meshwright.verify.local.measure import measured
from meshwright.verify.local.runs import checked_run
from meshwright.verify.local.spread import spread_of
from meshwright.verify.local.waits import probe_runs
from meshwright.verify.predict import NOT_MODELLED, check_layout, predicted

if TYPE_CHECKING:
    from meshwright.verify.local.calibration import ExchangeLine, LocalCalibration, Overhead, Pair, RateLine, Waiting
    from meshwright.verify.local.cases import LocalOptions
    from meshwright.verify.local.runs import RealRun

_LEFT_OUT: Final = (
    "other load of the machine, beyond what it was while this ran: it is in every figure and in its spread",
    "reduce_scatter on gloo is executed as an all_reduce there, and charged so: two rings instead of one",
    "overlap of other sizes than those measured: nothing is interpolated",
)
_BASIS: Final = {
    "rows[]": f"{Basis.CALIBRATED.value}: fitted to medians, low and high from the quartiles of all rounds",
    "sizes[]": f"{Basis.MEASURED.value}: medians and quartiles",
    "overlaps[]": f"{Basis.MEASURED.value}: medians and quartiles",
    "steps[].time_s": Basis.MEASURED.value,
    "steps[].predicted_s": Basis.CALIBRATED.value,
    "checks[].time_s": Basis.MEASURED.value,
    "checks[].predicted_s": f"{Basis.CALIBRATED.value}: the estimator of plan train, at medians and at quartiles",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureRow:
    """One fitted figure. of: what ran.   low, high: for times and rates alike, the lesser and the larger value."""

    id: str
    figure: str
    of: str
    format: str
    ranks: int
    unit: str
    value: float
    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeRow:
    """One measured size. unit: of the amount."""

    id: str
    of: str
    format: str
    ranks: int
    amount: float
    unit: str
    time_s: float
    low_s: float
    high_s: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapRow(Interference):
    """An all_reduce beside matrix products. hidden_share is the overlap efficiency; low and high are quartiles."""

    id: str
    message_bytes: int
    ranks: int
    communication_alone_low_s: float
    communication_alone_high_s: float
    computation_alone_low_s: float
    computation_alone_high_s: float
    communication_together_low_s: float
    communication_together_high_s: float
    computation_together_low_s: float
    computation_together_high_s: float
    finish_low_s: float
    finish_high_s: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """A real step of the probe. factor: by which its exchanges are longer than by themselves."""

    id: str
    time_s: float
    low_s: float
    high_s: float
    count: int
    predicted_s: float
    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    """A real step that was asked about. time_s, low_s, high_s: measured; predicted_*: the stated interval."""

    id: str
    model: str
    time_s: float
    low_s: float
    high_s: float
    count: int
    predicted_s: float
    predicted_low_s: float
    predicted_high_s: float
    compute_s: float
    exchange_s: float
    bubble_s: float
    update_s: float
    overhead_s: float
    small_s: float
    inside: bool


def calibrate_local(options: LocalOptions, runs: Sequence[RealRun] = ()) -> tuple[Result, LocalCalibration]:
    """Measure, fit, and check `runs`. yes: every real step lies in its interval, or none was asked about.

    Raises RUN002, RUN010, RUN011 and RUN031 (processes), RUN035 and RUN036 (a run that this calibration says nothing
    of) and the codes of layouts and schedules. Source: chapter "Supernodes", sections 6.4.2 and 6.4.3.
    """
    options = checked_local(options)
    for run in runs:
        check_layout(run.layout, options.nproc, options.sizes)
        checked_run(run)
    cases, probes = cases_of(options), probe_runs(options.nproc, options.sizes)
    rounds = measured(options, cases, [*probes, *runs])
    many = len(cases) + len(probes)
    found = assembled(options, _machine(options), cases, probes, rounds[:many])
    checks = tuple(_check(found, run, own) for run, own in zip(runs, rounds[many:], strict=True))
    return _result(options, found, runs, checks), found


def _machine(options: LocalOptions) -> Machine:
    """What is measured, without its name."""
    version = f"torch {torch.__version__}"
    if options.devices == "cuda":
        device = torch.cuda.get_device_properties(0)
        text = f"{options.nproc} x {device.name}, {version}, nccl"
        return Machine(memory=Bytes(int(device.total_memory)), platform=text)
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cores = os.cpu_count() or 1
    text = f"{options.nproc} CPU processes of one thread on {cores} cores, {version}, gloo"
    return Machine(memory=Bytes(whole // options.nproc), platform=text)


def _check(found: LocalCalibration, run: RealRun, rounds: list[tuple[float, ...]]) -> CheckRow:
    told, step = spread_of([item[0] for item in rounds]), predicted(found, run)
    return CheckRow(
        id=run.layout.id,
        model=run.model.name,
        time_s=told.median,
        low_s=told.low,
        high_s=told.high,
        count=told.count,
        predicted_s=step.median_s,
        predicted_low_s=step.low_s,
        predicted_high_s=step.high_s,
        compute_s=step.compute_s,
        exchange_s=step.exchange_s,
        bubble_s=step.bubble_s,
        update_s=step.update_s,
        overhead_s=step.overhead_s,
        small_s=step.small_s,
        inside=step.low_s <= told.median <= step.high_s,
    )


def _result(
    options: LocalOptions, found: LocalCalibration, runs: Sequence[RealRun], checks: tuple[CheckRow, ...]
) -> Result:
    given: dict[str, Any] = {name: getattr(options, name) for name in type(options).__dataclass_fields__}
    asked = [{"model": run.model.name, "layout": run.layout, "batch": run.batch} for run in runs]
    return Result(
        command="calibrate local",
        verdict=_verdict(found, checks),
        inputs={
            "model": None,
            "system": None,
            "job": None,
            "layout": None,
            "options": {**given, "groups": options.sizes, "checks": asked},
        },
        warnings=_warnings(found, checks),
        notes=(found.protocol,),
        not_modelled=(*_LEFT_OUT, *NOT_MODELLED),
        basis=_BASIS,
        body={
            "platform": found.platform,
            "rows": _figures(found),
            "sizes": _sizes(found),
            "overlaps": tuple(_overlap(item) for item in found.overlap),
            "steps": _steps(found.waiting),
            "checks": checks,
        },
    )


def _verdict(found: LocalCalibration, checks: tuple[CheckRow, ...]) -> Verdict:
    sums = max((item for item in found.exchange if item.operation == "all_reduce"), key=lambda item: item.ranks)
    product = next(item for item in found.rate if item.operation == "matmul")
    text = (
        f"{found.platform}: all_reduce of {sums.ranks} at {show_seconds(sums.alpha)} a round and "
        f"{show_rate(sums.bandwidth)}, {product.rate / 1e9:.3g} GFLOP/s in {product.format}"
    )
    wrong = [item for item in checks if not item.inside]
    if checks:
        text += f"; {len(checks) - len(wrong)} of {len(checks)} real steps are inside their intervals"
    for item in wrong or checks[:1]:
        text += (
            f"; {item.id} takes {show_seconds(item.time_s)} a step, {show_seconds(item.predicted_low_s)} to "
            f"{show_seconds(item.predicted_high_s)} predicted"
        )
    return Verdict(answer="no" if wrong else "yes", text=text)


def _warnings(found: LocalCalibration, checks: tuple[CheckRow, ...]) -> tuple[str, ...]:
    wide = [item for item in (*found.exchange, *found.rate) if item.high > 2 * item.low]
    told: list[str] = []
    if wide:
        names = ", ".join(dict.fromkeys(item.operation for item in wide))
        told.append(f"the upper quartile is more than twice the lower for {names}: is the machine busy?")
    if any(not item.inside for item in checks):
        told.append("a real step outside its interval: the load changed meanwhile, or the model's rows cost more")
    return tuple(told)


def _figures(found: LocalCalibration) -> tuple[FigureRow, ...]:
    rows = [row for line in found.exchange for row in _exchange_rows(line)]
    rows += [row for line in found.rate for row in _rate_rows(line)]
    rows += [row for item in found.overhead for row in _overhead_rows(item, found.processes)]
    told = found.waiting
    if told.row:
        rows.append(
            FigureRow(
                id="waiting",
                figure="factor",
                of="exchanges in a step",
                format="",
                ranks=found.processes,
                unit="",
                value=told.factor,
                low=told.low,
                high=told.high,
                count=len(told.row),
            )
        )
    return tuple(rows)


def _exchange_rows(line: ExchangeLine) -> tuple[FigureRow, ...]:
    common = {"of": line.operation, "format": "fp32", "ranks": line.ranks, "count": line.count}
    return _start_and_rate(
        f"{line.operation} x{line.ranks}", common, line, (line.alpha, line.bandwidth), "B/s", "alpha"
    )


def _rate_rows(line: RateLine) -> tuple[FigureRow, ...]:
    common = {"of": line.operation, "format": line.format, "ranks": 1, "count": line.count}
    given = (line.launch, line.rate)
    return _start_and_rate(f"{line.operation} {line.format}", common, line, given, f"{line.unit}/s", "launch")


def _start_and_rate(  # noqa: PLR0917 - what a row is made of
    name: str,
    common: dict[str, Any],
    line: ExchangeLine | RateLine,
    given: tuple[float, float],
    unit: str,
    start: str,
) -> tuple[FigureRow, ...]:
    """Both figures of a line; a rate is low where times are high."""
    time, rate = given
    low, high = rate / line.high, rate / line.low
    return (
        FigureRow(
            id=f"{name} {start}",
            figure=start,
            unit="s",
            value=time,
            low=time * line.low,
            high=time * line.high,
            **common,
        ),
        FigureRow(id=f"{name} rate", figure="rate", unit=unit, value=rate, low=low, high=high, **common),
    )


def _overhead_rows(item: Overhead, processes: int) -> list[FigureRow]:
    return [
        FigureRow(
            id=f"step {item.kind} {name}",
            figure=name,
            of="a step beside its products",
            format=item.kind,
            ranks=processes,
            unit="s",
            value=getattr(item, name),
            low=getattr(item, name) * item.low,
            high=getattr(item, name) * item.high,
            count=item.count,
        )
        for name in ("step", "layer", "slot", "block")
    ]


def _sizes(found: LocalCalibration) -> tuple[SizeRow, ...]:
    lines: list[tuple[ExchangeLine | RateLine, str, str, int]] = [
        (line, "B", "fp32", line.ranks) for line in found.exchange
    ]
    lines += [(line, line.unit, line.format, 1) for line in found.rate]
    return tuple(
        SizeRow(
            id=f"{line.operation} {form} x{ranks} {row.amount:.0f}",
            of=line.operation,
            format=form,
            ranks=ranks,
            amount=row.amount,
            unit=unit,
            time_s=row.time,
            low_s=row.low,
            high_s=row.high,
            count=row.count,
        )
        for line, unit, form, ranks in lines
        for row in line.row
    )


def _overlap(item: Pair) -> OverlapRow:
    names = ("communication_alone", "computation_alone", "communication_together", "computation_together", "finish")
    figures = {name: getattr(item, name) for name in names}
    told = interference(**{f"{name}_s": figure.median for name, figure in figures.items()})
    quartiles = {f"{name}_{end}_s": getattr(figures[name], end) for name in names for end in ("low", "high")}
    return OverlapRow(
        id=f"{item.message / MIB:g} MiB",
        message_bytes=item.message,
        ranks=item.ranks,
        count=item.count,
        **quartiles,
        **{name: getattr(told, name) for name in Interference.__dataclass_fields__},
    )


def _steps(told: Waiting) -> tuple[StepRow, ...]:
    return tuple(
        StepRow(
            id=row.layout,
            time_s=row.time,
            low_s=row.low,
            high_s=row.high,
            count=row.count,
            predicted_s=row.predicted,
            factor=row.factor,
        )
        for row in told.row
    )
