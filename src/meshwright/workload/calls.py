"""What a rank asked of its groups, in order, as plain data: calls, waits, and uses of buffers that a call still holds.

A run records it (`runtime/calls`), `verify/calls` reads and judges it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

TRANSFERS: Final = ("send", "recv")
"""Calls of two ranks; all other kinds are collectives of a whole group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """name: one for all its ranks.   axis: what it is called in texts.   ranks: of the world, in the group's order."""

    name: str
    axis: str
    ranks: tuple[int, ...]

    @property
    def label(self) -> str:
        """`tp [0, 1]`."""
        return f"{self.axis} {list(self.ranks)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Bytes of a buffer, from the first to behind the last. storage: a number of the rank, one for each allocation."""

    storage: int
    start: int
    stop: int

    def meets(self, other: Span) -> bool:
        """Whether a byte is in both."""
        return self.storage == other.storage and self.start < other.stop and other.start < self.stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Work that a rank gave to a group; that it is given says nothing of when it is done.

    kind: all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, gather, scatter, barrier, send, recv.
    elements: what must be equal on all ranks: of one rank's share where shares are gathered or scattered.
    gives, takes: of all_to_all, elements to and from each rank in the group's order.   peer: the rank of the world that
    is the root, sends, or receives; None for none.   operation: sum, max...; empty for none.   tag: of a transfer.
    batch: transfers of one number are given together, so that none waits for another; None for one alone.
    reads, writes: buffers that are not the rank's own before it has waited.
    """

    group: Group
    kind: str
    elements: int
    dtype: str
    peer: int | None = None
    operation: str = ""
    gives: tuple[int, ...] = ()
    takes: tuple[int, ...] = ()
    tag: int = 0
    batch: int | None = None
    reads: tuple[Span, ...] = ()
    writes: tuple[Span, ...] = ()

    @property
    def text(self) -> str:
        """`broadcast of 8 float32 from rank 0`."""
        if self.kind == "barrier":
            return "barrier"
        way = {"send": "to", "recv": "from", "broadcast": "from", "scatter": "from"}.get(self.kind, "at")
        where = "" if self.peer is None else f" {way} rank {self.peer}"
        what = f" ({self.operation})" if self.operation else ""
        size = f"{list(self.gives)} for {list(self.takes)}" if self.gives else f"{self.elements}"
        return f"{self.kind} of {size} {self.dtype}{where}{what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """The rank goes on once a call is done. awaited: which of its calls, from 0."""

    awaited: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """An operator that worked on bytes near those of a call that was not waited for."""

    operator: str
    read: tuple[Span, ...] = ()
    written: tuple[Span, ...] = ()


Event: TypeAlias = Call | Wait | Use


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCalls:
    """All of one rank, in its order. ended: False where an error broke the recording off."""

    rank: int
    events: tuple[Event, ...]
    ended: bool = True

    @property
    def calls(self) -> tuple[Call, ...]:
        """Without waits and uses; a call's number is its place here."""
        return tuple(event for event in self.events if isinstance(event, Call))
