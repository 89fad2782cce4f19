"""Calls that belong together go in; ranks that wait for each other for ever come out, as cycles with every rank named.

Ranks go on, one step after the other, until nothing moves: a call is done when all its ranks have come to it and are
done with what stands before it. What then still waits, and for whom, is a graph.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from meshwright.verify._meetings import Fault, Link, Meeting, Side, Turns, fault_of
from meshwright.workload.calls import TRANSFERS, Call, RankCalls, Wait


def cycles_of(meetings: Sequence[Meeting], by_rank: Mapping[int, RankCalls], turns: Turns) -> list[Fault]:
    """Cyclic waits, each once."""
    progress = _run(meetings, by_rank, turns)
    found: dict[frozenset[Side], Fault] = {}
    passed: set[Meeting] = set()
    for stuck in progress.blocked.values():
        cycle = _cycle_behind(stuck, progress, passed)
        if cycle:
            found.setdefault(frozenset(cycle), _cyclic(cycle, progress, by_rank))
    return list(found.values())


@dataclass(slots=True, kw_only=True, eq=False)
class _Progress:
    """How far all ranks come. at: by call, its meeting.   before: by call, those of its rank that it waits for.

    broken: ranks that stopped early.   done: meetings.   arrived: calls that were made.   blocked: by rank, the call
    that it waits for for ever.
    """

    at: Mapping[Side, Meeting]
    before: Mapping[Side, tuple[Side, ...]]
    broken: frozenset[int]
    done: set[Meeting] = field(default_factory=set["Meeting"])
    arrived: set[Side] = field(default_factory=set["Side"])
    blocked: dict[int, Side] = field(default_factory=dict[int, "Side"])

    def finish(self, meeting: Meeting) -> bool:
        """Whether a meeting is done: all have come, and each is done with what stands before it."""
        if meeting not in self.done and all(
            (side := meeting.sides.get(rank)) is not None
            and side in self.arrived
            and all(self.at[item] in self.done for item in self.before[side])
            for rank in meeting.wanted
        ):
            self.done.add(meeting)
        return meeting in self.done

    def holds_up(self, meeting: Meeting) -> list[Side]:
        """The calls that must be done first: those in which ranks are stuck that have not come, and those before it."""
        found: list[Side] = []
        for rank in meeting.wanted:
            side = meeting.sides.get(rank)
            if side is None:
                # a rank that has ended never comes; one that was broken off where it waited might have come
                found += [self.blocked[rank]] if rank in self.broken and rank in self.blocked else []
            elif side not in self.arrived:
                found.append(self.blocked[rank])
            else:
                found += [item for item in self.before[side] if self.at[item] not in self.done]
        return found


def _run(meetings: Sequence[Meeting], by_rank: Mapping[int, RankCalls], turns: Turns) -> _Progress:
    """Let every rank go on until it waits for what is not done, again and again until nothing moves."""
    at = {side: meeting for meeting in meetings for side in meeting.sides.values()}
    before = {side: held for record in by_rank.values() for side, held in _held_back(record, turns).items()}
    broken = frozenset(rank for rank, record in by_rank.items() if not record.ended)
    following: defaultdict[Side, list[Side]] = defaultdict(list)
    for side, held in before.items():
        for item in held:
            following[item].append(side)
    progress = _Progress(at=at, before=before, broken=broken)
    steps = {rank: iter(_steps(record)) for rank, record in by_rank.items()}
    waiting: defaultdict[Meeting, list[int]] = defaultdict(list)
    ready = list(by_rank)
    while ready:
        rank = ready.pop()
        progress.blocked.pop(rank, None)
        for side, waits in steps[rank]:
            if waits:
                if at[side] not in progress.done:
                    progress.blocked[rank] = side
                    waiting[at[side]].append(rank)
                    break
                continue
            progress.arrived.add(side)
            moved = [at[side]]
            while moved:
                meeting = moved.pop()
                if meeting not in progress.done and progress.finish(meeting):
                    ready += waiting.pop(meeting, [])
                    moved += [at[item] for one in meeting.sides.values() for item in following[one]]
    return progress


def _steps(record: RankCalls) -> list[tuple[Side, bool]]:
    """Calls, and waits for calls, in order."""
    found: list[tuple[Side, bool]] = []
    number = 0
    for event in record.events:
        if isinstance(event, Call):
            found.append((Side(record.rank, number), False))
            number += 1
        elif isinstance(event, Wait):
            found.append((Side(record.rank, event.awaited), True))
    return found


def _held_back(record: RankCalls, turns: Turns) -> dict[Side, tuple[Side, ...]]:
    """By call, those of the same rank that it comes after: one, or all of the batch before."""
    found: dict[Side, tuple[Side, ...]] = {}
    last: dict[Any, tuple[int | None, list[Side], tuple[Side, ...]]] = {}
    for number, call in enumerate(record.calls):
        side, channel = Side(record.rank, number), _channel(call, turns)
        if channel is None:
            found[side] = ()
            continue
        batch, members, held = last.get(channel, (None, [], ()))
        if call.batch is not None and call.batch == batch:
            members.append(side)
        else:
            held = tuple(members)
            last[channel] = (call.batch, [side], held)
        found[side] = held
    return found


def _channel(call: Call, turns: Turns) -> Any:
    """What a rank's calls go through in turn; None for what waits for no other."""
    if turns == "group":
        return call.group
    return (call.group, call.peer) if turns == "pair" and call.kind in TRANSFERS else None


def _cycle_behind(stuck: Side, progress: _Progress, passed: set[Meeting]) -> list[Side]:
    """Follow what holds a call up until a call comes again; empty where it ends. passed: meetings without a cycle."""
    path = [stuck]
    untried = [progress.holds_up(progress.at[stuck])]
    while path:
        here = progress.at[path[-1]]
        if untried[-1] and here not in passed:
            following = untried[-1].pop(0)
            meeting = progress.at[following]
            places = [place for place, side in enumerate(path) if progress.at[side] is meeting]
            if places:
                return [*path[places[0] + 1 :], following]
            path.append(following)
            untried.append(progress.holds_up(meeting))
        else:
            passed.add(here)
            path.pop()
            untried.pop()
    return []


def _cyclic(cycle: Sequence[Side], progress: _Progress, by_rank: Mapping[int, RankCalls]) -> Fault:
    first = min(range(len(cycle)), key=lambda place: cycle[place])
    turned = [*cycle[first:], *cycle[:first]]
    links: list[Link] = []
    for side, following in zip(turned, (*turned[1:], turned[0]), strict=True):
        text = by_rank[side.rank].calls[side.call].text
        links.append(Link(rank=side.rank, call=side.call, text=text, waits_for=following.rank))
    told = ", which waits for ".join(f"rank {link.rank} in its call {link.call} ({link.text})" for link in links)
    meeting, last = progress.at[turned[0]], turned[-1]
    text = f"cyclic wait: {meeting.group.label}: {told}, which waits for rank {turned[0].rank}"
    fault = fault_of("cycle", meeting, turned[0], last, text)
    return replace(fault, cycle=tuple(links))
