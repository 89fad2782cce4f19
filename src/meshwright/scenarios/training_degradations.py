"""A plan and named changes for the worse go in; every combination of them comes out, with what mending each saves.

The layout stays that of the plan without them: what degrades is a run that has begun.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

from meshwright.base.errors import JobError
from meshwright.base.parse import set_path
from meshwright.job.train import TrainJob
from meshwright.model.model import Model
from meshwright.scenarios._training_options import TrainOptions
from meshwright.scenarios.training import plan_train
from meshwright.system.system import System, checked_system

if TYPE_CHECKING:
    from meshwright.base.result import Result

_MOST: Final = 6
_APART: Final = frozenset({"replicas", "attention"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Degraded:
    """One combination. changes: which apply, joined by +, or `none`.   mending_saves_s: of a step, by change.

    left_s: from the finish to the deadline; None without one.
    """

    changes: str
    step_s: float
    exposed_comm_s: float
    straggler_s: float
    finish_s: float
    left_s: float | None
    on_time: bool
    mending_saves_s: Mapping[str, float]


def training_degradations(
    model: Model, system: System, job: TrainJob, options: TrainOptions, changes: dict[str, str]
) -> tuple[Degraded, ...]:
    """Every combination of the changes, fewest first, on the best layout without any.

    changes: by name `PATH=VALUE` of the system or of an option: `system.scale_up.bandwidth=16 GB/s`,
    `options.prefetch=off`. Raises JOB028 (a change that is none, or too many), what `--set` raises, and the codes of
    `plan_train`. Source: chapter "Training systems", sections 10.6.2 and 10.6.3.
    """
    if not 1 <= len(changes) <= _MOST:
        raise JobError(28, f"{len(changes)} changes, and all their combinations", f"give 1 to {_MOST} of them")
    first = plan_train(model, system, job, options)
    if first.best is None:
        raise JobError(29, f"nothing to degrade: {first.verdict.text}", "give a system that holds the model")
    kept = {name: value for name, value in first.best.layout.items() if name not in _APART and value is not None}
    if kept["pp"] == 1:
        kept = {name: value for name, value in kept.items() if name not in {"schedule", "virtual_stages"}}
    fixed = replace(options, layout=kept)
    found: dict[frozenset[str], Result] = {frozenset(): first}
    for count in range(1, len(changes) + 1):
        for names in combinations(changes, count):
            on, told = system, fixed
            for name in names:
                on, told = _changed(on, told, name, changes[name])
            found[frozenset(names)] = plan_train(model, on, job, told)
    return tuple(_row(names, found) for names in found)


def _changed(system: System, options: TrainOptions, name: str, change: str) -> tuple[System, TrainOptions]:
    """The nouns with one change."""
    path, equals, value = change.partition("=")
    noun, _, rest = path.strip().partition(".")
    if not equals or not rest or noun not in {"system", "options"}:
        cause = f"change {name!r}: {change!r} is no field of the system or of the options"
        raise JobError(28, cause, "write as in options.prefetch=off or system.scale_up.bandwidth=16 GB/s")
    if noun == "options":
        return system, set_path(options, rest, value.strip())
    return checked_system(set_path(system, rest, value.strip()), name), options


def _row(names: frozenset[str], found: Mapping[frozenset[str], Result]) -> Degraded:
    measures = _measures(found[names])
    step = measures["step"]
    limits = found[names].body["limits"]
    return Degraded(
        changes=" + ".join(sorted(names)) or "none",
        step_s=step["total_s"],
        exposed_comm_s=step["exposed_comm_s"],
        straggler_s=step["straggler_s"],
        finish_s=measures["finish_s"],
        left_s=None if limits is None else limits["left_s"],
        on_time=found[names].body["systems"][0]["on_time"],
        mending_saves_s={
            name: step["total_s"] - _measures(found[names - {name}])["step"]["total_s"] for name in sorted(names)
        },
    )


def _measures(plan: Result) -> Mapping[str, Any]:
    """Of the one layout; it is told also where a change leaves it too little memory."""
    return (plan.best or plan.candidates[0]).measures
