"""Slot orders and how long each slot and transfer takes go in; when each ran, on the event engine, comes out.

The contract (source: chapter "Training systems", section 10.3.2): a rank has one compute stream; every ordered pair of
ranks has one wire, which carries one message at a time in the order in which they came; a message leaves when its slot
ends; an update runs on every rank after the last gradient of all ranks. Where a stream could run two slots, an input
gradient or a whole backward goes before a forward, that before a weight gradient, then the lower name: direction,
virtual stage, micro-batch (`Ties`). Two virtual stages on one rank hand over without a message.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from functools import partial
from math import lcm
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from meshwright.sim.engine import Edges, Problem, Resource, simulate
from meshwright.sim.pipeline_timeline import (
    GRADIENTS,
    SEND_BACKWARD,
    SEND_FORWARD,
    TASKS,
    UPDATE,
    PipelineTimeline,
    label,
)
from meshwright.sim.timeline import timeline
from meshwright.workload.slots import BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT, FORWARD, KINDS, Slots

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from meshwright.base.numbers import Ints

Ties: TypeAlias = Literal["direction", "micro_batch"]
"""Of two slots of one kind, which goes first: that of direction 0, or that of the earlier micro-batch of its half."""
Cells: TypeAlias = Literal["divisible", "indivisible"]
"""Slots of one cell: each on its own, one after the other; or as one, which waits for and ends with both."""
_FIRST: Final = {BACKWARD: 1, BACKWARD_INPUT: 1, FORWARD: 2, BACKWARD_WEIGHT: 3}
_UPDATE_LAST: Final = 4
_MOST_TICKS: Final = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """Seconds, exactly. By virtual stage: forward, backward (whole), weight (the part of it that is a weight gradient).

    update: on every rank.   send, send_back: of an activation and of a gradient over the link between ranks r and
    r + 1, by r; the last is that between the last and the first rank.   buffers: activations that a virtual stage can
    have received or be receiving without having started on them, None for any number. Where it is full the stage
    before holds its output, and starts no other forward before that has begun to leave.
    """

    forward: tuple[Fraction, ...]
    backward: tuple[Fraction, ...]
    weight: tuple[Fraction, ...]
    update: Fraction
    send: tuple[Fraction, ...]
    send_back: tuple[Fraction, ...]
    buffers: int | None = None

    def without_transfers(self) -> Durations:
        """The same work with messages that take no time, no update and no bound on buffers."""
        free = (Fraction(0),) * len(self.send)
        return Durations(
            forward=self.forward,
            backward=self.backward,
            weight=self.weight,
            update=Fraction(0),
            send=free,
            send_back=free,
        )


def run_pipeline(
    slots: Slots, durations: Durations, *, ties: Ties = "direction", cells: Cells = "divisible"
) -> PipelineTimeline:
    """Run every slot once. Raises SCH002 when slots wait for each other."""
    first, last = _cells(slots, cells)
    messages, edges = dependencies(slots, durations.buffers, first, last)
    tick, columns = _ticks(slots, durations, messages)
    problem = _problem(slots, messages, edges, columns, slot_ties(slots, ties))
    count, none = len(slots.rank), np.full(1 + slots.ranks, -1)

    def named(column: Ints) -> Ints:
        return np.concatenate([column, column[messages.source], none])

    kind = np.concatenate([slots.kind, messages.kind, [GRADIENTS], np.full(slots.ranks, UPDATE)])
    names = (named(slots.virtual_stage), named(slots.micro_batch), named(slots.direction))
    ran = timeline(
        problem, simulate(problem), kind=kind, kinds=TASKS, label=partial(label, (kind, *names)), tick_s=tick
    )
    return PipelineTimeline(
        **{item.name: getattr(ran, item.name) for item in fields(ran)},
        slots=slots,
        rank=np.concatenate([slots.rank, messages.sender, [-1], np.arange(slots.ranks)]),
        peer=np.concatenate([np.full(count, -1), messages.receiver, none]),
        virtual_stage=names[0],
        micro_batch=names[1],
        direction=names[2],
        source=np.concatenate([np.full(count, -1), messages.source, none]),
        target=np.concatenate([np.full(count, -1), messages.target, none]),
        begun_with=first,
        problem=problem,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Messages:
    """Columns, one row a message between ranks: the slots that send and take it, its kind of task, and the ranks."""

    source: Ints
    target: Ints
    kind: Ints
    sender: Ints
    receiver: Ints


def _problem(
    slots: Slots, messages: Messages, edges: Edges, columns: tuple[NDArray[Any], NDArray[Any], Any], tie: Ints
) -> Problem:
    """Tasks in the order of `PipelineTimeline`; a rank's stream and every wire that is used are resources."""
    of_slots, of_sends, update = columns
    ranks = slots.ranks
    wires, wire = np.unique(messages.sender * ranks + messages.receiver, return_inverse=True)
    of_message = np.where(of_sends == 0, -1, ranks + wire)  # what takes no time is not waited for
    after_slots = _UPDATE_LAST * 2 * slots.virtual_stages * slots.micro_batches
    duration = np.concatenate([of_slots, of_sends, np.zeros(1, of_slots.dtype), np.full(ranks, update)])
    return Problem(
        duration=duration,
        resource=np.concatenate([slots.rank, of_message, [-1], np.arange(ranks)]).astype(np.int64),
        edges=edges,
        resources=(
            *(Resource(name=f"rank {rank}") for rank in range(ranks)),
            *(Resource(name=f"wire {pair // ranks} to {pair % ranks}", queue="fifo") for pair in wires),
        ),
        tie=np.concatenate([tie, tie[messages.source], np.full(1 + ranks, after_slots)]),
        release=np.zeros(len(duration), of_slots.dtype),
    )


