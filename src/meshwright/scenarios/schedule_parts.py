"""What is inside a schedule? One slot on its timeline, one rank's order, one formula, the layers of a virtual stage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from meshwright.base.errors import ScheduleError
from meshwright.base.units import Seconds, show_seconds
from meshwright.scenarios._stages import Block, figures, layer_counts
from meshwright.scenarios.schedule import MOST_SLOTS, ScheduleOptions, simulated
from meshwright.sim.pipeline import Durations, run_pipeline
from meshwright.sim.pipeline_timeline import SEND_FORWARD, PipelineTimeline
from meshwright.workload.slots import (
    KINDS,
    Shape,
    Work,
    activation_sets,
    checked_shape,
    crossings,
    forward_only,
    weight_lag,
)

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints
    from meshwright.workload.slots import Slots

_LETTERS: Final = ("F", "B", "I", "W")
_MOST: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotName:
    """A slot: the work of a micro-batch (from 1) on a virtual stage (from 0, along the model)."""

    kind: Literal["forward", "backward", "backward_input", "backward_weight"]
    virtual_stage: int
    micro_batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotTimes:
    """When a slot ran. arrival_s: of its input, null where no message brings it.   gap_s: how long its rank waited.

    delay_s: by how much messages put off its start.
    """

    rank: int
    start_s: float
    end_s: float
    arrival_s: float | None
    gap_s: float
    delay_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RankOrder:
    """One rank's slots: F, B, I (input gradient), W (weight gradient), with virtual stage and micro-batch from 1.

    weight_lag: the most micro-batches by which a weight gradient runs behind its input gradient.
    """

    orders: tuple[str, ...]
    weight_lag: int
    crossings: int
    activation_sets: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of stages that only pass on. finish_s: of every micro-batch.   interval_s: between the last two.

    stalled_s: by stage, how long it could not start because its last output found no room.   most_waiting: by stage,
    the most micro-batches that have arrived and are not started.
    """

    finish_s: tuple[float, ...]
    last_s: float
    interval_s: float
    utilization: float
    stalled_s: tuple[float, ...]
    most_waiting: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """How layers are cut: how many pieces, and each."""

    count: int
    blocks: tuple[Block, ...]


def slot_times(options: ScheduleOptions, slot: SlotName) -> SlotTimes:
    """When one slot of `options.schedule` ran. Raises as `schedule`, and SCH010 for a slot that it does not have."""
    timeline = simulated(options.schedule, options)
    row = _row(timeline, slot)
    free = simulated(options.schedule, replace(options, send="0s", send_back="0s"))
    inputs = np.flatnonzero(timeline.target == row)
    rank = int(timeline.rank[row])
    before = timeline.end[: len(timeline.slots.rank)][timeline.slots.rank == rank]
    free_from = max((end for end in before.tolist() if end <= timeline.start[row]), default=0)
    return SlotTimes(
        rank=rank,
        start_s=timeline.seconds(timeline.start[row]),
        end_s=timeline.seconds(timeline.end[row]),
        arrival_s=None if not inputs.size else timeline.seconds(timeline.end[inputs].max()),
        gap_s=timeline.seconds(timeline.start[row] - free_from),
        delay_s=float(_exact_start(timeline, row) - _exact_start(free, row)),
    )


def rank_order(name: str, stages: int, micro_batches: int, virtual_stages: int, rank: int) -> RankOrder:
    """The slot orders of a rank, one for each that shares its stream. Raises SCH001, SCH003, SCH004, SCH006, SCH010."""
    shape = Shape(
        stages=_counted("stages", stages),
        micro_batches=_counted("micro_batches", micro_batches),
        virtual_stages=_counted("virtual_stages", virtual_stages),
    )
    _check_slots(shape)
    slots = checked_shape(name, shape).slots(shape)
    if not 0 <= rank < stages:
        raise ScheduleError(10, f"there is no rank {rank} of {stages}", f"give a rank from 0 to {stages - 1}")
    pieces = slots.virtual_stages // stages
    return RankOrder(
        orders=tuple(_told(slots, rank, number) for number in range(int(slots.sequence.max()) + 1)),
        weight_lag=weight_lag(slots)[rank],
        crossings=crossings(slots),
        activation_sets=activation_sets(slots, 1) / pieces,
    )


def schedule_bubble(
    *,
    name: str,
    stages: int,
    virtual_stages: int,
    forward_s: Seconds,
    backward_s: Seconds,
    weight_s: Seconds,
    cell_s: Seconds,
) -> dict[str, Any]:
    """The published formula of a schedule: idle seconds, the span that they are of, and for which work it is exact.

    forward_s, backward_s, weight_s: of a rank and micro-batch; weight_s is part of backward_s.   cell_s: of a forward
    beside a backward.   Raises SCH003, SCH004 (stages), SCH010, SCH011 (no formula), SCH012 (weight_s).
    """
    if weight_s > backward_s:
        cause = f"a weight gradient of {show_seconds(weight_s)} in a backward of {show_seconds(backward_s)}"
        raise ScheduleError(12, cause, "give backward_s with its weight gradient, which is part of it")
    ranks, pieces = _counted("stages", stages), _counted("virtual_stages", virtual_stages)
    # as many micro-batches as any schedule asks for: formulas differ in stages alone
    formula = checked_shape(name, Shape(stages=ranks, micro_batches=2 * ranks, virtual_stages=pieces)).BUBBLE
    if formula is None:
        raise ScheduleError(11, f"no formula is known for {name}", "run it: meshwright schedule")
    forward, backward, weight, cell = (
        Fraction(repr(float(time_s))) for time_s in (forward_s, backward_s, weight_s, cell_s)
    )
    work = Work(forward=forward, backward=backward, weight=weight, cell=cell)
    bubble = formula.time(ranks, pieces, work)
    return {"bubble_s": float(bubble), "of": formula.of, "exact_for": formula.where}


