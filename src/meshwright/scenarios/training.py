"""These tokens, on these devices, by this date? The four nouns go in; the best layouts and the date of each come out.

Steps: enumerate every layout of all devices; memory and time of each; rank; judge the date with saves, failures and
planned stops; say what limits the step and what would save a plan that is late.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final

from meshwright.base.result import Candidate, Result, Verdict
from meshwright.base.units import show_bytes, show_seconds
from meshwright.cost import training_activations, training_offload
from meshwright.cost.training import NOT_MODELLED
from meshwright.job.train import TrainJob, checked_training, step_progress, step_tokens, steps_of
from meshwright.layout.axes import PIPELINE_OUTSIDE
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table as layouts_of
from meshwright.model.model import Model
from meshwright.scenarios import _training_simulated
from meshwright.scenarios._engine import for_engine
from meshwright.scenarios._initialisation import initialisation
from meshwright.scenarios._shared import other_rates, position_warning, sources_of, stated_model, stated_system
from meshwright.scenarios._training_around import surroundings, warnings_around
from meshwright.scenarios._training_boxes import boxes_in_time, least_boxes
from meshwright.scenarios._training_contenders import Shortlist
from meshwright.scenarios._training_details import check_fitting, with_details
from meshwright.scenarios._training_engine import asked_rules
from meshwright.scenarios._training_experts import checked_rows, left_out_of_rows
from meshwright.scenarios._training_fixed import check_fixed
from meshwright.scenarios._training_flips import LEFT_OUT as FLIPS_LEFT_OUT
from meshwright.scenarios._training_flips import training_flips, training_levers
from meshwright.scenarios._training_host import host_notes, with_host
from meshwright.scenarios._training_next import next_commands
from meshwright.scenarios._training_options import TrainOptions, checked_options
from meshwright.scenarios._training_overheads import saving_of
from meshwright.scenarios._training_rows import training_candidates
from meshwright.scenarios._training_search import Progress, Seen, search_training
from meshwright.scenarios._training_simulated import (
    MOST_PASSES,
    needed_bytes,
    said_by_simulation,
    too_long,
    with_simulation,
)
from meshwright.scenarios._training_space import training_space
from meshwright.scenarios._training_systems import TRAINING_BASIS, check_any_can_run, system_row
from meshwright.scenarios._training_table import capacity_bytes, save_bytes, save_s, training_table
from meshwright.system.system import System
from meshwright.workload import expert_rows, saved, training_messages
from meshwright.workload.expert_rows import EVEN

if TYPE_CHECKING:
    from meshwright.layout.layouts import Layouts
    from meshwright.scenarios._training_systems import LeastBoxes
    from meshwright.scenarios._training_table import TrainingTable

ADDED_TWICE: Final = (
    "an efficiency of model FLOPs that was taken from an MFU ({share:.0%}) already holds communication, bubble and "
    "waits; they are added to it here, {again} a step, so the date is late rather than early"
)
NO_FLIPS: Final = "interrupted while flips were looked for: none is told"
NOT_SIMULATED: Final = (
    "interrupted after the search: finalists are not simulated, no run is drawn, no flips are looked for"
)
LOWER_BOUND: Final = (
    "without --efficiency computation runs at datasheet rates: step, date and cost are lower bounds, and MFU an upper "
    "one; state what your runs reach, as in --efficiency 40%"
)
LEFT_OUT: Final = (
    "experts cut wider than tp, and other numbers of layers a recompute policy spreads over: tried where --layout says",
    "shared storage: a save writes at its own rate, and training stands meanwhile",
    "a batch that grows during training; evaluation beside planned stops",
)


def plan_train(
    model: Model, system: System, job: TrainJob, options: TrainOptions, progress: Progress | None = None
) -> Result:
    """The plan on one system.

    Raises JOB001, JOB002, JOB020 (job), JOB021 (options), JOB026 (cost without a price), JOB027 (memory that no device
    has), LAY030, LAY037, LAY035 (fixed fields), LAY002, LAY012, LAY032, LAY033
    (space) and the codes of rules and schedules where the layout that was asked
    for breaks one. Source: chapter "Training systems", section 10.6.1.
    """
    job, options = checked_training(job), checked_rows(model, checked_options(options))
    check_fitting(system, options)
    check_fixed(model, options.layout)
    system = with_host(system, options)
    saving_of(model, system, job, options)  # refuses an interval that no save or no failure lets end
    space = training_space(model, system, job, options.layout, options.context, engine=asked_rules(job, options))
    shortlist = Shortlist(
        evaluated=lambda layouts: training_table(model, system, job, options, layouts),
        capacity_bytes=capacity_bytes(system, options),
    )
    searched = options.flips == "search"
    table, seen = search_training(model, system, job, options, space, progress, shortlist.add if searched else None)
    result = _answered(model, system, job, options, table, seen)
    if not searched or not seen.complete:
        return result
    try:
        first, near = shortlist.with_finalists(table.layouts), shortlist.near(table.layouts)
        flips = training_flips(model, system, job, options, first, near)
    except KeyboardInterrupt:
        return replace(result, warnings=(*result.warnings, NO_FLIPS))
    return replace(result, flips=flips, not_modelled=(*result.not_modelled, *FLIPS_LEFT_OUT))


def _answered(  # noqa: PLR0917 - the nouns and what was found
    model: Model, system: System, job: TrainJob, options: TrainOptions, table: TrainingTable, seen: Seen
) -> Result:
    """The plan with what to type next; interrupted, the same without what takes long."""
    try:
        result = plan_of(model, system, job, options, table, seen, least_boxes)
        return replace(result, next_commands=_next(model, system, job, options, result))
    except KeyboardInterrupt:
        quick = replace(options, finalists=0, runs=0)
        result = plan_of(model, system, job, quick, table, seen, _not_searched)
        stated = {**result.inputs, **_stated(options)}
        return replace(result, inputs=stated, warnings=(*result.warnings, NOT_SIMULATED))


def plan_of(  # noqa: PLR0917 - the nouns and what was found
    model: Model,
    system: System,
    job: TrainJob,
    options: TrainOptions,
    table: TrainingTable,
    seen: Seen,
    least_boxes: LeastBoxes,
) -> Result:
    """The plan of a table of ranked layouts, without what to type next.

    least_boxes: looks for boxes that hold the model, where these do not. Raises the code of the rule that every layout
    breaks.
    """
    found = training_candidates(model, system, job, options, table)
    check_any_can_run(found)
    found = with_details(model, system, job, options, table, found)
    found = with_simulation(model, system, job, options, table, found)
    best = next((item for item in found if item.fits), None)
    row = system_row(model, system, job, options, seen, found, least_boxes)
    body = _body(model, system, job, options, row, best or found[0])
    result = Result(
        command="plan train",
        verdict=_of_search(_verdict(model, system, job, options, found, row), seen),
        inputs={
            "model": stated_model(model),
            "system": stated_system(system),
            "job": job,
            **_stated(options),
        },
        defaulted=model.defaulted,
        best=best,
        candidates=found,
        sensitivity=() if best is None else training_levers(model, system, job, options, _alone(Layout(**best.layout))),
        warnings=(
            *position_warning(model, job.sequence),
            *_warnings(model, job, options, seen, found),
            *warnings_around(options, body, best or found[0]),
        ),
        notes=(
            *model.notes,
            *other_rates(system, [job.recipe.rates]),
            *_notes(options, best),
            *host_notes(system, found),
        ),
        not_modelled=(
            *NOT_MODELLED,
            *left_out_of_rows(options, training_messages.NOT_MODELLED),
            *left_out_of_rows(options, training_activations.NOT_MODELLED),
            *(() if options.experts == EVEN else expert_rows.NOT_MODELLED),
            *saved.NOT_MODELLED,
            *saved.left_out(model),
            *_training_simulated.NOT_MODELLED,
            *training_offload.NOT_MODELLED,
            *LEFT_OUT,
        ),
        sources=sources_of(model, system),
        basis=TRAINING_BASIS,
        body=body,
    )
    return for_engine(result, options.engine)


def _alone(layout: Layout) -> Layouts:
    """One layout, its axes in the order of trainers."""
    return replace(layouts_of([layout]), order=PIPELINE_OUTSIDE)


def plan_of_layout(model: Model, system: System, job: TrainJob, options: TrainOptions, layout: Layout) -> Result:
    """The plan of one layout; nothing is searched, drawn or simulated. Raises as `plan_train` does."""
    system = with_host(system, options)
    only = replace(options, finalists=0, runs=0)
    seen = Seen(looked_at=1, evaluated=1, fitting=0, on_time=0, complete=True)
    table = training_table(model, system, job, only, _alone(layout))
    result = plan_of(model, system, job, only, table, seen, _not_searched)
    return replace(result, inputs={**result.inputs, **_stated(options)})


def _not_searched(_model: Model, _system: System, _job: TrainJob, _options: TrainOptions) -> None:
    """For a plan of one layout boxes are not looked for."""


def _stated(options: TrainOptions) -> dict[str, Any]:
    """The options as they stand in `inputs`, the fixed fields on their own."""
    own = {item.name: getattr(options, item.name) for item in fields(options) if item.name != "layout"}
    return {"layout": options.layout, "options": own}


def _next(model: Model, system: System, job: TrainJob, options: TrainOptions, result: Result) -> tuple[str, ...]:
    """What to type next."""
    row = result.body["systems"][0]
    boxes = _boxes(model, system, job, options, row)
    return next_commands(system, job, options, result.best, row["limits"], boxes, result.body["save_bytes"])


def _boxes(model: Model, system: System, job: TrainJob, options: TrainOptions, row: dict[str, Any]) -> int | None:
    """Boxes to ask about next: that hold the model, or that may be in time."""
    limits = row["limits"]
    if limits is None or limits["slack_s"] >= 0 or limits["step_limit_s"] <= 0:
        return row["least_boxes"]
    return boxes_in_time(model, system, job, options, row["step_s"] / limits["step_limit_s"])


def _body(  # noqa: PLR0917 - the nouns and what was found
    model: Model, system: System, job: TrainJob, options: TrainOptions, row: dict[str, Any], shown: Candidate
) -> dict[str, Any]:
    slack = None if row["limits"] is None else row["limits"]["slack_s"]
    return {
        "steps": steps_of(job),
        "step_tokens": step_progress(job),
        "executed_step_tokens": step_tokens(job.global_batch, job.sequence),
        "searched": row["searched"],
        "initialisation": initialisation(model, job, capacity_bytes(system, options)),
        "save_bytes": save_bytes(model, job),
        "save_s": save_s(model, job, options),
        "failures_per_s": row["failures_per_s"],
        "binding": row["binding"],
        "limits": row["limits"],
        "systems": (row,),
        **surroundings(model, system, job, options, shown, slack),
    }


def _notes(options: TrainOptions, best: Candidate | None) -> tuple[str, ...]:
    """That a plan is a lower bound; or what an efficiency of model FLOPs holds already and the plan adds again."""
    if options.efficiency is None:
        return (LOWER_BOUND,)
    if options.efficiency_kind != "model_flops" or best is None:
        return ()
    step = best.measures["step"]
    added = step["exposed_comm_s"] + step["bubble_s"] + step["input_wait_s"]
    if added <= 0:
        return ()
    again = f"{show_seconds(added)} of {show_seconds(step['total_s'])} ({added / step['total_s']:.1%})"
    return (ADDED_TWICE.format(share=options.efficiency, again=again),)


def _warnings(
    model: Model, job: TrainJob, options: TrainOptions, seen: Seen, found: tuple[Candidate, ...]
) -> tuple[str, ...]:
    said: list[str] = []
    if not seen.complete:
        told = f"interrupted after {seen.looked_at:,} layouts: the best that was found by then, not of all"
        said.append(f"{told}; flips are not looked for")
    long = sum(too_long(model, item) for item in found[: options.finalists])
    if long:
        said.append(f"{long} of the finalists are not simulated: more than {MOST_PASSES:,} passes of modules in a step")
    said += said_by_simulation(job, options, found)
    return tuple(said)


def _verdict(  # noqa: PLR0917 - the nouns and what was found
    model: Model,
    system: System,
    job: TrainJob,
    options: TrainOptions,
    found: tuple[Candidate, ...],
    row: dict[str, Any],
) -> Verdict:
    best = next((item for item in found if item.fits), None)
    what = f"{job.tokens:,} tokens of {model.name} on {system.name}"
    if best is None:
        first, boxes = found[0], row["least_boxes"]
        if first.excluded is not None and first.excluded.limit == "host_memory":
            return Verdict(answer="no", text=f"{what} do not fit: {first.id} {first.excluded.reason}")
        known, held = first.measures["simulated"], first.memory
        needed = held["per_rank_bytes"] if known is None else needed_bytes(options, first, known["peak_bytes"])
        text = f"{what} do not fit: {first.id} still needs {show_bytes(needed)} of "
        text += f"{show_bytes(held['capacity_bytes'])} a device"
        return Verdict(answer="no", text=text if boxes is None else f"{text}; {boxes} boxes hold it")
    measures = best.measures
    text = f"{what}: {best.id} ends after {show_seconds(measures['finish_s'])}, "
    text += f"{show_seconds(measures['step']['total_s'])} a step{_by_simulation(best)}, MFU {measures['mfu']:.1%}"
    if job.deadline is None:
        return Verdict(answer="yes", text=text)
    by = f"the deadline is {show_seconds(job.deadline)}"
    if best.excluded is not None:
        return Verdict(answer="no", text=f"late: {text}; {by}")
    return Verdict(answer="yes", text=f"in time: {text}; {by}")


def _of_search(verdict: Verdict, seen: Seen) -> Verdict:
    """The verdict; a no of a search that was interrupted is not known."""
    if seen.complete or verdict.answer == "yes":
        return verdict
    return Verdict(answer="unknown", text=f"interrupted, and nothing in time found by then: {verdict.text}")


def _by_simulation(best: Candidate) -> str:
    """The same two numbers of the simulated step."""
    known = best.measures["simulated"]
    return (
        "" if known is None else f" ({show_seconds(known['finish_s'])} and {show_seconds(known['step_s'])} simulated)"
    )
