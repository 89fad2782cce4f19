"""Records of all ranks go in; which calls belong together, and what a fault among them is told as, come out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from meshwright.workload.calls import TRANSFERS, Group, RankCalls

Turns: TypeAlias = Literal["free", "pair", "group"]
"""Which calls of a rank wait for those before them.

free: none, as in gloo.   pair: transfers between two ranks, both ways, as in NCCL, where a pair shares a communicator.
group: transfers and collectives of a group, as in NCCL where communicators are made at the start.
"""
FaultKind: TypeAlias = Literal[
    "order",
    "size",
    "dtype",
    "root",
    "operation",
    "missing_call",
    "send_without_receive",
    "receive_without_send",
    "cycle",
    "read_before_wait",
    "overwritten_before_wait",
    "never_awaited",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One step of a cycle: a rank, its call that is not done, and the rank that this one waits for."""

    rank: int
    call: int
    text: str
    waits_for: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """rank, call: where it shows; a call's number is its place among all calls of its rank, from 0.

    other, other_call: the rank on the other side and its call, null where it has none.   cycle: of a cyclic wait.
    """

    kind: FaultKind
    group: Group
    rank: int
    call: int
    other: int | None
    other_call: int | None
    text: str
    cycle: tuple[Link, ...] = ()


class Side(NamedTuple):
    """One rank's part in a meeting."""

    rank: int
    call: int


@dataclass(slots=True, kw_only=True, eq=False)
class Meeting:
    """Calls that are one: the n-th collective of a group, or the n-th transfer of one rank to another.

    place: n, from 0.   wanted: the ranks that must come.
    """

    group: Group
    place: int
    wanted: tuple[int, ...]
    transfer: bool
    sides: dict[int, Side] = field(default_factory=dict[int, "Side"])

    @property
    def text(self) -> str:
        """Which it is."""
        if self.transfer:
            return f"{self.group.label}, transfer {self.place} from rank {self.wanted[0]} to rank {self.wanted[-1]}"
        return f"{self.group.label}, collective {self.place}"


def meetings_of(by_rank: Mapping[int, RankCalls]) -> list[Meeting]:
    found: dict[tuple[Any, ...], Meeting] = {}
    for rank, record in by_rank.items():
        counts: defaultdict[tuple[Any, ...], int] = defaultdict(int)
        for number, call in enumerate(record.calls):
            ends = (rank, call.peer) if call.kind == "send" else (call.peer, rank)
            line = (*ends, call.tag) if call.kind in TRANSFERS else ()
            # a rank that sends to itself has both sides on one line
            which = (call.group, *line)
            seen = (*which, call.kind) if line else which
            key, counts[seen] = (*which, counts[seen]), counts[seen] + 1
            wanted = tuple(dict.fromkeys(end for end in ends if end is not None)) if line else call.group.ranks
            meeting = found.setdefault(
                key, Meeting(group=call.group, place=key[-1], wanted=wanted, transfer=bool(line))
            )
            meeting.sides[rank] = Side(rank, number)
    return list(found.values())


def lines_of(meetings: Sequence[Meeting]) -> list[list[Meeting]]:
    """Those of collectives of one group, or of transfers of one line, in order."""
    found: defaultdict[tuple[Any, ...], list[Meeting]] = defaultdict(list)
    for meeting in meetings:
        found[meeting.group, meeting.wanted if meeting.transfer else ()].append(meeting)
    return [sorted(items, key=lambda item: item.place) for items in found.values()]


def fault_of(kind: FaultKind, meeting: Meeting, one: Side, other: tuple[int, int | None], text: str) -> Fault:
    """A fault between two ranks. other: the second one and its call, None where it makes none."""
    return Fault(
        kind=kind,
        group=meeting.group,
        rank=one.rank,
        call=one.call,
        other=other[0],
        other_call=other[1],
        text=text,
    )
