"""A pipeline's timeline and the bytes of what it keeps go in; what every rank holds over time, and its peak, come out.

Source: chapter "Training systems", sections 10.1.2 and 10.3.2. Held are the saved sets of forwards, until the end of
the backward (of the weight gradient where it is split off), and both copies of every message: the sender's from the end
of its slot to the end of the transfer, the receiver's from the start of the transfer to the start of the slot that
takes it. Parameters, gradients, optimizer state and temporaries are no part of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.sim.memory import Buffers, Memory, memory
from meshwright.sim.pipeline_timeline import SEND_BACKWARD, SEND_FORWARD
from meshwright.workload.slots import BACKWARD, BACKWARD_WEIGHT, FORWARD

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints
    from meshwright.sim.pipeline_timeline import PipelineTimeline

WHAT: Final = ("saved", "sent", "received")
"""The kinds of its buffers: saved sets, senders' copies, receivers' copies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Bytes. saved: of a micro-batch, by virtual stage.   activation, gradient: of a message."""

    saved: tuple[int, ...]
    activation: int
    gradient: int


def pipeline_memory(timeline: PipelineTimeline, sizes: Sizes) -> Memory:
    """What every rank holds over time, in the ticks of the timeline; buffers are of the kinds `WHAT`."""
    saved, ends = _saved(timeline)
    sends = np.flatnonzero((timeline.kind == SEND_FORWARD) | (timeline.kind == SEND_BACKWARD))
    message = np.where(timeline.kind[sends] == SEND_FORWARD, sizes.activation, sizes.gradient)
    takers = timeline.begun_with[timeline.target[sends]]
    of_saved = np.array(sizes.saved, np.int64)[timeline.virtual_stage[saved]]
    parts = (
        (timeline.rank[saved], timeline.start[saved], timeline.end[ends], of_saved),
        (timeline.rank[sends], timeline.end[timeline.source[sends]], timeline.end[sends], message),
        (timeline.peer[sends], timeline.start[sends], timeline.start[takers], message),
    )
    rank, alloc, free, size = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return memory(
        Buffers(
            rank=rank,
            alloc=alloc,
            free=free,
            size_bytes=size,
            kind=np.repeat(np.arange(len(WHAT)), [len(part[0]) for part in parts]),
            kinds=WHAT,
            resident_bytes=np.zeros(timeline.slots.ranks, np.int64),
        )
    )


def _saved(timeline: PipelineTimeline) -> tuple[Ints, Ints]:
    """Rows of forwards, and of the slot whose end frees what each saved; forwards without a backward save nothing."""
    slots = timeline.slots
    name = slots.virtual_stage * slots.micro_batches + slots.micro_batch
    freeing = np.full(slots.virtual_stages * slots.micro_batches, -1, np.int64)
    rows = np.flatnonzero((slots.kind == BACKWARD) | (slots.kind == BACKWARD_WEIGHT))
    freeing[name[rows]] = rows
    forwards = np.flatnonzero(slots.kind == FORWARD)
    ends = freeing[name[forwards]]
    return forwards[ends >= 0], ends[ends >= 0]
