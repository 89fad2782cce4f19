"""Slot orders go in; for one rank, its slots with what each receives and sends, and every channel's order, come out.

A message is the rows (or the gradient) of one micro-batch over one boundary of one direction. Between two ranks the
messages of one way run in one order, that of the sender's slots, and a receiver asks for them in the same order; a
backend without tags matches them so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meshwright.base.errors import RunError
from meshwright.workload.slots import BACKWARD, BACKWARD_WEIGHT, FORWARD

if TYPE_CHECKING:
    from meshwright.workload.slots import Slots


class Message(NamedTuple):
    """rows: True for rows that go forward, False for a gradient that comes back.   to: the virtual stage it is for."""

    rows: bool
    direction: int
    to: int
    micro_batch: int

    @property
    def words(self) -> str:
        """What it is."""
        what = "rows" if self.rows else "gradient"
        return f"the {what} of micro-batch {self.micro_batch} for virtual stage {self.to}"


def rows_for(direction: int, stage: int, micro_batch: int) -> Message:
    """Rows that a virtual stage begins a forward with."""
    return Message(rows=True, direction=direction, to=stage, micro_batch=micro_batch)


def gradient_for(direction: int, stage: int, micro_batch: int) -> Message:
    """The gradient that a virtual stage begins a backward with."""
    return Message(rows=False, direction=direction, to=stage, micro_batch=micro_batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One slot of a rank. receives, sends: a message and the pipeline rank it comes from or goes to; None for none.

    last: the last backward, or weight gradient, of its virtual stage in the step.
    """

    kind: int
    direction: int
    virtual_stage: int
    micro_batch: int
    receives: tuple[int, Message] | None
    sends: tuple[int, Message] | None
    last: bool

    @property
    def part(self) -> tuple[int, int]:
        """Which module of the rank it runs."""
        return (self.direction, self.virtual_stage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What a pipeline rank does in a step.

    turns: in order.   parts: the (direction, virtual stage) it holds, sorted.   incoming: by sender, in the order in
    which it sends.   pairs: of the whole pipeline, (sender, receiver), sorted.   splits: whether any backward is split.
    """

    turns: tuple[Turn, ...]
    parts: tuple[tuple[int, int], ...]
    incoming: Mapping[int, tuple[Message, ...]]
    pairs: tuple[tuple[int, int], ...]
    splits: bool


def orders_of(slots: Slots, rank: int) -> Orders:
    """Of one pipeline rank. Raises RUN014 where its slots are not in one order: `sim` resolves those of two."""
    turns, sent = _turns(slots, rank), _sent(slots)
    incoming: dict[int, list[Message]] = {}
    for sender, receiver, message in sent:
        if receiver == rank:
            incoming.setdefault(sender, []).append(message)
    return Orders(
        turns=turns,
        parts=parts_of(slots, rank),
        incoming={sender: tuple(messages) for sender, messages in incoming.items()},
        pairs=tuple(sorted({(sender, receiver) for sender, receiver, _ in sent})),
        splits=bool((slots.kind == BACKWARD_WEIGHT).any()),
    )


def parts_of(slots: Slots, rank: int) -> tuple[tuple[int, int], ...]:
    """The (direction, virtual stage) that a pipeline rank holds."""
    return tuple((int(way), int(stage)) for way, stage in np.argwhere(slots.placement == rank))


def _turns(slots: Slots, rank: int) -> tuple[Turn, ...]:
    rows = np.flatnonzero(slots.rank == rank)
    if len(np.unique(slots.sequence[rows])) > 1:
        raise RunError(14, f"rank {rank} has two slot orders", "resolve them into one, as `meshwright schedule` does")
    ends = {_part(slots, row): row for row in rows.tolist() if slots.kind[row] in {BACKWARD, BACKWARD_WEIGHT}}
    return tuple(
        Turn(
            kind=int(slots.kind[row]),
            direction=int(slots.direction[row]),
            virtual_stage=int(slots.virtual_stage[row]),
            micro_batch=int(slots.micro_batch[row]),
            receives=_neighbour(slots, row, receives=True),
            sends=_neighbour(slots, row, receives=False),
            last=ends.get(_part(slots, row)) == row,
        )
        for row in rows.tolist()
    )


def _part(slots: Slots, row: int) -> tuple[int, int]:
    return (int(slots.direction[row]), int(slots.virtual_stage[row]))


def _neighbour(slots: Slots, row: int, *, receives: bool) -> tuple[int, Message] | None:
    """What a slot takes from, or gives to, another rank; stages of one rank hand over by themselves."""
    kind, (way, stage) = int(slots.kind[row]), _part(slots, row)
    if kind == BACKWARD_WEIGHT:
        return None
    step = 1 if kind == FORWARD else -1
    other = stage - step if receives else stage + step
    if not 0 <= other < slots.virtual_stages:
        return None
    there, here = int(slots.placement[way, other]), int(slots.placement[way, stage])
    if there == here:
        return None
    to = stage if receives else other
    return there, (rows_for if kind == FORWARD else gradient_for)(way, to, int(slots.micro_batch[row]))


def _sent(slots: Slots) -> list[tuple[int, int, Message]]:
    """Every message with its sender and receiver, those of one sender in its order."""
    found: list[tuple[int, int, Message]] = []
    for row, sender in enumerate(slots.rank.tolist()):
        given = _neighbour(slots, row, receives=False)
        if given is not None:
            found.append((sender, *given))
    return found
