"""Where does the chosen layout change? A plan's inputs go in; every flip of every parameter comes out.

Many values of a parameter are tried at once: each is a row more of the same column table, with the system's or the
job's number as a column. A flip is a value at which another layout, or none, becomes the choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np

from meshwright.base.numbers import Bools, Floats, Ints
from meshwright.base.parse import get_path, put_path
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
from meshwright.search.flips import RESOLUTION, Goal, Judged, changes
from meshwright.system.system import System

SPAN: Final = 32.0
MOST_LAYOUTS: Final = 2_000
UNSEEN: Final = (
    f"flips that are undone within {RESOLUTION:.1%} of a value (a count below {1 / RESOLUTION:g} hides none)"
)
ALL_REDUCE_TIME: Final = "all-reduce-time"
Nouns: TypeAlias = tuple[System, ServeJob, ServeOptions]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter to vary, from `low` to `high`. name: a `--set` path of the system, or a flag.   whole: a count.

    moves: what must be computed again, `service` (times), `held` (bytes) and `room` (for them); the rest is the plan's.
    """

    name: str
    unit: str
    low: float
    high: float
    moves: frozenset[str]
    whole: bool

    def put(self, nouns: Nouns, values: Floats) -> Nouns:
        """The nouns with the parameter as a column of values."""
        system, job, options = nouns
        noun, dot, path = self.name.partition(".")
        column: Any = values.astype(np.int64) if self.whole else values
        if dot:
            return put_path(system, path, column), job, options
        if noun == ALL_REDUCE_TIME:
            return system, job, replace(options, all_reduce_time=column)
        return system, put_path(job, noun, column), options


def flips(
    model: Model, system: System, job: ServeJob, options: ServeOptions, table: ServingTable
) -> tuple[Mapping[str, Any], ...]:
    """Every flip within a factor `SPAN` of each parameter's present value; none beyond `MOST_LAYOUTS` valid layouts."""

    def judge(parameter: Parameter, values: Floats, rows: Ints) -> Judged:
        blocks = table.layouts.take(rows)
        on, asked, chosen = parameter.put((system, job, options), values)
        held = held_bytes(model, asked, options, blocks) if "held" in parameter.moves else table.ledger.total[rows]
        service = table.service_s[rows]
        if "service" in parameter.moves:
            service = service_s(model, on, asked, chosen, blocks)
        found = outcome(on, asked, blocks, service, held, table.devices)
        last = Goal(value=found.last_finish_s, over=found.last_finish_s, under=1)
        cost = Goal(value=found.cost_per_on_time_gpu_s, over=found.cost_gpu_s, under=found.on_time_count)
        return Judged(eligible=found.eligible, goals=(cost if options.objective == "cost" else last, last))

    parameters = possible(_parameters(system, job, options, table))
    return every_flip(parameters, table.layouts, table.rows, table.valid, judge)


def every_flip(  # noqa: PLR0917 - what varies, among what, and who judges
    parameters: Sequence[Parameter],
    layouts: Layouts,
    known: Sequence[Layout],
    valid: Bools,
    judge: Callable[[Parameter, Floats, Ints], Judged],
    most: int = MOST_LAYOUTS,
) -> tuple[Mapping[str, Any], ...]:
    """Every flip of every parameter among the valid rows of a table (`known`: its rows, one by one).

    judge: a parameter, and values and rows of the table, one row a value, to what decides.   None beyond `most` rows.
    """
    rows = np.flatnonzero(valid)
    if not 0 < len(rows) <= most:
        return ()
    ids = [known[row].id for row in rows.tolist()]
    rank = np.argsort(np.lexsort((np.array(ids, dtype=object).argsort().argsort(), layouts.degree("ep")[rows])))
    names: list[str | None] = [*ids, None]
    return tuple(
        {
            "parameter": parameter.name,
            "value": int(change.value) if parameter.whole else change.value,
            "unit": parameter.unit,
            "from": names[change.before],
            "to": names[change.after],
        }
        for parameter in parameters
        for change in changes(
            lambda values, places, own=parameter: judge(own, values, rows[places]),
            rank,
            parameter.low,
            parameter.high,
            whole=parameter.whole,
        )
    )


def _parameters(system: System, job: ServeJob, options: ServeOptions, table: ServingTable) -> list[Parameter]:
    """What may be varied here: the job's numbers, and those of the hardware."""
    found = [
        count_of("sessions", job.sessions, MOST_SESSIONS, "held"),
        count_of("context", max(job.context, 1), MOST_TOKENS - job.new_tokens, "held", "service"),
        *of_hardware(system, options, table.first, table.valid),
    ]
    if job.deadline is not None:
        found.insert(0, number_of("deadline", "s", job.deadline))
    return found


def possible(parameters: Sequence[Parameter]) -> list[Parameter]:
    """Those that have any values to try."""
    return [item for item in parameters if 0 < item.low < item.high]


def of_hardware(system: System, options: ServeOptions, step: Step, valid: Bools) -> list[Parameter]:
    """The accelerator's memory, the links that some group uses, and the time of one all_reduce (the median of now)."""
    paths = [("accelerator.memory_bandwidth", "B/s"), ("scale_up.latency", "s"), ("scale_up.bandwidth", "B/s")]
    if system.scale_out is not None and system.nodes > 1:
        paths += [("scale_out.latency", "s"), ("scale_out.bandwidth", "B/s")]
    found = [number_of(f"system.{path}", unit, get_path(system, path), "service") for path, unit in paths]
    memory = number_of("system.accelerator.memory", "B", system.accelerator.memory, "room")
    found.insert(1, replace(memory, low=np.ceil(memory.low), whole=True))
    now = options.all_reduce_time
    if now is None:
        present = [item.seconds[valid] for message, item in step.exchanges if message.operation == "all_reduce"]
        times = np.concatenate(present) if present else np.zeros(0)
        times = times[np.isfinite(times) & (times > 0)]
        now = np.median(times) if len(times) else 0.0
    return [*found, number_of(ALL_REDUCE_TIME, "s", now, "service")]


def count_of(name: str, now: int, most: int, *moves: str) -> Parameter:
    """A whole number of the job, and what it moves."""
    low, high = max(1.0, now // SPAN), min(float(most), now * SPAN)
    return Parameter(name=name, unit="", low=low, high=high, moves=frozenset(moves), whole=True)


def number_of(name: str, unit: str, now: Any, *moves: str) -> Parameter:
    """A number in SI, and what it moves."""
    low, high = float(now) / SPAN, float(now) * SPAN
    return Parameter(name=name, unit=unit, low=low, high=high, moves=frozenset(moves), whole=False)
