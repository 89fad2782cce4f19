"""The calls of all ranks of a run go in; what does not match, never ends, or touches a buffer too early comes out.

Pure: neither processes nor torch are needed, so that the records of a run can be judged anywhere, and a run on a laptop
can be judged for a backend that runs transfers in turn. The contract is that of communication libraries (source:
chapter "Supernodes", section 6.4.3): calls of a group match in order, size and type on all its ranks; every send has
its receive; a call that returned is not done; transfers that need each other are given in one batch.

Not judged: whether numbers are right; two sends of one size that are swapped, as no rank could tell; receives from any
rank; and memory that was freed under a call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Final, cast

from meshwright.base.errors import RunError
from meshwright.base.parse import build, read_json, read_text
from meshwright.base.result import Result, Source, Verdict
from meshwright.verify._meetings import Fault, FaultKind, Meeting, Turns, fault_of, lines_of, meetings_of
from meshwright.verify._waits import cycles_of
from meshwright.workload.calls import TRANSFERS, Call, Event, RankCalls, Span, Wait

if TYPE_CHECKING:
    from pathlib import Path

_EVENT: Final = cast("type[Event]", Event)
_CHAPTER: Final = Source(key="calls", title='Chapter "Supernodes"', place="section 6.4.3", read="2026-11-29")
_NOT_MODELLED: Final = (
    "whether values are right, and sends of one size that are swapped",
    "receives from any rank and functional collectives, which are not recorded",
    "memory freed under a call, and what reads it past torch's operators",
)


def check_calls(records: Sequence[RankCalls], turns: Turns) -> Result:
    """A yes where nothing is wrong; else a no that names the first fault. Raises RUN041 as `faults_of` does."""
    faults = list(faults_of(records, turns))
    calls = sum(len(record.calls) for record in records)
    groups = {call.group for record in records for call in record.calls}
    if faults:
        more = f" ({len(faults) - 1} more)" if len(faults) > 1 else ""
        verdict = Verdict(answer="no", text=faults[0].text + more)
    else:
        where = f"{len(records)} ranks in {len(groups)} groups"
        text = f"{calls} calls of {where} match and end, and no buffer is used before its wait"
        verdict = Verdict(answer="yes", text=text)
    return Result(
        command="verify run",
        verdict=verdict,
        inputs={"model": None, "system": None, "job": None, "layout": None, "options": {"turns": turns}},
        not_modelled=_NOT_MODELLED,
        sources=(_CHAPTER,),
        body={"calls": calls, "faults": faults},
    )


def check_files(paths: Sequence[Path], turns: Turns) -> Result:
    """As `check_calls`, of the records in files. Raises as it and `read_calls` do."""
    return check_calls([read_calls(path) for path in paths], turns)


def read_calls(path: Path) -> RankCalls:
    """One rank's record, as `runtime.calls.recorded` wrote it; a last line that was cut off is left out.

    Raises IO010 to IO015, and RUN041 for a file that is no record.
    """
    lines = read_text(path).split("\n")
    if not lines[0].startswith('{"rank": '):
        raise RunError(41, f"{path} is no record of calls", "give the files that a run with --check wrote")
    told = [read_json(line, f"{path}:{number}") for number, line in enumerate(lines[:-1], 1)]
    ended = bool(told) and told[-1] == {"ended": True}
    events = tuple(build(_EVENT, item, path.name) for item in told[1 : len(told) - ended])
    return RankCalls(rank=build(int, told[0]["rank"], path.name), events=events, ended=ended)


def faults_of(records: Sequence[RankCalls], turns: Turns) -> tuple[Fault, ...]:
    """All faults: calls that differ first, then those that are missing, cycles, buffers, and what broken ranks lack.

    Raises RUN041 where a rank's record stands twice, a rank of a group has none, or a wait names no call before it.
    """
    by_rank = {record.rank: record for record in sorted(records, key=lambda record: record.rank)}
    _check_records(records, by_rank)
    meetings = meetings_of(by_rank)
    differing: list[Fault] = []
    missing: list[Fault] = []
    for line in lines_of(meetings):
        fault = _differing(line, by_rank)
        if fault is not None:
            differing.append(fault)
        else:
            missing += _missing(line, by_rank)
    lacking = [fault for fault in missing if fault.other is None or by_rank[fault.other].ended]
    broken = [fault for fault in missing if fault not in lacking]  # that a rank which stopped lacks says the least
    early = [fault for record in by_rank.values() for fault in _early(record)]
    return (*differing, *lacking, *cycles_of(meetings, by_rank, turns), *early, *broken)


def _check_records(records: Sequence[RankCalls], by_rank: Mapping[int, RankCalls]) -> None:
    fix = "give one record of every rank of one run"
    if len(by_rank) < len(records):
        raise RunError(41, "two records of one rank", fix)
    for record in by_rank.values():
        calls = 0
        for event in record.events:
            if isinstance(event, Call):
                calls += 1
                absent = [rank for rank in event.group.ranks if rank not in by_rank]
                if absent or record.rank not in event.group.ranks:
                    cause = (
                        f"rank {record.rank} calls {event.group.label}, of which rank {(*absent, record.rank)[0]} is"
                    )
                    raise RunError(41, f"{cause} {'not recorded' if absent else 'no member'}", fix)
                if event.kind in TRANSFERS and event.peer not in event.group.ranks:
                    raise RunError(41, f"rank {record.rank}, call {calls - 1}: {event.text}, which is no member", fix)
            elif isinstance(event, Wait) and not 0 <= event.awaited < calls:
                raise RunError(41, f"rank {record.rank} waits for call {event.awaited}, which it has not made", fix)


# -------------------------------------------------------------------------------------------------- what does not match


def _differing(line: Sequence[Meeting], by_rank: Mapping[int, RankCalls]) -> Fault | None:
    """The first mismatch; what follows it means nothing."""
    for meeting in line:
        sides = [meeting.sides[rank] for rank in meeting.wanted if rank in meeting.sides]
        each = meeting.group.ranks == meeting.wanted and by_rank[sides[0].rank].calls[sides[0].call].gives
        pairs = combinations(sides, 2) if each else ((sides[0], other) for other in sides[1:])
        for one, other in pairs:
            mine, theirs = by_rank[one.rank].calls[one.call], by_rank[other.rank].calls[other.call]
            kind = _difference(meeting, (one.rank, mine), (other.rank, theirs))
            if kind is not None:
                text = (
                    f"{kind} differs: {meeting.text}: rank {one.rank} has {mine.text} (its call {one.call}), "
                    f"rank {other.rank} has {theirs.text} (its call {other.call})"
                )
                return fault_of(kind, meeting, one, other, text)
    return None


def _difference(meeting: Meeting, one: tuple[int, Call], other: tuple[int, Call]) -> FaultKind | None:
    (rank, mine), (peer, theirs) = one, other
    if meeting.transfer:
        sizes = mine.elements == theirs.elements
        return "size" if not sizes else "dtype" if mine.dtype != theirs.dtype else None
    if mine.kind != theirs.kind:
        return "order"
    if mine.kind == "all_to_all":
        here, there = meeting.group.ranks.index(rank), meeting.group.ranks.index(peer)
        sizes = mine.gives[there] == theirs.takes[here] and mine.takes[there] == theirs.gives[here]
    else:
        sizes = mine.elements == theirs.elements
    same: dict[FaultKind, bool] = {
        "size": sizes,
        "dtype": mine.dtype == theirs.dtype,
        "root": mine.peer == theirs.peer,
        "operation": mine.operation == theirs.operation,
    }
    return next((kind for kind, holds in same.items() if not holds), None)


def _missing(line: Sequence[Meeting], by_rank: Mapping[int, RankCalls]) -> list[Fault]:
    """By rank, the first call of a line that it does not make."""
    found: dict[int, Fault] = {}
    for meeting in line:
        for absent in meeting.wanted:
            if absent in meeting.sides or absent in found:
                continue
            there = next(iter(meeting.sides.values()))
            call = by_rank[there.rank].calls[there.call]
            kind: FaultKind = "missing_call"
            if meeting.transfer:
                kind = "send_without_receive" if call.kind == "send" else "receive_without_send"
            stopped = "" if by_rank[absent].ended else "; that rank stopped early"
            text = (
                f"{kind.replace('_', ' ')}: {meeting.text}: rank {there.rank} has {call.text} (its call {there.call}), "
                f"rank {absent} has nothing for it{stopped}"
            )
            found[absent] = fault_of(kind, meeting, there, (absent, None), text)
    return list(found.values())


# -------------------------------------------------------------------------------------- buffers that a call still holds


def _early(record: RankCalls) -> list[Fault]:
    """Buffers read or overwritten before the wait for their call, and calls that nobody waits for."""
    held: dict[int, Call] = {}
    found: dict[tuple[int, FaultKind], Fault] = {}
    number = 0
    for event in record.events:
        if isinstance(event, Wait):
            held.pop(event.awaited, None)
            continue
        is_call = isinstance(event, Call)
        reads, writes = (event.reads, event.writes) if is_call else (event.read, event.written)
        by, other = (f"its call {number} ({event.text})", number) if is_call else (event.operator, None)
        for awaited, call in held.items():
            kind = _clash(call, reads, writes)
            if kind is not None:
                told = f"its buffer is used by {by} before the wait"
                found.setdefault((awaited, kind), _alone(kind, record, awaited, other, told))
        if is_call:
            held[number] = event
            number += 1
    if record.ended:
        for awaited in held:
            found[awaited, "never_awaited"] = _alone(
                "never_awaited", record, awaited, None, "the rank ends without a wait"
            )
    return list(found.values())


def _clash(call: Call, reads: Sequence[Span], writes: Sequence[Span]) -> FaultKind | None:
    if any(span.meets(own) for span in writes for own in (*call.reads, *call.writes)):
        return "overwritten_before_wait"
    return "read_before_wait" if any(span.meets(own) for span in reads for own in call.writes) else None


def _alone(kind: FaultKind, record: RankCalls, number: int, other_call: int | None, told: str) -> Fault:
    """A fault of one rank."""
    call = record.calls[number]
    return Fault(
        kind=kind,
        group=call.group,
        rank=record.rank,
        call=number,
        other=None if other_call is None else record.rank,
        other_call=other_call,
        text=f"{kind.replace('_', ' ')}: {call.group.label}: rank {record.rank}, call {number} ({call.text}): {told}",
    )
