"""A pipeline's timeline and the bytes of what it keeps go in; what every rank holds over time, and its peak, come out.

Source: chapter "Training systems", sections 10.1.2 and 10.3.2. Held are the saved sets of forwards, until the end of
the backward (of the weight gradient where it is split off), and both copies of every message: the sender's from the end
of its slot to the end of the transfer, the receiver's from the start of the transfer to the start of the slot that
takes it. At one time what ends is freed before what starts. Parameters, gradients, optimizer state and temporaries are
no part of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.sim.pipeline import SEND_BACKWARD, SEND_FORWARD, PipelineTimeline
from meshwright.workload.slots import BACKWARD, BACKWARD_WEIGHT, FORWARD

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from meshwright.base.numbers import Ints

WHAT: Final = ("saved", "sent", "received")
"""Saved sets, senders' copies, receivers' copies: what a reservation is, by its number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Bytes. saved: of a micro-batch, by virtual stage.   activation, gradient: of a message."""

    saved: tuple[int, ...]
    activation: int
    gradient: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reservations:
    """Columns, one row a reservation; times in the ticks of the timeline. task: whose set or message it is."""

    rank: Ints
    start: NDArray[Any]
    end: NDArray[Any]
    held_bytes: Ints
    what: Ints
    task: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """The most that a rank holds, from when, and what is alive then by `WHAT`."""

    peak_bytes: int
    at_s: float
    by_what_bytes: dict[str, int]


def reservations(timeline: PipelineTimeline, sizes: Sizes) -> Reservations:
    """What is held, for all ranks."""
    saved, ends = _saved(timeline)
    sends = np.flatnonzero((timeline.kind == SEND_FORWARD) | (timeline.kind == SEND_BACKWARD))
    message = np.where(timeline.kind[sends] == SEND_FORWARD, sizes.activation, sizes.gradient)
    takers = timeline.begun_with[timeline.target[sends]]
    parts = (
        (saved, timeline.rank[saved], timeline.start[saved], timeline.end[ends], _of(sizes, timeline, saved)),
        (sends, timeline.rank[sends], timeline.end[timeline.source[sends]], timeline.end[sends], message),
        (sends, timeline.peer[sends], timeline.start[sends], timeline.start[takers], message),
    )
    task, rank, start, end, held = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    what = np.repeat(np.arange(len(WHAT)), [len(part[0]) for part in parts])
    kept = (end > start) & (held > 0)  # what is freed as it comes is never alive
    return Reservations(
        rank=rank[kept], start=start[kept], end=end[kept], held_bytes=held[kept], what=what[kept], task=task[kept]
    )


def held(reserved: Reservations, ranks: int) -> list[tuple[NDArray[Any], Ints]]:
    """By rank: the times at which something changes, and the bytes held from each on."""
    return [_levels(reserved, rows) for rows in _by_rank(reserved, ranks)]


def peaks(timeline: PipelineTimeline, reserved: Reservations) -> list[Peak]:
    """The first peak of each rank; one of zero bytes where nothing is held."""
    found: list[Peak] = []
    for rows in _by_rank(reserved, timeline.slots.ranks):
        moments, level = _levels(reserved, rows)
        if not len(level):
            found.append(Peak(peak_bytes=0, at_s=0.0, by_what_bytes=dict.fromkeys(WHAT, 0)))
            continue
        top = int(level.argmax())
        at = moments[top]
        alive = rows[(reserved.start[rows] <= at) & (reserved.end[rows] > at)]
        by_what = {
            name: int(reserved.held_bytes[alive[reserved.what[alive] == number]].sum())
            for number, name in enumerate(WHAT)
        }
        found.append(Peak(peak_bytes=int(level[top]), at_s=timeline.seconds(at), by_what_bytes=by_what))
    return found


def _by_rank(reserved: Reservations, ranks: int) -> list[Ints]:
    order = np.argsort(reserved.rank, kind="stable")
    return np.split(order, np.searchsorted(reserved.rank[order], np.arange(1, ranks)))


def _levels(reserved: Reservations, rows: Ints) -> tuple[NDArray[Any], Ints]:
    times = np.concatenate([reserved.start[rows], reserved.end[rows]])
    change = np.concatenate([reserved.held_bytes[rows], -reserved.held_bytes[rows]])
    moments, which = np.unique(times, return_inverse=True)
    net = np.zeros(len(moments), np.int64)
    np.add.at(net, which, change)
    return moments, np.cumsum(net)


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


def _of(sizes: Sizes, timeline: PipelineTimeline, rows: Ints) -> Ints:
    return np.array(sizes.saved, np.int64)[timeline.virtual_stage[rows]]
