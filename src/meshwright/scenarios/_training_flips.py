"""Where does the chosen layout of a training plan change? A plan's inputs go in; flips and levers come out.

Many values of a parameter are tried at once, each a row more of the table, with the number as a column. A flip is a
value from which on another layout is in time with the earliest end, or none is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.parse import get_path, put_path
from meshwright.base.traced import cell, values
from meshwright.job.train import MOST_TRAINED
from meshwright.scenarios._serving_answers import levers_of
from meshwright.scenarios._training_contenders import MEMORY_SPAN, MOST, joined, ranks
from meshwright.scenarios._training_table import capacity_bytes, ledger_of, rows_of, step_of, table_of, taken
from meshwright.search.flips import Change, Goal, Judged, changes
from meshwright.search.rank import TIE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from meshwright.base.numbers import Floats, Ints
    from meshwright.base.result import Lever
    from meshwright.cost.training import TrainingStep
    from meshwright.cost.training_memory import TrainingLedger
    from meshwright.job.train import TrainJob
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model
    from meshwright.scenarios._training_options import TrainOptions
    from meshwright.scenarios._training_table import Rows
    from meshwright.system.system import System

SPAN: Final = 32.0
RATE_SPAN: Final = 4.0
"""Of what moves the step itself: layouts that are best with links or devices far from these were not kept."""
LEFT_OUT: Final = (
    f"flips to layouts beyond the {MOST} that are best now or in a few what-ifs (memory, computation, links)",
    f"flips beyond a factor {SPAN:g} of a value, {RATE_SPAN:g} of a rate or latency, {MEMORY_SPAN:g} of a rank's bytes",
    "flips of two parameters at once, of the batch and the lengths, or undone within 0.1% of a value",
)
_LEAST_SIGMA: Final = 1e-3
_AT_ONCE: Final = 1e-9
_GRID: Final = 9
_BESIDE: Final = 1e-3
_ROUNDS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter to vary, from `low` to `high`. name: a `--set` path of the system, or a flag.   whole: a count.

    moves: what must be computed again, `step` or `ledger`; dates and bounds always are.
    """

    name: str
    unit: str
    low: float
    high: float
    moves: str
    whole: bool

    def put(
        self, system: System, job: TrainJob, options: TrainOptions, found: Floats
    ) -> tuple[System, TrainJob, TrainOptions]:
        """The nouns with the parameter as a column of values."""
        noun, dot, path = self.name.partition(".")
        column: Any = found.astype(np.int64) if self.whole else found
        if dot:
            return put_path(system, path, column), job, options
        field = noun.replace("-", "_")
        if field in job.__slots__:
            return system, put_path(job, field, column), options
        return system, job, put_path(options, field, column)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judge:
    """A plan's inputs, and a table of layouts by rank, with what does not move with most parameters."""

    model: Model
    system: System
    job: TrainJob
    options: TrainOptions
    layouts: Layouts
    own: Rows
    ledger: TrainingLedger
    step: TrainingStep

    def __call__(self, parameter: Parameter, found: Floats, places: Ints) -> Judged:
        """Rows at values of the parameter, one row a value."""
        rows = self.own.take(places)
        on, asked, chosen = parameter.put(self.system, self.job, self.options, found)
        held = ledger_of(chosen, rows) if parameter.moves == "ledger" else taken(self.ledger, places)
        moved = parameter.moves == "step"
        took = step_of(self.model, on, asked, chosen, rows) if moved else taken(self.step, places)
        table = table_of(on, asked, chosen, rows, held, took)
        goal = Goal(value=values(table.finish_s), over=values(table.finish_s), under=1)
        return Judged(eligible=table.fits & table.on_time, goals=(goal, goal))

    def changes(self, parameter: Parameter) -> list[Change]:
        """Where another of the rows is chosen."""
        found = changes(
            lambda tried, places: self(parameter, tried, places),
            np.arange(len(self.layouts)),
            parameter.low,
            parameter.high,
            whole=parameter.whole,
        )
        return _joined(found)

    def chosen(self, parameter: Parameter, tried: Floats) -> set[int]:
        """The rows that are chosen at some of the values."""
        count = len(self.layouts)
        judged = self(parameter, np.repeat(tried, count), np.tile(np.arange(count), len(tried)))
        ends = np.where(judged.eligible, judged.goals[0].value, np.inf).reshape(len(tried), count)
        least = ends.min(axis=1, keepdims=True)
        found = (ends <= least * (1 + TIE)).argmax(axis=1)
        return set(found[np.isfinite(least[:, 0])].tolist())


def training_flips(  # noqa: PLR0917 - the nouns, and the layouts
    model: Model, system: System, job: TrainJob, options: TrainOptions, layouts: Layouts, near: Layouts
) -> tuple[Mapping[str, Any], ...]:
    """Every flip among these layouts, within a factor `SPAN` of each parameter's present value.

    near: those of them, and more, that are asked whether one is chosen beside a flip or at a few other values; it is
    taken in, and flips are looked for again.
    """
    if not len(layouts):
        return ()

    def judge_of(rows: Layouts) -> _Judge:
        rows = rows.take(ranks(rows))
        own = rows_of(model, system, job, options, rows)
        ledger, step = ledger_of(options, own), step_of(model, system, job, options, own)
        return _Judge(
            model=model, system=system, job=job, options=options, layouts=rows, own=own, ledger=ledger, step=step
        )

    every = judge_of(near)
    judge = judge_of(layouts)
    return tuple(
        {
            "parameter": parameter.name,
            "value": int(change.value) if parameter.whole else change.value,
            "unit": parameter.unit,
            "from": before,
            "to": after,
        }
        for parameter in _parameters(system, job, options)
        for change, before, after in _told(parameter, judge, every, judge_of)
    )


