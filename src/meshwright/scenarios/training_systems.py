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
from meshwright.scenarios.training import plan_train
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
    `plan_train`. Raises SYS013 (a system named twice), and the codes of `plan_train`. Source: chapter "Training
    systems", section 10.6.3.
    """
    names = [system.id for system in systems]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SystemSpecError(13, f"--on names {twice!r} twice", "name every system once")
    plans = [plan_train(model, system, job, options, progress) for system in systems]
    return plans[0] if len(plans) == 1 else _joined(options, plans)


def _joined(options: TrainOptions, plans: list[Result]) -> Result:
    """One answer of several, in the order of the objective."""
    ranked = sorted(plans, key=lambda plan: _rank(options, plan))
    first = ranked[0]
    candidates = tuple(_of_system(item) for plan in ranked for item in plan.candidates)
    best = None if first.best is None else _of_system(first.best)
    rows = [_row(plan) for plan in plans]
    shared = {name: first.body[name] for name in ("steps", "step_tokens", "save_bytes", "save_s")}
    named = f"'{first.body['systems'][0]['id']}'"
    return replace(
        first,
        next_commands=tuple(command.replace("SYSTEM", named) for command in first.next_commands),
        verdict=_verdict(options, ranked),
        inputs={**first.inputs, "system": {"systems": [plan.inputs["system"] for plan in plans]}},
        best=best,
        candidates=candidates,
        warnings=_each(plans, "warnings"),
        not_modelled=_each(plans, "not_modelled"),
        sources=_each(plans, "sources"),
        body={
            **shared,
            "searched": _all_seen(plans),
            "failures_per_s": first.body["failures_per_s"],
            "binding": first.body["binding"],
            "limits": first.body["limits"],
            "systems": tuple(rows),
        },
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


def _all_seen(plans: list[Result]) -> Seen:
    """What was looked at on all systems."""
    seen: list[Seen] = [plan.body["searched"] for plan in plans]
    return Seen(
        looked_at=sum(item.looked_at for item in seen),
        evaluated=sum(item.evaluated for item in seen),
        fitting=sum(item.fitting for item in seen),
        on_time=sum(item.on_time for item in seen),
        complete=all(item.complete for item in seen),
    )


def _each(plans: list[Result], name: str) -> tuple[Any, ...]:
    """What the plans say, each thing once."""
    return tuple(dict.fromkeys(item for plan in plans for item in getattr(plan, name)))


def _verdict(options: TrainOptions, ranked: list[Result]) -> Verdict:
    """That of the first, and in a few words what becomes of the others."""
    first, *others = ranked
    word = {"date": "ends first", "cost": "costs least", "gpu_hours": "takes the fewest GPU-hours"}[options.objective]
    row = first.body["systems"][0]
    lead = f"{row['id']} {word}" if row["on_time"] else f"{row['id']} comes nearest"
    told = ", ".join(_brief(plan.body["systems"][0]) for plan in others)
    return replace(first.verdict, text=f"{lead}: {first.verdict.text}; {told}")


def _brief(row: dict[str, Any]) -> str:
    if not row["fits"]:
        return f"{row['id']} does not hold it"
    late = "" if row["on_time"] else ", late"
    return f"{row['id']} after {show_seconds(row['finish_s'])}{late}"
