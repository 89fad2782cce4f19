"""Ranked layouts go in; the finalists come out with their step run on the event engine beside the estimate.

The search judges by closed forms: a time, and a bound of memory that adds what may be alive together. They decide, so
that a plan changes where its formulas say (`flips`); the simulated step stands beside them, and what it says otherwise
is a warning. It has one veto: a finalist whose simulated peak is above the memory does not fit, whatever the bound
says. Where `--activation-budget` stands for computed memory the peak is only told.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.units import show_bytes, show_seconds
from meshwright.cost.kept import in_operands
from meshwright.cost.overheads import finish_s
from meshwright.cost.pipelines import PLAIN, pipelines, stage_modules
from meshwright.cost.training import training_parts, turns, update_s
from meshwright.cost.training_activations import activation_columns
from meshwright.cost.training_exchange import boundary_bytes
from meshwright.cost.training_offload import NONE as NO_OFFLOAD
from meshwright.cost.training_state import state_columns
from meshwright.job.train import steps_of
from meshwright.scenarios._training_rows import too_large
from meshwright.scenarios._training_table import input_wait_s
from meshwright.sim.training_step import run_step
from meshwright.sim.training_step_memory import step_memory
from meshwright.sim.training_uses import Modules, StepPlan
from meshwright.workload.slots import Shape, read_schedule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from meshwright.base.numbers import Ints
    from meshwright.base.result import Candidate
    from meshwright.cost.training_state import StateColumns
    from meshwright.job.train import TrainJob
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model
    from meshwright.scenarios._training_options import TrainOptions
    from meshwright.scenarios._training_table import TrainingTable
    from meshwright.sim.training_step import StepRun
    from meshwright.system.system import System

MOST_PASSES: Final = 200_000
"""Passes of modules in a step; a finalist with more is not simulated, and the result says so."""
NOT_MODELLED: Final = (
    "simulated step: links that messages between stages, exchanges in layers, and weights and gradients share",
    "simulated step: gathers and reductions beside each other on one channel; buckets other than one a module",
    "simulated step: what recompute made again is not kept for weight gradients that a schedule splits off",
    "simulated step: offload; a layout with one is judged by its estimate",
    "estimated memory: copies of messages between stages, and uneven virtual stages, which the simulation has",
)
_ALIKE: Final = 0.001
_LONGER: Final = 0.02
_RESIDENT: Final = ("parameters", "gradients", "optimizer_state")


def with_simulation(  # noqa: PLR0917 - the nouns, and what was found
    model: Model,
    system: System,
    job: TrainJob,
    options: TrainOptions,
    table: TrainingTable,
    found: Sequence[Candidate],
) -> tuple[Candidate, ...]:
    """The candidates of a table in its order, the first `options.finalists` with their simulated step.

    Not simulated, and not counted, are those with an offload; neither are layouts that break a rule, and steps of more
    than `MOST_PASSES`.
    """
    told: list[Candidate] = []
    offloaded = 0
    for row, item in enumerate(found):
        offloaded += item.layout["offload"] != NO_OFFLOAD
        chosen = row - offloaded < options.finalists and item.layout["offload"] == NO_OFFLOAD
        if chosen and _keeps_rules(item) and not too_long(model, item):
            told.append(_simulated(model, system, job, options, table, row, item))
        else:
            told.append(replace(item, measures={**item.measures, "simulated": None, "peak_alive": ()}))
    return tuple(told)


def said_by_simulation(job: TrainJob, options: TrainOptions, found: Sequence[Candidate]) -> tuple[str, ...]:
    """In words, where the simulated steps of the finalists say other than the estimate: memory, date and order."""
    ran = [item for item in found if item.measures["simulated"] is not None]
    said = [
        f"{item.id} {item.measures['simulated']['decides']}" for item in ran if item.measures["simulated"]["decides"]
    ]
    for item in ran[:1]:
        finish = item.measures["simulated"]["finish_s"]
        if item.fits and job.deadline is not None and (finish > job.deadline) != (item.excluded is not None):
            word = "late" if finish > job.deadline else "in time"
            said.append(f"{item.id} ends after {show_seconds(finish)} by simulation, {word}: the estimate decides")
        over = item.measures["simulated"]["over_estimate"]
        if over is not None and over > _LONGER:
            said.append(f"the simulated step of {item.id} is {over:.1%} longer than the estimate")
    fitting = [item for item in ran if item.fits]
    sooner = min(fitting, key=lambda item: item.measures["simulated"]["finish_s"], default=None)
    if sooner is not None and sooner is not fitting[0]:
        first, other = (item.measures["simulated"]["step_s"] for item in (fitting[0], sooner))
        if other < first * (1 - _ALIKE):
            times = f"{show_seconds(other)}, against {show_seconds(first)} of the first"
            said.append(f"of the {options.finalists} finalists {sooner.id} has the shortest simulated step: {times}")
    return tuple(said)


def _keeps_rules(item: Candidate) -> bool:
    return item.excluded is None or item.excluded.limit in {"capacity", "deadline"}


def too_long(model: Model, item: Candidate) -> bool:
    """Whether a step may have more passes than are run: a forward and two halves of a backward of every module."""
    return 3 * item.measures["num_micro_batches"] * (model.layers + 2) > MOST_PASSES


def _simulated(  # noqa: PLR0917 - the nouns, and which
    model: Model, system: System, job: TrainJob, options: TrainOptions, table: TrainingTable, row: int, item: Candidate
) -> Candidate:
    """One candidate with its simulated step."""
    layouts = table.layouts.take([row])
    step = simulated_step(model, system, job, options, layouts, table.count[[row]])
    straggler = table.straggler_s[row]
    before = np.array([step.total_s]) + straggler
    whole = before + input_wait_s(job, options, before)
    finish = finish_s(steps_of(job), whole, table.overhead[[row]], job.reserve).item()
    estimated = item.measures["step"]["total_s"]
    needed = needed_bytes(options, item, step.peak_bytes)
    fits = item.fits and needed <= item.memory["capacity_bytes"]
    measured = {
        "step_s": whole.item(),
        "compute_s": step.compute_s,
        "exposed_comm_s": step.exposed_comm_s,
        "bubble_s": step.bubble_s,
        "update_s": step.update_s,
        "finish_s": finish,
        "peak_bytes": step.peak_bytes,
        "peak_s": step.peak_s,
        "over_estimate": whole.item() / estimated - 1 if isfinite(estimated) else None,
        "decides": _said(item, needed),
    }
    alive = tuple({"kind": kind, "bytes": size} for kind, size in step.alive_bytes.items())
    measures = {**item.measures, "simulated": measured, "peak_rank": step.peak_rank, "peak_alive": alive}
    told = replace(item, measures=measures)
    return told if fits == item.fits else too_large(told, needed)


def needed_bytes(options: TrainOptions, item: Candidate, peak_bytes: int) -> int:
    """What decides whether a finalist fits: its simulated peak, or what a budget makes of it."""
    return peak_bytes if options.activation_budget is None else item.memory["per_rank_bytes"]


def _said(item: Candidate, needed_bytes: int) -> str | None:
    """In words, that the simulated peak says other than the bound; None where both say the same."""
    capacity = item.memory["capacity_bytes"]
    bound = item.memory["per_rank_bytes"]
    if (needed_bytes <= capacity) == (bound <= capacity):
        return None
    verb = "may fit" if needed_bytes <= capacity else "does not fit"
    return f"{verb}: a simulated peak of {show_bytes(needed_bytes)}, against a bound of {show_bytes(bound)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedStep:
    """One step. total_s: the next four added, of the rank that computes and exchanges longest.

    exposed_comm_s: exchanges in layers, and what messages and weights and gradients add to the step.   bubble_s: what
    it waits for others if these take no time.   peak_rank: the pipeline rank that holds most, peak_s when that begins.
    alive_bytes: at that time, by kind, the largest first.
    """

    total_s: float
    compute_s: float
    exposed_comm_s: float
    bubble_s: float
    update_s: float
    peak_rank: int
    peak_bytes: int
    peak_s: float
    alive_bytes: dict[str, int]


def simulated_step(  # noqa: PLR0917 - the nouns, and one layout
    model: Model, system: System, job: TrainJob, options: TrainOptions, layouts: Layouts, count: Ints
) -> SimulatedStep:
    """A table of one layout run through. count: its micro-batches.

    Source: chapter "Training systems", sections 10.1.2, 10.3.2 and 10.3.3. Raises SCH002 for slots that wait for each
    other.
    """
    state = state_columns(model, layouts, job.recipe, shards=options.shards)
    plan, exchanged = step_plan(model, system, job, options, layouts, count, state)
    run = run_step(plan)
    free = run if plan == plan.alone() else run_step(plan.alone())
    busy = free.busy_s()
    slowest = int(np.argmax(busy))
    exchange = _by_rank(run, exchanged)[slowest]
    held, parts = _resident(run, state, options)
    peak = max(step_memory(run, held).peaks(run.timeline.tick_s), key=lambda item: (item.peak_bytes, -item.rank))
    alive = {name: int(sizes[peak.rank]) for name, sizes in parts.items()} | peak.alive_bytes
    return SimulatedStep(
        total_s=run.total_s,
        compute_s=busy[slowest].item() - exchange,
        exposed_comm_s=exchange + run.gradients_s - free.gradients_s,
        bubble_s=max(free.gradients_s - busy[slowest].item(), 0.0),  # rounding
        update_s=plan.update_s,
        peak_rank=peak.rank,
        peak_bytes=peak.peak_bytes,
        peak_s=peak.peak_s,
        alive_bytes={name: size for name, size in sorted(alive.items(), key=lambda pair: -pair[1]) if size},
    )


def step_plan(  # noqa: PLR0917 - the nouns, one layout and its state
    model: Model,
    system: System,
    job: TrainJob,
    options: TrainOptions,
    layouts: Layouts,
    count: Ints,
    state: StateColumns,
) -> tuple[StepPlan, tuple[Any, Any]]:
    """A table of one layout as a step to run; and by module the exchanges within its forward and its backward."""
    layout = layouts.row(0)
    program = read_schedule(layout.schedule or PLAIN)
    shape = Shape(stages=layout.pp, micro_batches=int(count[0]), virtual_stages=layout.virtual_stages)
    slots = program.slots(shape)
    parts = training_parts(model, system, job, layouts, options.assumptions)
    inside = (parts.inside.forward_s[parts.place[0]], parts.inside.backward_s[parts.place[0]])
    moved = (getattr(parts.moved, name)[parts.mesh[0]] for name in ("gather_s", "refresh_s", "reduce_s", "spread_s"))
    channel = turns(np.int64(layout.zero), *moved)
    computed = in_operands(model, job.recipe)
    kept = activation_columns(
        computed,
        layouts,
        sequence=job.sequence,
        kernel=options.kernel,
        loss=options.loss,
        elementwise=options.elementwise,
        experts=options.experts,
        context=options.context,
    )
    none = np.zeros_like(state.gathered[0])
    of_ends = np.zeros(len(none))
    of_ends[-2] = parts.moved.ends_s[parts.mesh[0]]
    modules = Modules(
        forward_s=parts.work.forward_s[0] + inside[0],
        input_s=parts.input_s[0] + inside[1],
        weight_s=parts.work.weight_s[0],
        gather_once_s=channel.gather_once + none,
        gather_each_s=channel.gather_each + none,
        reduce_each_s=channel.reduce_each + none,
        reduce_last_s=channel.reduce_last + of_ends,
        saved_bytes=np.array([*kept.saved[0], kept.embedding[0], kept.head[0]]),
        rebuilt_bytes=np.array([*kept.rebuilt[0], 0, kept.head_transient[0]]),
        gathered_bytes=state.gathered[0] if layout.zero == 3 else none,  # noqa: PLR2004 - the stage
        gradient_bytes=state.gradient_buffer[0] if layout.zero >= 2 else none,  # noqa: PLR2004 - the stage
    )
    lines = pipelines(model, layouts, count)
    plan = StepPlan(
        slots=slots,
        stages=stage_modules(model.kind_of_layer, slots.virtual_stages),
        modules=modules,
        prefetch=options.prefetch,
        send_s=parts.boundary_s[0].item() if layout.pp > 1 else 0.0,
        activation_bytes=round(boundary_bytes(computed, layouts, job.sequence)[0].item()),
        update_s=update_s(system, lines, state, charged=parts.charged)[0].item(),
    )
    return plan, inside


def _by_rank(run: StepRun, inside: tuple[Any, Any]) -> list[float]:
    """By rank, the exchanges in its layers."""
    forward, backward = inside
    uses = run.uses
    within = np.where(uses.is_forward, forward[uses.module], np.where(uses.reads_weights, backward[uses.module], 0.0))
    return np.bincount(uses.rank, within, run.plan.slots.ranks).tolist()


def _resident(run: StepRun, state: StateColumns, options: TrainOptions) -> tuple[Ints, Mapping[str, Ints]]:
    """By rank, bytes that persist, and what they are."""
    plan = run.plan
    counts = np.zeros((plan.slots.ranks, len(plan.modules.forward_s)), np.int64)
    for direction in plan.slots.placement.tolist():
        for rank, modules in zip(direction, plan.stages, strict=True):
            np.add.at(counts[rank], list(modules), 1)
    parts = {name: counts @ getattr(state, name)[0] for name in _RESIDENT}
    parts["workspace"] = np.full(plan.slots.ranks, options.workspace, np.int64)
    return sum(parts.values(), np.zeros(plan.slots.ranks, np.int64)), parts
