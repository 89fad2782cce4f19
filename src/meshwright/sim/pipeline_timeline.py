"""What a pipeline's timeline says beyond any other: which slot or message a task is, and what ranks wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.sim.timeline import Timeline
from meshwright.workload.slots import KINDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from meshwright.base.numbers import Ints
    from meshwright.sim.engine import Problem
    from meshwright.workload.slots import Slots

SEND_FORWARD, SEND_BACKWARD, GRADIENTS, UPDATE = range(len(KINDS), len(KINDS) + 4)
TASKS: Final = (*KINDS, "send_forward", "send_backward", "gradients", "update")
"""What a task is, by its number: slots, messages, the moment of the last gradient, updates."""
_SHORT: Final = {
    "forward": "F",
    "backward": "B",
    "backward_input": "B",
    "backward_weight": "W",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PipelineTimeline(Timeline):
    """A timeline, one row a task: the slots in their order, then messages, the last gradient, the updates.

    kind: into `TASKS`.   rank: whose stream, or who sends; -1 for the last gradient.   peer: who receives, else -1.
    source, target: of a message, the rows of the slot that sends and of the one that waits.   begun_with: of a slot,
    the first of its cell.   problem: what the engine ran.
    """

    slots: Slots
    rank: Ints
    peer: Ints
    virtual_stage: Ints
    micro_batch: Ints
    direction: Ints
    source: Ints
    target: Ints
    begun_with: Ints
    problem: Problem

    @property
    def gradients_s(self) -> float:
        """When the last gradient of all ranks is there."""
        return self.seconds(self.last_gradient())

    def last_gradient(self) -> Any:
        """When the last gradient of all ranks is there, in ticks."""
        return self.end[self.kind == GRADIENTS][0]

    def busy(self) -> NDArray[Any]:
        """By rank, the ticks that its stream computes, the update apart."""
        slots = len(self.slots.rank)
        spent = np.zeros(self.slots.ranks, self.start.dtype)
        np.add.at(spent, self.slots.rank, self.end[:slots] - self.start[:slots])
        return spent

    def idle_s(self) -> list[float]:
        """By rank, how long its stream waits until the last gradient of all ranks is there."""
        waited = np.maximum(self.last_gradient() - self.busy(), 0)  # rounded seconds may add up to more than their span
        return [self.seconds(ticks) for ticks in waited]

    def spans(self) -> NDArray[Any]:
        """By rank, the ticks from its first slot's start to its last slot's end, the update apart."""
        slots = len(self.slots.rank)
        order = np.argsort(self.slots.rank, kind="stable")
        first = np.searchsorted(self.slots.rank[order], np.arange(self.slots.ranks))
        starts, ends = self.start[:slots][order], self.end[:slots][order]
        return np.maximum.reduceat(ends, first) - np.minimum.reduceat(starts, first)

    def step_without_barrier_s(self) -> float:
        """From one step's start to the next where steps repeat this timeline and no rank waits for all gradients.

        A rank updates after its own last slot and then starts its next step, so that the longest span of a rank
        decides. Where stages are unequal a rank that is late into its next step may wait less in it, and steps come
        closer than that. Source: Qi et al., "Zero Bubble Pipeline Parallelism" (arXiv:2401.10241), section 4.
        """
        updates = self.kind == UPDATE
        return self.seconds(self.spans().max() + (self.end[updates] - self.start[updates]).max())


def label(columns: tuple[Ints, Ints, Ints, Ints], task: int) -> str:
    """`F3 v1` is the forward of micro-batch 3 in virtual stage 1. columns: kind, virtual stage, micro-batch, direction.

    Micro-batches and virtual stages are counted from 0; those that entered at the last rank bear a small letter.
    """
    kind, virtual_stage, micro_batch, direction = (int(column[task]) for column in columns)
    if kind == UPDATE:
        return "update"
    if kind == GRADIENTS:
        return "last gradient"
    place = f"{micro_batch} v{virtual_stage}"
    if kind in {SEND_FORWARD, SEND_BACKWARD}:
        return f"{'activation' if kind == SEND_FORWARD else 'gradient'} {place}"
    letter = _SHORT[TASKS[kind]]
    return f"{letter.lower() if direction == 1 else letter}{place}"
