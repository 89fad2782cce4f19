"""A model, a system, a job and columns of layouts go in; the time of one training step and its parts come out.

There is one estimator and it works on columns. A step is that of the slowest pipeline rank, with the time it idles
because the others are not ready: its passes over every micro-batch, the exchanges that they wait for, what the channel
of weights and gradients is behind, the bubble, and the update.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from meshwright.base.numbers import maximum, where
from meshwright.base.traced import named
from meshwright.cost.kept import in_operands
from meshwright.cost.pipelines import PLAIN as PLAIN_SCHEDULE
from meshwright.cost.pipelines import along_rows, largest, of_entry, over_entries
from meshwright.cost.roofline import read_s
from meshwright.cost.training_exchange import boundary_s, layer_exchange, state_exchange
from meshwright.cost.training_work import training_work
from meshwright.layout.layouts import distinct
from meshwright.layout.ownership import ZERO_OF_STATE
from meshwright.workload.context_split import RING_OF_ZIGZAG, ContextPlan
from meshwright.workload.expert_rows import EVEN, ExpertRows
from meshwright.workload.slots import Work, read_schedule

if TYPE_CHECKING:
    from meshwright.base.numbers import Floats, Ints
    from meshwright.cost.groups import Nic
    from meshwright.cost.pipelines import Pipelines
    from meshwright.cost.training_exchange import LayerExchange, StateExchange
    from meshwright.cost.training_state import StateColumns
    from meshwright.cost.training_work import EfficiencyKind, TrainingWork
    from meshwright.job.train import TrainJob
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model
    from meshwright.system.system import System

Prefetch: TypeAlias = Literal["on", "off"]
_GRADIENTS: Final = ZERO_OF_STATE["gradients"]
_PARAMETERS: Final = ZERO_OF_STATE["parameters"]
_SENT: Final = ("gather_bytes", "refresh_bytes", "reduce_bytes", "spread_bytes")
_MESH: Final = ("dp_replicate", "dp_shard", "pp", "cp", "tp", "ep", "etp")
NOT_MODELLED: Final = (
    "zero 3: the estimate hides a module behind a whole pass; the simulation, one module ahead, lets a long end wait",
    "norms, rotary embedding, activation functions, residual adds, dropout and the loss (an --efficiency holds them)",
    "dualpipe: the two ranks that hold a stage add up its gradients, and could share its optimizer state",
    "adapters: that inputs of frozen products need not be kept, and that no gradient goes below the first of them",
    "fp8 with an --efficiency: products that stay in bf16 (ends, router, scores), which take that share of its peak",
    "kernel launches, and that computation and communication slow each other where they overlap",
    "steady-state waits for messages between stages: the estimate has those of fill and drain, the simulation all",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingAssumptions:
    """What the estimator is told beside the four nouns.

    efficiency: the share of the peak; None for a roofline at datasheet rates, which is a lower bound.
    efficiency_kind: `model_flops` holds recompute, the update and all that is no matrix product; `compute` is that of
    matrix products alone, recompute included.   prefetch: whether gathers and reductions run beside computation.
    nic: whether a device has its share of a box's NICs or all have one.   context: how ranks of cp share a sequence.
    experts: how rows fall on experts.
    """

    efficiency: float | None = None
    efficiency_kind: EfficiencyKind = "model_flops"
    prefetch: Prefetch = "on"
    nic: Nic = "own"
    context: ContextPlan = RING_OF_ZIGZAG
    experts: ExpertRows = EVEN

    @property
    def recompute_charged(self) -> bool:
        """Whether recompute and the update add to a step."""
        return self.efficiency is None or self.efficiency_kind == "compute"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingStep:
    """Columns, one row a layout; seconds of one step.

    compute_s: passes of the slowest rank over all micro-batches.   forward_s, backward_s: of one of them.
    exposed_comm_s: what computation waits for, the sum of the next three parts.   bubble_s: idle for other stages.
    channel_s: how long the channel of weights and gradients is busy, hidden or not.   sent_bytes: what a rank sends on
    it.   hardware_flops: of one rank's micro-batches, recompute included, summed over the stages.
    """

    compute_s: Floats
    forward_s: Floats
    backward_s: Floats
    exposed_comm_s: Floats
    layer_exchange_s: Floats
    state_exchange_s: Floats
    boundary_s: Floats
    bubble_s: Floats
    update_s: Floats
    channel_s: Floats
    sent_bytes: Floats
    hardware_flops: Floats
    total_s: Floats
    slowest: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Stages:
    """Columns [rows, entries] of seconds of one micro-batch on the ranks of each entry of `Pipelines`."""

    forward_s: Any
    backward_s: Any
    weight_s: Any
    exchange_forward_s: Any
    exchange_backward_s: Any
    gather_s: Any
    refresh_s: Any
    reduce_s: Any
    spread_s: Any
    first_gather_s: Any
    first_refresh_s: Any
    first_reduce_s: Any
    first_spread_s: Any
    gather_bytes: Any
    refresh_bytes: Any
    reduce_bytes: Any
    spread_bytes: Any


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingParts:
    """What one micro-batch takes of each module, as columns [rows, kinds + 2] of fewer rows.

    work: of every row.   inside, moved: exchanges in layers, and of weights and gradients, of the rows `place`, `mesh`.
    boundary_s: [rows], of one message between stages.   charged: whether recompute and the update add to a step.
    """

    work: TrainingWork
    inside: LayerExchange
    place: Ints
    moved: StateExchange
    mesh: Ints
    boundary_s: Floats
    charged: bool

    @property
    def input_s(self) -> Any:
        """[rows, kinds + 2] of a backward without the gradients of weights, exchanges apart."""
        return self.work.input_s + self.work.repeated_s if self.charged else self.work.input_s


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Turns:
    """Seconds on the channel of weights and gradients, under the zero stage of each row.

    gather_each: before every pass.   reduce_each: after every backward.   gather_once: before the first forward of a
    step, of updated parameters.   reduce_last: after the last backward, beside `reduce_each`.
    """

    gather_each: Any
    reduce_each: Any
    gather_once: Any
    reduce_last: Any


def turns(zero: Any, gather: Any, refresh: Any, reduce: Any, spread: Any) -> Turns:
    """Of a module, or of several added up; refresh: a gather of updated parameters.

    An all_reduce is a reduction and, as long, a gather of sums.
    """
    none = np.zeros(1)
    last = where(zero < _GRADIENTS, reduce, none) + spread
    return Turns(
        gather_each=where(zero == _PARAMETERS, gather, none),
        reduce_each=where(zero >= _GRADIENTS, reduce, none),
        gather_once=where((zero > 0) & (zero < _PARAMETERS), refresh, none),
        reduce_last=last + where(zero == 0, reduce, none),
    )


def estimate_training(  # noqa: PLR0917 - the nouns and what follows from them
    model: Model,
    system: System,
    job: TrainJob,
    layouts: Layouts,
    assumptions: TrainingAssumptions,
    micro_batches: Ints,
    lines: Pipelines,
    state: StateColumns,
) -> TrainingStep:
    """One step of every layout. micro_batches: that a rank accumulates.   lines, state: of the same rows.

    Source: chapter "Training systems", sections 10.1.3, 10.3.1 to 10.3.3; pipeline formulas as each schedule states.
    """
    parts = training_parts(model, system, job, layouts, assumptions)
    update = update_s(system, lines, state, charged=parts.charged)
    return step_of_parts(layouts, assumptions, micro_batches, lines, parts, update)


def step_of_parts(  # noqa: PLR0917 - the parts of a step
    layouts: Layouts,
    assumptions: TrainingAssumptions,
    micro_batches: Ints,
    lines: Pipelines,
    parts: TrainingParts,
    update: Floats,
) -> TrainingStep:
    """One step of every layout from what a micro-batch takes of each module, and the update."""
    stages = _stages(lines, parts)
    beyond = (parts.boundary_s, parts.moved.ends_s[parts.mesh])
    return _assembled(layouts, assumptions, micro_batches, lines, stages, beyond, update, parts.work)


def training_parts(
    model: Model, system: System, job: TrainJob, layouts: Layouts, assumptions: TrainingAssumptions
) -> TrainingParts:
    """What the estimate adds up, and a simulated step runs."""
    nic, model, context = assumptions.nic, in_operands(model, job.recipe), assumptions.context
    experts = assumptions.experts
    work = training_work(model, system, layouts, job.recipe, job.sequence, assumptions.efficiency, context, experts)
    layers, place = distinct(layouts, (*_MESH, "sp", "micro_batch", "recompute"))
    meshes, mesh = distinct(layouts, _MESH)
    return TrainingParts(
        work=work,
        inside=layer_exchange(
            model, system, layers, job.sequence, work.take(_first_of(place, len(layers))), nic, context, experts
        ),
        place=place,
        moved=state_exchange(model, system, meshes, job.recipe, nic),
        mesh=mesh,
        boundary_s=boundary_s(model, system, layers, job.sequence, nic)[place],
        charged=assumptions.recompute_charged,
    )


def _first_of(place: Ints, count: int) -> Ints:
    """For each of `count` distinct rows, the first row that is like it."""
    first = np.zeros(count, dtype=np.int64)
    first[place[::-1]] = np.arange(len(place))[::-1]
    return first


def _stages(lines: Pipelines, parts: TrainingParts) -> _Stages:
    """Of layers and ends, those that a rank holds, added kind by kind."""
    work, inside, place, moved, mesh = parts.work, parts.inside, parts.place, parts.moved, parts.mesh
    held = lines.layers
    share = held / lines.directions[:, None, None]  # of micro-batches that enter at both ends, half of them each way

    def summed(columns: Any, counts: Any = share) -> Any:
        total: Any = columns[:, 0, None] * counts[:, :, 0]
        for kind in range(1, counts.shape[2]):
            total = total + columns[:, kind, None] * counts[:, :, kind]
        return total

    weight = summed(work.weight_s)
    backward = summed(parts.input_s) + weight
    names = ("gather_s", "refresh_s", "reduce_s", "spread_s")
    gather, refresh, reduce, spread = (along_rows(getattr(moved, name), mesh) for name in names)
    sent = {name: along_rows(getattr(moved, name), mesh) for name in _SENT}
    return _Stages(
        forward_s=summed(work.forward_s),
        backward_s=backward,
        weight_s=weight,
        exchange_forward_s=summed(along_rows(inside.forward_s, place)),
        exchange_backward_s=summed(along_rows(inside.backward_s, place)),
        gather_s=summed(gather, held),
        refresh_s=summed(refresh, held),
        reduce_s=summed(reduce, held),
        spread_s=summed(spread, held),
        first_gather_s=_first_module(gather, held),
        first_refresh_s=_first_module(refresh, held),
        first_reduce_s=_first_module(reduce, held),
        first_spread_s=_first_module(spread, held),
        **{name: summed(column, held) for name, column in sent.items()},
    )


def _first_module(columns: Any, held: Ints) -> Any:
    """Of the first module of each entry: the first end where it has that, or its longest layer."""
    longest: Any = np.zeros(held.shape[:2])
    for kind in range(held.shape[2] - 2):
        longest = maximum(longest, where(held[:, :, kind] > 0, columns[:, kind, None], np.zeros(1)))
    return where(held[:, :, -2] > 0, columns[:, -2, None] + np.zeros_like(longest), longest)


def update_s(system: System, lines: Pipelines, state: StateColumns, *, charged: bool) -> Floats:
    """What the optimizer owns is read and written, its gradients read, its parameters written; on the fullest rank."""
    if not charged:
        return np.zeros(len(lines.ranks))
    touched: Any = state.optimizer_state * 2 + state.read + state.written
    total: Any = touched[:, 0, None] * lines.layers[:, :, 0] * 1.0
    for kind in range(1, lines.layers.shape[2]):
        total = total + touched[:, kind, None] * lines.layers[:, :, kind]
    rate: Any = system.accelerator.memory_bandwidth
    return read_s(total.max(axis=1), rate)


def _assembled(  # noqa: PLR0917 - the parts of a step
    layouts: Layouts,
    assumptions: TrainingAssumptions,
    micro_batches: Ints,
    lines: Pipelines,
    stages: _Stages,
    beyond: tuple[Floats, Floats],
    update: Floats,
    work: TrainingWork,
) -> TrainingStep:
    """The parts of a step of each row's slowest entry, and of the ranks around it.

    beyond: seconds of one message between stages, and of what their two ends add up.
    """
    boundary, of_ends = beyond
    zero = layouts.degree("zero")[:, None]
    none = np.zeros(1)
    channel = turns(zero, stages.gather_s, stages.refresh_s, stages.reduce_s, stages.spread_s)
    # of modules of both directions, a micro-batch passes those of its own
    every_gather, every_reduce = (
        column / lines.directions[:, None] for column in (channel.gather_each, channel.reduce_each)
    )
    last_reduce, once_gather = channel.reduce_last, channel.gather_once
    forward = stages.forward_s + stages.exchange_forward_s
    backward = stages.backward_s + stages.exchange_backward_s
    count: Any = micro_batches[:, None]
    if assumptions.prefetch == "on":
        behind_f, behind_b = maximum(every_gather - forward, 0.0), maximum(every_gather + every_reduce - backward, 0.0)
        firsts = (stages.first_gather_s, stages.first_refresh_s, stages.first_reduce_s, stages.first_spread_s)
        first = turns(zero, *firsts)
        ends = first.gather_each + first.reduce_each + first.reduce_last
        hidden = maximum(backward - every_reduce - every_gather, 0.0)
        ends = ends + maximum(last_reduce - first.reduce_last - hidden, 0.0)
        ends = ends + where(
            once_gather > 0, stages.first_refresh_s + maximum(once_gather - stages.first_refresh_s - forward, 0.0), none
        )
    else:
        behind_f, behind_b = every_gather, every_gather + every_reduce
        ends = last_reduce + once_gather
    held = lines.ranks > 0
    busy = where(held, forward + backward + behind_f + behind_b, np.full(1, -1.0))
    slowest = largest(busy)

    def own(columns: Any) -> Any:
        return of_entry(columns, slowest)

    passes = own(stages.forward_s + stages.backward_s)
    compute = named(passes * micro_batches, "compute_s")
    exchanged = own(stages.exchange_forward_s + stages.exchange_backward_s) * micro_batches
    behind = own(behind_f + behind_b) * micro_batches + own(ends) + of_ends
    bubble = _bubble(layouts, lines, micro_batches, (forward + behind_f, backward + behind_b, stages.weight_s), slowest)
    sends = boundary * 2 * (layouts.degree("pp") - 1)
    exposed = named(exchanged + behind + sends, "exposed_comm_s")
    channel_s = own((every_gather * 2 + every_reduce) * count + last_reduce + once_gather) + of_ends
    return TrainingStep(
        compute_s=compute,
        forward_s=own(stages.forward_s),
        backward_s=own(stages.backward_s),
        exposed_comm_s=exposed,
        layer_exchange_s=exchanged,
        state_exchange_s=behind,
        boundary_s=sends,
        bubble_s=named(bubble, "bubble_s"),
        update_s=named(update, "update_s"),
        channel_s=named(channel_s, "channel_s"),
        sent_bytes=own(_sent_bytes(zero, count / lines.directions[:, None], stages)),
        hardware_flops=_hardware_flops(lines, work, micro_batches),
        total_s=named(compute + exposed + bubble + update, "step_s"),
        slowest=own(lines.number),
    )


def _sent_bytes(zero: Any, passes: Any, stages: _Stages) -> Any:
    """[rows, entries]: under zero 3 two gathers a micro-batch, else parameters once after the update.

    passes: micro-batches that a module sees.   Gradients are reduced every micro-batch from zero 2 on, else once;
    without zero an all_reduce is twice that.
    """
    none = np.zeros(1)
    weights = where(zero == _PARAMETERS, stages.gather_bytes * 2 * passes, stages.refresh_bytes)
    times = where(zero >= _GRADIENTS, passes, where(zero == 0, np.full(1, 2), np.full(1, 1)))
    return where(zero > 0, weights, none) + stages.reduce_bytes * times + stages.spread_bytes


def _bubble(
    layouts: Layouts, lines: Pipelines, micro_batches: Ints, times: tuple[Any, Any, Any], slowest: Ints
) -> Floats:
    """Idle time of the slowest rank, by the formula of each row's schedule.

    The formulas are linear in the work of a rank: with unequal stages that of the mean of the other ranks, which for
    1F1B and fill-drain is exact.
    """
    stages: Any = layouts.degree("pp")
    others = maximum(stages - 1, 1)
    mean: list[Any] = []
    for column in times:
        weighted: Any = over_entries(column * lines.ranks)
        mean.append((weighted - of_entry(column, slowest)) / others)
    forward, backward, weight = mean
    work = Work(forward=forward, backward=backward, weight=weight, cell=forward + backward)
    idle: Any = np.zeros(len(slowest))
    names = layouts.values_of("schedule")
    pieces: Any = layouts.degree("virtual_stages")
    for number, name in enumerate(names.values):
        rows: Any = np.flatnonzero(names.numbers == number)
        if len(rows):
            own = Work(**{part.name: getattr(work, part.name)[rows] for part in fields(work)})
            took = bubble_s(name or PLAIN_SCHEDULE, stages[rows], pieces[rows], micro_batches[rows], own)
            idle = idle.astype(np.result_type(idle, took), copy=False)
            idle[rows] = took
    return where(stages > 1, idle, np.zeros(1))


def bubble_s(name: str, stages: Any, pieces: Any, micro_batches: Any, work: Work) -> Any:
    """Idle time by a schedule's formula; NaN where it has none.

    With fewer micro-batches than the formula holds for, that of a single one, which waits for its forwards on the other
    stages and for their gradients: no order of a few waits longer.
    """
    formula = read_schedule(name).BUBBLE
    if formula is None:
        return np.full(1, np.nan)
    alone = (stages - 1) * (work.forward + work.inputs)
    took = where(micro_batches < formula.least(stages), alone, formula.time(stages, pieces, work))
    return maximum(took, 0.0)


def _hardware_flops(lines: Pipelines, work: TrainingWork, micro_batches: Ints) -> Floats:
    """FLOPs of one rank of every stage, recompute included, over all micro-batches of a step."""
    each: Any = work.forward_flops + work.backward_flops + work.repeated_flops
    total: Any = np.zeros(len(micro_batches))
    for kind in range(lines.layers.shape[2]):
        total = total + each[:, kind] * (over_entries(lines.layers[:, :, kind] * lines.ranks) / lines.directions)
    return total * micro_batches
