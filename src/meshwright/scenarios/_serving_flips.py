"""Where does the chosen layout change? A plan's inputs go in; every flip of every parameter comes out.

All values of a parameter are tried at once: each is one more block of rows of the same column table, with the system's
or the job's number as a column. A flip is a value at which another layout, or none, becomes the choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from meshwright.base.numbers import Bools, Floats, Ints
from meshwright.cost.estimate import Step
from meshwright.job.serve import MOST_SESSIONS, MOST_TOKENS, ServeJob
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import Layouts
from meshwright.model.model import Model
from meshwright.scenarios._serving_table import (
    ServeOptions,
    ServingTable,
    held_bytes,
    outcome,
    service_s,
)
from meshwright.search.flips import PARTS, Change, changes, real, whole
from meshwright.system.system import System

SPAN: Final = 32.0
MOST_LAYOUTS: Final = 400
_MOST_ROWS: Final = 5_000
_LEAST_VALUES: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter to vary. name: a `--set` path or a flag.   put: the nouns with it as a column of values.

    moves: what must be computed again, `service` (times), `held` (bytes) and `room` (for them); the rest is the plan's.
    """

    name: str
    unit: str
    now: float
    divide: Callable[[Floats, int], Floats]
    put: Callable[[System, ServeJob, ServeOptions, Any], tuple[System, ServeJob, ServeOptions]]
    low: float
    high: float
    moves: frozenset[str] = frozenset({"service"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judged:
    """Columns by which rows are chosen among: eligible ones, of least first goal, then second."""

    eligible: Bools
    goals: tuple[Any, ...]


def flips(
    model: Model, system: System, job: ServeJob, options: ServeOptions, table: ServingTable
) -> tuple[Mapping[str, Any], ...]:
    """Every flip within a factor `SPAN` of each parameter's present value; none beyond `MOST_LAYOUTS` valid layouts."""
    rows = np.flatnonzero(table.valid)

    def judge(parameter: Parameter, values: Floats, blocks: Layouts) -> Judged:
        on, asked, chosen = parameter.put(system, job, options, values)
        times = len(values) // len(rows)
        held = np.tile(table.ledger.total[rows], times)
        if "held" in parameter.moves:
            held = held_bytes(model, asked, options, blocks)
        service = np.tile(table.service_s[rows], times)
        if "service" in parameter.moves:
            service = service_s(model, on, asked, chosen, blocks)
        found = outcome(on, asked, blocks, service, held, table.devices)
        goal = found.cost_per_on_time_gpu_s if options.objective == "cost" else found.last_finish_s
        return Judged(eligible=found.eligible, goals=(goal, found.last_finish_s))

    return every_flip(_parameters(system, job, options, table), table.layouts, table.rows, rows, judge)


def every_flip(  # noqa: PLR0917 - what varies, among what, and who judges
    parameters: Sequence[Parameter],
    table: Layouts,
    known: Sequence[Layout],
    rows: Ints,
    judge: Callable[[Parameter, Floats, Layouts], Judged],
    most: int = MOST_LAYOUTS,
) -> tuple[Mapping[str, Any], ...]:
    """Every flip of every parameter among some rows of a table (`known`: the same, one by one).

    judge: a parameter, its values and layouts, one row each, to what decides.   None beyond `most` rows.
    """
    if not 0 < len(rows) <= most:
        return ()
    layouts = table.take(rows)
    ids = np.array([known[int(row)].id for row in rows], dtype=object)
    order = np.argsort(np.lexsort((np.argsort(np.argsort(ids)), layouts.degree("ep"))))
    names: list[str | None] = [*ids.tolist(), None]
    count = max(_LEAST_VALUES, _MOST_ROWS // len(rows))
    fewer = min(count, PARTS)  # only counts change the choice many times in one cell

    def found_for(parameter: Parameter) -> tuple[Change, ...]:
        def choose(values: Floats) -> Ints:
            blocks = Layouts(columns={name: np.tile(column, len(values)) for name, column in layouts.columns.items()})
            judged = judge(parameter, np.repeat(values, len(rows)), blocks)
            return _best(judged, np.tile(order, len(values)), len(rows))

        grid = np.geomspace(parameter.low, parameter.high, count)
        whole_grid = parameter.divide is whole
        parts = fewer if parameter.unit else PARTS
        return changes(
            choose, lambda ends: parameter.divide(ends, parts), np.unique(np.round(grid)) if whole_grid else grid
        )

    return tuple(
        {
            "parameter": parameter.name,
            "value": int(change.value) if parameter.divide is whole else change.value,
            "unit": parameter.unit,
            "from": names[change.before],
            "to": names[change.after],
        }
        for parameter in parameters
        for change in found_for(parameter)
    )


def _best(judged: Judged, order: Ints, rows: int) -> Ints:
    """For each block of `rows` the eligible row of least goals, then rank of its name; -1 for none."""
    left = judged.eligible.reshape(-1, rows)
    for score in (*judged.goals, order):
        cells = np.where(left, score.reshape(-1, rows), np.inf)
        left &= cells == cells.min(axis=1, keepdims=True)
    return np.where(left.any(axis=1), left.argmax(axis=1), -1)


def _parameters(system: System, job: ServeJob, options: ServeOptions, table: ServingTable) -> list[Parameter]:
    """What may be varied here: the job's numbers, and those of the hardware."""
    found = [
        of_job("sessions", job.sessions, MOST_SESSIONS, frozenset({"held"})),
        of_job("context", max(job.context, 1), MOST_TOKENS - job.new_tokens, frozenset({"held", "service"})),
        *of_hardware(system, options, table.first, table.valid),
    ]
    if job.deadline is not None:
        found.insert(0, of_bound("deadline", job.deadline))
    return possible(found)


def possible(parameters: Sequence[Parameter]) -> list[Parameter]:
    """Those that have any values to try."""
    return [item for item in parameters if 0 < item.low < item.high]


def of_hardware(system: System, options: ServeOptions, step: Step, valid: Bools) -> list[Parameter]:
    """The accelerator's memory, the links that some group uses, and the time of one all_reduce (the median of now)."""
    found = [
        _of_accelerator(system, "memory_bandwidth", "B/s", real),
        _of_accelerator(system, "memory", "B", whole),
        *(_of_link(system, "scale_up", name, unit) for name, unit in (("latency", "s"), ("bandwidth", "B/s"))),
    ]
    if system.scale_out is not None and system.nodes > 1:
        found += [_of_link(system, "scale_out", name, unit) for name, unit in (("latency", "s"), ("bandwidth", "B/s"))]
    if options.all_reduce_time is not None:
        found.append(_of_exchange(options.all_reduce_time))
    else:
        present = [exchange.seconds[valid] for message, exchange in step.exchanges if not message.boundary]
        times = np.concatenate(present) if present else np.zeros(0)
        times = times[np.isfinite(times) & (times > 0)]
        if len(times):
            found.append(_of_exchange(float(np.median(times))))
    return found


def of_job(name: str, now: int, most: int, moves: frozenset[str]) -> Parameter:
    """A whole number of the job."""
    return Parameter(
        name=name,
        unit="",
        now=now,
        divide=whole,
        put=lambda system, job, options, values: (
            system,
            replace(job, **{name: values.astype(np.int64)}),
            options,
        ),
        low=max(1.0, now // SPAN),
        high=min(float(most), now * SPAN),
        moves=moves,
    )


def of_bound(name: str, now: float) -> Parameter:
    """A bound on a time of the job."""
    return Parameter(
        name=name,
        unit="s",
        now=now,
        divide=real,
        put=lambda system, job, options, values: (system, replace(job, **{name: values}), options),
        low=now / SPAN,
        high=now * SPAN,
        moves=frozenset(),
    )


def _of_exchange(now: float) -> Parameter:
    return Parameter(
        name="all-reduce-time",
        unit="s",
        now=now,
        divide=real,
        put=lambda system, job, options, values: (system, job, replace(options, all_reduce_time=values)),
        low=now / SPAN,
        high=now * SPAN,
    )


def _of_accelerator(system: System, name: str, unit: str, divide: Callable[[Floats, int], Floats]) -> Parameter:
    now = float(getattr(system.accelerator, name))
    return Parameter(
        name=f"system.accelerator.{name}",
        unit=unit,
        now=now,
        divide=divide,
        put=lambda system, job, options, values: (
            replace(system, accelerator=replace(system.accelerator, **{name: values})),
            job,
            options,
        ),
        low=now / SPAN,
        high=now * SPAN,
        moves=frozenset({"room"} if name == "memory" else {"service"}),
    )


def _of_link(system: System, link: str, name: str, unit: str) -> Parameter:
    now = float(getattr(getattr(system, link), name))
    return Parameter(
        name=f"system.{link}.{name}",
        unit=unit,
        now=now,
        divide=real,
        put=lambda system, job, options, values: (
            replace(system, **{link: replace(getattr(system, link), **{name: values})}),
            job,
            options,
        ),
        low=now / SPAN,
        high=now * SPAN,
    )