# -------------------------------------------------------------------------------------------------- what waits for what


def dependencies(slots: Slots, buffers: int | None, first: Ints, last: Ints) -> tuple[Messages, Edges]:
    """The messages between ranks, and every edge. first, last: of the cell of each slot.

    Edges are between tasks in the order of `PipelineTimeline`: slots, messages, the last gradient, updates.
    """
    places = _Places.of(slots)
    source, target, kind = _handovers(places)
    sent = slots.rank[source] != slots.rank[target]
    messages = Messages(
        source=source[sent],
        target=target[sent],
        kind=kind[sent],
        sender=slots.rank[source[sent]],
        receiver=slots.rank[target[sent]],
    )
    rows = np.arange(len(messages.source)) + len(slots.rank)
    gradients = len(slots.rank) + len(rows)
    ends = _ends(slots)
    edges = [
        _edges(*_in_order(slots)),
        _edges(*_own(slots, places)),
        _edges(last[source[~sent]], first[target[~sent]]),
        _edges(last[messages.source], rows),
        _edges(rows, first[messages.target]),
        _edges(ends, np.full(len(ends), gradients)),
        _edges(np.full(slots.ranks, gradients), gradients + 1 + np.arange(slots.ranks)),
    ]
    if buffers is not None:
        edges += _backpressure(slots, messages, buffers, first)
    return messages, _joined(edges)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Places:
    """Rows of slots by virtual stage and micro-batch, -1 where there is none."""

    forward: Ints
    gradient: Ints
    weight: Ints

    @classmethod
    def of(cls, slots: Slots) -> _Places:
        """Each slot by its name."""
        size = (slots.virtual_stages, slots.micro_batches)

        def table(*kinds: int) -> Ints:
            found = np.full(size, -1, np.int64)
            rows = np.flatnonzero(np.isin(slots.kind, kinds))
            found[slots.virtual_stage[rows], slots.micro_batch[rows]] = rows
            return found

        return cls(forward=table(FORWARD), gradient=table(BACKWARD, BACKWARD_INPUT), weight=table(BACKWARD_WEIGHT))


def _handovers(places: _Places) -> tuple[Ints, Ints, Ints]:
    """Rows that hand an activation or a gradient on, rows that take it, and which of the two it is."""
    activations = np.stack([places.forward[:-1].ravel(), places.forward[1:].ravel()])
    gradients = np.stack([places.gradient[1:].ravel(), places.gradient[:-1].ravel()])
    both = np.concatenate([activations, gradients], axis=1)
    kinds = np.repeat([SEND_FORWARD, SEND_BACKWARD], [activations.shape[1], gradients.shape[1]])
    there = (both >= 0).all(axis=0)
    # in the order of the slots that send, so that equal messages have the numbers of their senders
    order = np.argsort(both[0][there], kind="stable")
    return both[0][there][order], both[1][there][order], kinds[there][order]


def _in_order(slots: Slots) -> tuple[Ints, Ints]:
    """Each slot and the next one of its slot order."""
    rows = np.lexsort((np.arange(len(slots.rank)), slots.sequence, slots.rank))
    same = (np.diff(slots.rank[rows]) == 0) & (np.diff(slots.sequence[rows]) == 0)
    return rows[:-1][same], rows[1:][same]


def _ends(slots: Slots) -> Ints:
    """The last row of each slot order."""
    rows = np.lexsort((np.arange(len(slots.rank)), slots.sequence, slots.rank))
    same = (np.diff(slots.rank[rows]) == 0) & (np.diff(slots.sequence[rows]) == 0)
    return rows[np.append(~same, True)]


