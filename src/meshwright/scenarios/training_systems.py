"""Several systems and one training job go in; a plan on each, side by side, and the one to take come out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from meshwright.base.errors import SystemSpecError
from meshwright.base.result import Result, Verdict
from meshwright.base.units import show_seconds
from meshwright.job.train import TrainJob
from meshwright.model.model import Model
from meshwright.scenarios._training_options import TrainObjective, TrainOptions
from meshwright.scenarios._training_search import Progress, Seen
from meshwright.scenarios.training import NO_FLIPS, NOT_SIMULATED, plan_train
from meshwright.system.system import System

if TYPE_CHECKING:
    from meshwright.base.result import Candidate

_GOALS: dict[TrainObjective, str] = {"date": "finish_s", "cost": "cost", "gpu_hours": "gpu_hours"}


def plan_train_systems(
    model: Model,
    systems: tuple[System, ...],
    job: TrainJob,
    options: TrainOptions,
    progress: Progress | None = None,
) -> Result:
    """The plan on each system; the best is the one in time with the least of the objective, or that ends first.

    Candidates of all systems stand together, `system` says whose each is, and ids begin with it. Of one system it is
    `plan_train`. An interrupt ends the search of all: systems after it are told as not searched. Raises SYS013 (a
    system named twice), and the codes of `plan_train`. Source: chapter "Training systems", section 10.6.3.
    """
    own = [replace(system, id="") for system in systems]  # an id is as it was typed
    twice = next((system.id for system, one in zip(systems, own, strict=True) if own.count(one) > 1), None)
    if twice is not None:
        raise SystemSpecError(13, f"--on names {twice!r} twice", "name every system once")
    plans: list[Result] = []
    for system in systems:
        try:
            plans.append(plan_train(model, system, job, options, progress))
        except KeyboardInterrupt:
            if not plans:
                raise
            break
        if not plans[-1].body["searched"].complete or {NO_FLIPS, NOT_SIMULATED} & set(plans[-1].warnings):
            break
    left = tuple(system.id for system in systems[len(plans) :])
    return plans[0] if len(systems) == 1 else _joined(options, plans, left)


def _joined(options: TrainOptions, plans: list[Result], left: tuple[str, ...]) -> Result:
    """One answer of several, in the order of the objective. left: systems that an interrupt left out."""
    ranked = sorted(plans, key=lambda plan: _rank(options, plan))
    first = ranked[0]
    candidates = tuple(_of_system(item) for plan in ranked for item in plan.candidates)
    best = None if first.best is None else _of_system(first.best)
    rows = [_row(plan) for plan in plans]
    named = f"'{first.body['systems'][0]['id']}'"
    return replace(
        first,
        next_commands=tuple(command.replace("SYSTEM", named) for command in first.next_commands),
        verdict=_verdict(options, ranked, left),
        inputs={**first.inputs, "system": {"systems": [plan.inputs["system"] for plan in plans]}},
        best=best,
        candidates=candidates,
        warnings=(*_each(plans, "warnings"), *(f"interrupted: {name} is not searched" for name in left)),
        not_modelled=_each(plans, "not_modelled"),
        sources=_each(plans, "sources"),
        body={**first.body, "searched": _all_seen(plans, left), "systems": tuple(rows)},
    )


def _rank(options: TrainOptions, plan: Result) -> tuple[int, float]:
    """In time, late, or too large; then the objective, or for a late one the date."""
    row = plan.body["systems"][0]
    if not row["fits"]:
        return (2, float(plan.candidates[0].memory["per_rank_bytes"]))
    if not row["on_time"]:
        return (1, row["finish_s"])
    return (0, row[_GOALS[options.objective]])


def _of_system(item: Candidate) -> Candidate:
    """A candidate whose id says whose it is."""
    return replace(item, id=f"{item.measures['system']}: {item.id}")


def _row(plan: Result) -> dict[str, Any]:
    row = plan.body["systems"][0]
    return {**row, "best": None if row["best"] is None else f"{row['id']}: {row['best']}"}


def _all_seen(plans: list[Result], left: tuple[str, ...]) -> Seen:
    """What was looked at on all systems."""
    seen: list[Seen] = [plan.body["searched"] for plan in plans]
    return Seen(
        looked_at=sum(item.looked_at for item in seen),
        evaluated=sum(item.evaluated for item in seen),
        fitting=sum(item.fitting for item in seen),
        on_time=sum(item.on_time for item in seen),
        complete=not left and all(item.complete for item in seen),
    )


def _each(plans: list[Result], name: str) -> tuple[Any, ...]:
    """What the plans say, each thing once."""
    return tuple(dict.fromkeys(item for plan in plans for item in getattr(plan, name)))


def _verdict(options: TrainOptions, ranked: list[Result], left: tuple[str, ...]) -> Verdict:
    """That of the first, and in a few words what becomes of the others."""
    first, *others = ranked
    word = {"date": "ends first", "cost": "costs least", "gpu_hours": "takes the fewest GPU-hours"}[options.objective]
    row = first.body["systems"][0]
    lead = f"{row['id']} {word}" if row["on_time"] else f"{row['id']} comes nearest"
    told = ", ".join(
        [*(_brief(plan.body["systems"][0]) for plan in others), *(f"{name} not searched" for name in left)]
    )
    known = first.verdict.answer == "yes" or not left
    return Verdict(answer=first.verdict.answer if known else "unknown", text=f"{lead}: {first.verdict.text}; {told}")


def _brief(row: dict[str, Any]) -> str:
    if not row["fits"]:
        return f"{row['id']} does not hold it"
    late = "" if row["on_time"] else ", late"
    return f"{row['id']} after {show_seconds(row['finish_s'])}{late}"
