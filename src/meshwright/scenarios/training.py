"""These tokens, on these devices, by this date? The four nouns go in; the best layouts and the date of each come out.

Steps: enumerate every layout of all devices; memory and time of each; rank; judge the date with saves, failures and
planned stops; say what limits the step and what would save a plan that is late.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final

from meshwright.base.errors import LayoutError
from meshwright.base.result import Basis, Candidate, Result, Verdict
from meshwright.base.units import show_bytes, show_seconds
from meshwright.cost.training import NOT_MODELLED
from meshwright.job.train import checked_training, step_tokens, steps_of
from meshwright.layout.axes import PIPELINE_OUTSIDE
from meshwright.layout.layouts import table as layouts_of
from meshwright.scenarios._shared import position_warning, sources_of, stated_model, stated_system
from meshwright.scenarios._training_contenders import Shortlist
from meshwright.scenarios._training_flips import LEFT_OUT as FLIPS_LEFT_OUT
from meshwright.scenarios._training_flips import training_flips, training_levers
from meshwright.scenarios._training_options import TrainOptions, checked_options
from meshwright.scenarios._training_rows import training_candidates
from meshwright.scenarios._training_search import Seen, search_training
from meshwright.scenarios._training_space import training_space
from meshwright.scenarios._training_table import capacity_bytes, failures_per_s, save_bytes, save_s, training_table
from meshwright.workload import training_messages

if TYPE_CHECKING:
    from meshwright.job.train import TrainJob
    from meshwright.layout.layout import Layout
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model
    from meshwright.scenarios._training_search import Progress
    from meshwright.scenarios._training_table import TrainingTable
    from meshwright.system.system import System

LEFT_OUT: Final = (
    "shared storage: a save writes at its own rate, and training stands meanwhile",
    "a batch that grows during training; evaluation beside planned stops",
)


def plan_train(
    model: Model, system: System, job: TrainJob, options: TrainOptions, progress: Progress | None = None
) -> Result:
    """The plan on one system.

    Raises JOB001, JOB002, JOB020 (job), JOB021 (options), LAY002, LAY012 (space) and the codes of rules and schedules
    where the layout that was asked for breaks one. Source: chapter "Training systems", section 10.6.1.
    """
    job, options = checked_training(job), checked_options(options)
    space = training_space(model, system, job, options.layout)
    shortlist = Shortlist(
        evaluated=lambda layouts: training_table(model, system, job, options, layouts),
        capacity_bytes=capacity_bytes(system, options),
    )
    searched = options.flips == "search"
    table, seen = search_training(model, system, job, options, space, progress, shortlist.add if searched else None)
    result = plan_of(model, system, job, options, table, seen)
    if not searched:
        return result
    flips = training_flips(model, system, job, options, shortlist.with_finalists(table.layouts))
    return replace(result, flips=flips, not_modelled=(*result.not_modelled, *FLIPS_LEFT_OUT))


def plan_of(  # noqa: PLR0917 - the nouns and what was found
    model: Model, system: System, job: TrainJob, options: TrainOptions, table: TrainingTable, seen: Seen
) -> Result:
    """The plan of a table of ranked layouts. Raises LAY032 where it is empty."""
    found = training_candidates(model, system, job, options, table)
    if not found:
        cause = f"no layout of {system.devices} devices takes {job.global_batch} sequences a step"
        raise LayoutError(32, cause, "give a --global-batch that the copies divide, or leave fields out of --layout")
    best = next((item for item in found if item.fits), None)
    return Result(
        command="plan train",
        verdict=_verdict(model, system, job, options, found, best),
        inputs={
            "model": stated_model(model),
            "system": stated_system(system),
            "job": job,
            "layout": options.layout,
            "options": {item.name: getattr(options, item.name) for item in fields(options) if item.name != "layout"},
        },
        defaulted=model.defaulted,
        best=best,
        candidates=found,
        sensitivity=() if best is None else training_levers(model, system, job, options, _row_of(table, found, best)),
        warnings=(*position_warning(model, job.sequence), *_warnings(seen)),
        notes=model.notes,
        not_modelled=(*NOT_MODELLED, *training_messages.NOT_MODELLED, *LEFT_OUT),
        sources=sources_of(model, system),
        basis=_BASIS,
        body=_body(model, system, job, options, seen, best or found[0]),
    )


def _row_of(table: TrainingTable, found: tuple[Candidate, ...], best: Candidate) -> Layouts:
    """The row of the best, as a table of its own."""
    return table.layouts.take([found.index(best)])


def plan_of_layout(model: Model, system: System, job: TrainJob, options: TrainOptions, layout: Layout) -> Result:
    """The plan of one layout, its axes in the order of trainers; nothing is searched. Raises as `plan_train` does."""
    one = replace(layouts_of([layout]), order=PIPELINE_OUTSIDE)
    seen = Seen(looked_at=1, fitting=0, on_time=0, complete=True)
    return plan_of(model, system, job, options, training_table(model, system, job, options, one), seen)


def _body(  # noqa: PLR0917 - the nouns and what was found
    model: Model, system: System, job: TrainJob, options: TrainOptions, seen: Seen, shown: Candidate
) -> dict[str, Any]:
    return {
        "steps": steps_of(job),
        "step_tokens": step_tokens(job.global_batch, job.sequence),
        "searched": seen,
        "save_bytes": save_bytes(model, job),
        "save_s": save_s(model, job, options),
        "failures_per_s": failures_per_s(system, options),
        "limits": None if job.deadline is None else _limits(job, options, shown),
    }


def _limits(job: TrainJob, options: TrainOptions, shown: Candidate) -> dict[str, Any]:
    """What the deadline leaves a step. efficiency: that would be just enough, all else as it is."""
    steps, overhead, step = steps_of(job), shown.measures["overhead_fraction"], shown.measures["step"]
    left = (job.deadline or 0.0) - job.reserve
    limit = left / (steps * (1 + overhead))
    rest = step["total_s"] - step["compute_s"] - step["bubble_s"]
    compute = limit - rest - step["bubble_s"]
    needed = None
    if options.efficiency is not None and compute > 0:
        needed = options.efficiency * step["compute_s"] / compute
    return {
        "step_limit_s": limit,
        "slack_s": limit - step["total_s"],
        "compute_limit_s": compute,
        "most_comm_wait_s": limit - step["total_s"] + step["exposed_comm_s"],
        "efficiency_needed": needed,
        "step_without_overlap_s": step["total_s"] - step["exposed_comm_s"] + _all_comm_s(shown),
    }


def _all_comm_s(shown: Candidate) -> float:
    exposed = shown.measures["exposed"]
    return exposed["layers_s"] + exposed["boundaries_s"] + shown.measures["channel_s"]


def _warnings(seen: Seen) -> tuple[str, ...]:
    if seen.complete:
        return ()
    return (f"interrupted after {seen.looked_at:,} layouts: the best of these, not of all",)


def _verdict(  # noqa: PLR0917 - the nouns and what was found
    model: Model,
    system: System,
    job: TrainJob,
    options: TrainOptions,
    found: tuple[Candidate, ...],
    best: Candidate | None,
) -> Verdict:
    what = f"{job.tokens:,} tokens of {model.name} on {system.name}"
    if best is None:
        held = found[0].memory
        text = f"{what} do not fit: {found[0].id} still needs {show_bytes(held['per_rank_bytes'])} of "
        return Verdict(answer="no", text=f"{text}{show_bytes(held['capacity_bytes'])} a device")
    measures = best.measures
    text = f"{what}: {best.id} ends after {show_seconds(measures['finish_s'])}, "
    text += f"{show_seconds(measures['step']['total_s'])} a step, MFU {measures['mfu']:.1%}"
    if job.deadline is None:
        return Verdict(answer="yes", text=text)
    by = f"the deadline is {show_seconds(job.deadline)}"
    _ = options
    if best.excluded is not None:
        return Verdict(answer="no", text=f"late: {text}; {by}")
    return Verdict(answer="yes", text=f"in time: {text}; {by}")


_BASIS: Final = {
    "candidates[].memory": Basis.FORMULA.value,
    "candidates[].memory.capacity_bytes": Basis.DATASHEET.value,
    "candidates[].memory.workspace_bytes": Basis.ASSUMED.value,
    "candidates[].step": f"{Basis.FORMULA.value}: at the stated efficiency, or a lower bound at datasheet rates",
    "candidates[].finish_s": f"{Basis.FORMULA.value}: from step times, first-order overhead and planned stops",
    "candidates[].energy_j": f"{Basis.DATASHEET.value}: boxes at full power",
    "save_bytes": Basis.FORMULA.value,
    "failures_per_s": Basis.ASSUMED.value,
}