def _own(slots: Slots, places: _Places) -> tuple[Ints, Ints]:
    """A backward after its own forward and a weight gradient after its input gradient, where no slot order says so."""
    pairs = np.concatenate(
        [
            np.stack([places.forward.ravel(), places.gradient.ravel()]),
            np.stack([places.gradient.ravel(), places.weight.ravel()]),
        ],
        axis=1,
    )
    before, after = pairs[:, (pairs >= 0).all(axis=0)]
    told = (slots.rank[before] == slots.rank[after]) & (slots.sequence[before] == slots.sequence[after])
    needed = ~(told & (before < after))
    return before[needed], after[needed]


def _cells(slots: Slots, cells: Cells) -> tuple[Ints, Ints]:
    """For each slot the first and the last of its cell; itself where cells are divisible."""
    rows = np.arange(len(slots.rank))
    inside = np.flatnonzero(slots.cell >= 0)
    if cells == "divisible" or not inside.size:
        return rows, rows
    number = slots.rank[inside] * (slots.cell.max() + 1) + slots.cell[inside]
    _, which = np.unique(number, return_inverse=True)
    first, last = np.full(which.max() + 1, len(rows)), np.zeros(which.max() + 1, np.int64)
    np.minimum.at(first, which, inside)
    np.maximum.at(last, which, inside)
    begins, ends = rows.copy(), rows.copy()
    begins[inside], ends[inside] = first[which], last[which]
    return begins, ends


def _backpressure(slots: Slots, messages: Messages, buffers: int, first: Ints) -> list[Edges]:
    """An activation leaves once the one `buffers` before it is worked on; the next forward starts once it leaves."""
    line = slots.direction[messages.source] * slots.virtual_stages + slots.virtual_stage[messages.source]
    order = np.lexsort((messages.source, line))
    order = order[messages.kind[order] == SEND_FORWARD]
    sources, targets, rows, line = messages.source[order], messages.target[order], order + len(slots.rank), line[order]
    room = line[buffers:] == line[:-buffers]
    following = line[1:] == line[:-1]
    return [
        _edges(first[targets[:-buffers][room]], rows[buffers:][room], at_start=True),
        _edges(rows[:-1][following], first[sources[1:][following]], at_start=True),
    ]


def _edges(before: Ints, after: Ints, *, at_start: bool = False) -> Edges:
    return Edges(before=before, after=after, at_start=np.full(len(before), at_start))


def _joined(edges: list[Edges]) -> Edges:
    return Edges(
        before=np.concatenate([item.before for item in edges]).astype(np.int64),
        after=np.concatenate([item.after for item in edges]).astype(np.int64),
        at_start=np.concatenate([item.at_start for item in edges]),
    )


# ------------------------------------------------------------------------------------------------ ties, and exact times


def slot_ties(slots: Slots, ties: Ties) -> Ints:
    """What goes first, the lowest: kind, then the name."""
    kind = np.array([_FIRST[number] for number in range(len(KINDS))])[slots.kind]
    stages, batches = slots.virtual_stages, slots.micro_batches
    within = slots.virtual_stage * batches + slots.micro_batch
    if ties == "direction":
        return (kind * 2 + slots.direction) * stages * batches + within
    own = slots.micro_batch - slots.direction * (batches // 2)
    return ((kind * batches + own) * 2 + slots.direction) * stages + slots.virtual_stage


def _ticks(
    slots: Slots, durations: Durations, messages: Messages
) -> tuple[Fraction, tuple[NDArray[Any], NDArray[Any], Any]]:
    """Seconds of a tick; and in ticks each slot, each message and the update. Seconds where ticks are too many."""
    inputs = tuple(whole - part for whole, part in zip(durations.backward, durations.weight, strict=True))
    by_kind = (durations.forward, durations.backward, inputs, durations.weight)
    by_link = (durations.send, durations.send_back)
    figures = [number for figure in (*by_kind, *by_link, (durations.update,)) for number in figure]
    tick = Fraction(1, lcm(*(number.denominator for number in figures)))
    # more than any timeline of these figures has: all its tasks in turn, each as long as the longest
    exact = max(figures) / tick * (len(slots.rank) * 2 + slots.ranks) < _MOST_TICKS

    def counted(figure: tuple[Fraction, ...]) -> NDArray[Any]:
        return np.array([int(number / tick) for number in figure] if exact else [float(number) for number in figure])

    of_kind = np.stack([counted(figure) for figure in by_kind])
    of_link = np.stack([counted(figure) for figure in by_link])
    apart = np.abs(messages.sender - messages.receiver)
    link = np.where(apart == 1, np.minimum(messages.sender, messages.receiver), slots.ranks - 1)
    of_sends = of_link[np.where(messages.kind == SEND_FORWARD, 0, 1), link]
    columns = (of_kind[slots.kind, slots.virtual_stage], of_sends, counted((durations.update,))[0])
    return tick if exact else Fraction(1), columns