def layer_blocks(layers: int, stages: int, virtual_stages: int) -> Blocks:
    """The layers of every virtual stage, those of one rank `stages` apart. Raises SCH005, SCH010."""
    pieces = _counted("stages", stages) * _counted("virtual_stages", virtual_stages)
    _counted("stages x virtual_stages", pieces)
    counts = layer_counts(pieces, layers)
    starts = np.cumsum([0, *counts]).tolist()
    blocks = tuple(
        Block(
            virtual_stage=piece,
            rank=piece % stages,
            first_layer=starts[piece],
            last_layer=starts[piece + 1] - 1,
            layers=count,
        )
        for piece, count in enumerate(counts)
    )
    return Blocks(count=pieces, blocks=blocks)


def stage_line(stages: int, times: str, micro_batches: int, send: str = "0s", buffers: int | None = None) -> Line:
    """Micro-batches that run forward through a line of stages, as independent requests do.

    times: of a micro-batch, one figure or one a stage.   buffers: micro-batches that can wait before a stage; where it
    is full, the stage before keeps its output and does not start. Source: chapter "Supernodes", section 6.2.5.
    Raises SCH006 (sizes), SCH007, SCH009, SCH010.
    """
    shape = Shape(stages=_counted("stages", stages), micro_batches=_counted("micro_batches", micro_batches))
    _check_slots(shape)
    given = figures(times, "seconds", "times", (stages,))
    of_stage = given * stages if len(given) == 1 else given
    if not any(of_stage):
        raise ScheduleError(9, "no stage takes any time", "give times above zero")
    none = (Fraction(0),) * stages
    durations = Durations(
        forward=of_stage,
        backward=none,
        weight=none,
        update=Fraction(0),
        send=figures(send, "seconds", "send", ()) * stages,
        send_back=none,
        buffers=None if buffers is None else _counted("buffers", buffers),
    )
    return _line(run_pipeline(forward_only(shape), durations), sum(of_stage, Fraction(0)) * micro_batches)


# ------------------------------------------------------------------------------------------------------------- helpers


def _line(timeline: PipelineTimeline, work_s: Fraction) -> Line:
    slots = timeline.slots
    stages, count = slots.ranks, len(slots.rank)
    start, end = (column[:count].reshape(stages, -1) for column in (timeline.start, timeline.end))
    arrival = np.zeros_like(start)
    sends = timeline.kind == SEND_FORWARD
    arrival.reshape(-1)[timeline.target[sends]] = timeline.end[sends]
    last = Fraction(end.max().item()) * timeline.tick_s
    could = np.maximum(arrival[:, 1:], end[:, :-1])
    waiting = [_most_waiting(one, other) for one, other in zip(arrival, start, strict=True)]
    finish = tuple(timeline.seconds(moment) for moment in end[-1])
    steady = end[-1][-1] - end[-1][-2] if end.shape[1] > 1 else end[-1][-1]
    return Line(
        finish_s=finish,
        last_s=float(last),
        interval_s=timeline.seconds(steady),
        utilization=float(work_s / (stages * last)),
        stalled_s=tuple(timeline.seconds(lost) for lost in (start[:, 1:] - could).sum(axis=1)),
        most_waiting=tuple(waiting),
    )


def _most_waiting(arrival: Ints, start: Ints) -> int:
    """The most that have arrived and are not started at one time; what arrives as it starts does not wait."""
    moments = np.sort(arrival)
    arrived = np.searchsorted(moments, moments, side="right")
    return int((arrived - np.searchsorted(np.sort(start), moments, side="right")).max())


def _row(timeline: PipelineTimeline, slot: SlotName) -> int:
    slots = timeline.slots
    kind = KINDS.index(slot.kind)
    named = (slots.kind == kind) & (slots.virtual_stage == slot.virtual_stage)
    found = np.flatnonzero(named & (slots.micro_batch == slot.micro_batch - 1))
    if found.size != 1:
        what = f"{slot.kind} of micro-batch {slot.micro_batch} on virtual stage {slot.virtual_stage}"
        raise ScheduleError(10, f"the schedule has no {what}", "see the orders of its ranks: study run rank-order")
    return int(found[0])


def _exact_start(timeline: PipelineTimeline, row: int) -> Fraction:
    return Fraction(timeline.start[row].item()) * timeline.tick_s


def _told(slots: Slots, rank: int, sequence: int) -> str:
    rows = np.flatnonzero((slots.rank == rank) & (slots.sequence == sequence))
    return " ".join(
        f"{_LETTERS[slots.kind[row]]}{slots.virtual_stage[row]}.{slots.micro_batch[row] + 1}" for row in rows.tolist()
    )


def _check_slots(shape: Shape) -> None:
    """No more forwards than can be held. Raises SCH006."""
    slots = shape.stages * shape.micro_batches * shape.virtual_stages
    if slots > MOST_SLOTS:
        cause = f"{shape.stages} stages x {shape.micro_batches} micro-batches x {shape.virtual_stages} virtual stages"
        raise ScheduleError(6, f"{cause} are {slots} forwards", f"give at most {MOST_SLOTS} forwards")


def _counted(name: str, number: int) -> int:
    """A count that is one or more. Raises SCH010."""
    if not 1 <= number <= _MOST:
        raise ScheduleError(10, f"{name} is {number}", f"give a number from 1 to {_MOST}")
    return number
