"""Measured rounds go in; the calibration of the machine comes out: every line, and what steps wait beyond them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from meshwright.base.units import Seconds
from meshwright.verify.local.calibration import AT_ONCE, LocalCalibration, Waiting, WaitingRow
from meshwright.verify.local.cases import COLLECTIVES
from meshwright.verify.local.fit import exchange_line, overhead, pair, rate_line
from meshwright.verify.local.spread import spread_of
from meshwright.verify.predict import longer_by, predicted

if TYPE_CHECKING:
    from meshwright.base.units import Bytes
    from meshwright.verify.local.cases import Case, LocalOptions
    from meshwright.verify.local.fit import Sample
    from meshwright.verify.local.measure import Rounds
    from meshwright.verify.local.runs import RealRun

RINGS: Final = {"cpu": 2, "cuda": 1}
"""Of a reduce_scatter: gloo executes it as an all_reduce, which is two; nccl as one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """memory: of a process.   platform: what it is, without its name."""

    memory: Bytes
    platform: str


def assembled(
    options: LocalOptions,
    machine: Machine,
    cases: Sequence[Case],
    runs: Sequence[RealRun],
    rounds: Rounds,
) -> LocalCalibration:
    """All lines. runs: of the probe over all processes; rounds: of all cases, then of these runs."""
    lines: defaultdict[str, list[Sample]] = defaultdict(list)
    for case, measured in zip(cases, rounds[: len(cases)], strict=True):
        lines[case.id].append((case, measured))
    groups = {name: samples[0][0].operation for name, samples in lines.items()}
    rings = RINGS[options.devices]
    works = ("matmul", "attention", "copy", "update")
    found = LocalCalibration(
        platform=machine.platform,
        devices=options.devices,
        processes=options.nproc,
        memory=machine.memory,
        protocol=(
            f"{options.repeats} rounds in one random order of all measurements (seed {options.seed}), a barrier before "
            "each; all processes at once; of each round its slowest process, then medians and quartiles"
        ),
        reduce_scatter_rings=rings,
        exchange=tuple(exchange_line(lines[name], rings) for name, kind in groups.items() if kind in COLLECTIVES),
        rate=tuple(rate_line(lines[name]) for name, kind in groups.items() if kind in works),
        overhead=tuple(overhead(lines[name]) for name, kind in groups.items() if kind == "step"),
        overlap=tuple(pair(*three) for three in _pairs(lines)),
        waiting=AT_ONCE,
    )
    return replace(found, waiting=_waiting(found, runs, rounds[len(cases) :]))


def _pairs(lines: dict[str, list[Sample]]) -> list[tuple[Sample, Sample, Sample]]:
    """Of every message: the exchange alone, the products alone, both."""
    modes = [
        [sample for samples in lines.values() for sample in samples if sample[0].operation == f"overlap {mode}"]
        for mode in ("communication", "computation", "together")
    ]
    return list(zip(*modes, strict=True))


def _waiting(found: LocalCalibration, runs: Sequence[RealRun], rounds: Rounds) -> Waiting:
    """Of each run, what its exchanges must be multiplied by to fill its measured step."""
    rows: list[WaitingRow] = []
    for run, measured in zip(runs, rounds, strict=True):
        told, step = spread_of([item[0] for item in measured]), predicted(found, run)
        rows.append(
            WaitingRow(
                layout=run.layout.id,
                time=Seconds(told.median),
                low=Seconds(told.low),
                high=Seconds(told.high),
                count=told.count,
                predicted=Seconds(step.median_s),
                factor=longer_by(found, run, told.median),
            )
        )
    if not rows:
        return AT_ONCE
    factors = [row.factor for row in rows]
    return Waiting(factor=spread_of(factors).median, low=min(factors), high=max(factors), row=tuple(rows))