def _told(
    parameter: Parameter, judge: _Judge, every: _Judge, judge_of: Callable[[Layouts], _Judge]
) -> list[tuple[Change, str | None, str | None]]:
    """The changes of one parameter with the layouts' ids, none missed that `every` row knows of beside them."""
    found = judge.changes(parameter)
    tried = np.geomspace(parameter.low, parameter.high, _GRID)
    for _ in range(_ROUNDS if parameter.moves == "step" else 0):
        known = {layout.id for layout in judge.layouts.rows()}
        ids = every.layouts.rows()
        beside = [change.value * side for change in found for side in (1 - _BESIDE, 1 + _BESIDE)]
        between = [(one.value + other.value) / 2 for one, other in pairwise(found)]
        chosen = every.chosen(parameter, np.clip([*tried, *beside, *between], parameter.low, parameter.high))
        missed = [row for row in sorted(chosen) if ids[row].id not in known]
        if not missed:
            break
        judge = judge_of(joined([judge.layouts, every.layouts.take(np.array(missed))]))
        found = judge.changes(parameter)
        tried = tried[:0]
    names = [*(layout.id for layout in judge.layouts.rows()), None]
    return [(change, names[change.before], names[change.after]) for change in found]


def _joined(found: tuple[Change, ...]) -> list[Change]:
    """Changes that are as good as at one value, where two goals are equal but for rounding, as one; none if undone."""
    joined: list[Change] = []
    for change in found:
        if joined and change.value <= joined[-1].value * (1 + _AT_ONCE):
            joined[-1] = replace(joined[-1], after=change.after)
        else:
            joined.append(change)
    return [change for change in joined if change.before != change.after]


def training_levers(
    model: Model, system: System, job: TrainJob, options: TrainOptions, layouts: Layouts
) -> tuple[Lever, ...]:
    """What doubling or halving each hardware parameter saves of the step of one layout (a table of one row)."""
    rows = rows_of(model, system, job, options, layouts)
    ledger = ledger_of(options, rows)

    def seconds_on(other: System) -> Any:
        step = step_of(model, other, job, options, rows)
        return cell(table_of(other, job, options, rows, ledger, step).step_s, 0)

    return levers_of(system, [_rate_of(system, job)], seconds_on, seconds_on(system))


def _rate_of(system: System, job: TrainJob) -> str:
    return system.accelerator.peak_for(job.recipe.rates)[0]


def _parameters(system: System, job: TrainJob, options: TrainOptions) -> list[Parameter]:
    """What may be varied here, in the order that it is listed: bounds and job, assumptions, hardware."""
    found = [_number("deadline", "s", job.deadline), _count("tokens", "", job.tokens, MOST_TRAINED)]
    found += _of_memory(system, options)
    for name, unit in (("storage_write", "B/s"), ("card_mtbf", "s"), ("job_mtbf", "s"), ("input_wait", "s")):
        found.append(_number(name.replace("_", "-"), unit, getattr(options, name)))
    sigma = _number("straggler-sigma", "", options.straggler_sigma or 1 / SPAN)
    found.append(replace(sigma, low=_LEAST_SIGMA, high=1.0))
    efficiency = _number("efficiency", "", options.efficiency, "step")
    found.append(replace(efficiency, high=min(efficiency.high, 1.0)))
    found += [_number(f"system.{path}", unit, get_path(system, path), "step") for path, unit in _paths(system, options)]
    rate = f"accelerator.peak.{_rate_of(system, job)}"
    found.append(_number(f"system.{rate}", "FLOP/s", get_path(system, rate), "step"))
    return [item for item in found if 0 < item.low < item.high]


def _of_memory(system: System, options: TrainOptions) -> list[Parameter]:
    """What a rank may hold, and what is set aside of it, as far as contenders are known for it."""
    now = int(capacity_bytes(system, options))
    bound = "system.accelerator.memory" if options.usable_memory is None else "usable-memory"
    apart = "workspace" if options.activation_budget is None else "activation-budget"
    held = int(getattr(options, apart.replace("-", "_")))
    less, more = now - now / MEMORY_SPAN, now * MEMORY_SPAN - now
    room = _count(bound, "B", now)
    kept = _count(apart, "B", held, moves="ledger")
    return [
        replace(room, low=np.ceil(now / MEMORY_SPAN), high=np.floor(now * MEMORY_SPAN)),
        replace(kept, low=max(kept.low, np.ceil(held - more)), high=min(kept.high, np.floor(held + less))),
    ]


def _paths(system: System, options: TrainOptions) -> list[tuple[str, str]]:
    """The memory where a step reads it, and the links that there are."""
    charged = options.assumptions.recompute_charged
    paths = [("accelerator.memory_bandwidth", "B/s")] if charged else []
    paths += [("scale_up.latency", "s"), ("scale_up.bandwidth", "B/s")]
    if system.scale_out is not None and system.nodes > 1:
        paths += [("scale_out.latency", "s"), ("scale_out.bandwidth", "B/s")]
    return paths


def _number(name: str, unit: str, now: Any, moves: str = "") -> Parameter:
    """A number in SI; of None or zero there is nothing to vary."""
    present, span = float(now or 0.0), RATE_SPAN if moves else SPAN
    return Parameter(name=name, unit=unit, low=present / span, high=present * span, moves=moves, whole=False)


def _count(name: str, unit: str, now: int, most: int = 2**60, moves: str = "") -> Parameter:
    """A whole number."""
    low, high = np.ceil(now / SPAN), min(float(most), now * SPAN)
    return Parameter(name=name, unit=unit, low=float(low), high=high, moves=moves, whole=True)
