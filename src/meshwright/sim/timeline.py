"""A problem and its times go in; a timeline comes out: what ran when and where, what held it up, what memory it took.

timeline(problem, times, ...)   rows of start, end, resource and kind, lost runs among them
critical_path(timeline)         what the last end waited for, back to time zero, each step with its reason
busy_s(timeline)                how long each resource ran something
memory(timeline, buffers)       bytes of each rank as a function of time, the peak, and what was alive then
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from meshwright.sim import loop

if TYPE_CHECKING:
    from meshwright.base.numbers import Bools, Floats, Ints
    from meshwright.sim.engine import Problem, Times

LOST: Final = "lost"
"""The kind of a run that a failure cancelled."""
Label: TypeAlias = Callable[[int], str]
"""Names a task or a buffer by its number, when somebody reads it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timeline:
    """Columns, one row a run: row i is the run in which task i ended, and behind those stand the lost runs.

    task: whose run a row is.   start_s, end_s: NaN where a task never ended.   resource: -1 for none.   kind: which of
    `kinds`; lost runs are of the last, `lost`.   cause, why: as in `engine.Times`.   tick_s: seconds of one unit of the
    problem's time.
    """

    task: Ints
    start_s: Floats
    end_s: Floats
    resource: Ints
    kind: Ints
    cause: Ints
    why: Ints
    resources: tuple[str, ...]
    kinds: tuple[str, ...]
    label: Label = field(repr=False)
    tick_s: float

    @property
    def tasks(self) -> int:
        """How many tasks there are: the rows before the lost runs."""
        return int(np.count_nonzero(self.kind != len(self.kinds) - 1))

    @property
    def makespan_s(self) -> float:
        """When the last run ended, lost ones included; zero where nothing ran."""
        ends = self.end_s[~np.isnan(self.end_s)]
        return float(ends.max()) if len(ends) else 0.0


def timeline(
    problem: Problem, times: Times, *, kind: Ints, kinds: tuple[str, ...], label: Label, tick_s: float
) -> Timeline:
    """Name what the engine found. kind: of each task, which of `kinds`.   tick_s: 1 where the problem is in seconds."""
    assert len(kind) == len(times.start), "a kind for each task"
    assert LOST not in kinds, "the kind of lost runs"
    lost = times.lost
    ran = times.end >= 0
    return Timeline(
        task=np.concatenate([np.arange(len(kind)), lost.task]),
        start_s=np.concatenate([np.where(ran, times.start, np.nan), lost.start]) * tick_s,
        end_s=np.concatenate([np.where(ran, times.end, np.nan), lost.end]) * tick_s,
        resource=np.concatenate([problem.resource, problem.resource[lost.task]]),
        kind=np.concatenate([kind, np.full(len(lost.task), len(kinds))]),
        cause=np.concatenate([times.cause, lost.cause]),
        why=np.concatenate([times.why, lost.why]),
        resources=tuple(item.name for item in problem.resources),
        kinds=(*kinds, LOST),
        label=label,
        tick_s=tick_s,
    )


# ------------------------------------------------------------------------------------------------------- critical path


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One run of the critical path, and why it started when it did."""

    row: int
    label: str
    start_s: float
    end_s: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CriticalPath:
    """row: rows of `timeline` from the first run to the last end, each started by the one before it.

    The first of them started at time zero, at its release, or when its resource came back from a failure: times that
    no other task moves.
    """

    timeline: Timeline
    row: Ints

    @property
    def length_s(self) -> float:
        """From the start of the first run to the end of the last."""
        known = self.timeline
        return float(known.end_s[self.row[-1]] - known.start_s[self.row[0]]) if len(self.row) else 0.0

    def by_kind_s(self) -> dict[str, float]:
        """Seconds of the path in each kind, zero where it has none. A run counts up to where the next one starts."""
        known = self.timeline
        ends = np.append(known.start_s[self.row[1:]], known.end_s[self.row[-1:]])
        spent = np.bincount(known.kind[self.row], ends - known.start_s[self.row], len(known.kinds))
        return dict(zip(known.kinds, spent.tolist(), strict=True))

    def steps(self) -> Iterator[Step]:
        """The path in words, from first to last."""
        known = self.timeline
        for row in self.row.tolist():
            yield Step(
                row=row,
                label=known.label(int(known.task[row])),
                start_s=float(known.start_s[row]),
                end_s=float(known.end_s[row]),
                reason=_reason(known, row),
            )


def critical_path(known: Timeline) -> CriticalPath:
    """What the last end (of several the lowest row) waited for, back to the run that waited for none."""
    if np.isnan(known.end_s).all():
        return CriticalPath(timeline=known, row=np.zeros(0, np.int64))
    tasks = known.tasks
    # A start that others waited for is that of the task's first run: its first lost one, or its only one.
    first_run = np.arange(tasks)
    first_run[known.task[: tasks - 1 : -1]] = np.arange(len(known.task) - 1, tasks - 1, -1)
    before = np.where(known.why == loop.START, first_run[known.cause], known.cause).tolist()
    row = int(np.nanargmax(known.end_s))
    rows: list[int] = []
    while row >= 0:
        rows.append(row)
        row = before[row] if known.cause[row] >= 0 else -1
    return CriticalPath(timeline=known, row=np.array(rows[::-1], np.int64))


def _reason(known: Timeline, row: int) -> str:
    """Why a run started when it did."""
    why, cause = int(known.why[row]), int(known.cause[row])
    if why == loop.RELEASE:
        return f"released at {known.start_s[row]:.6g} s"
    if why == loop.DOWN:
        return f"{known.resources[known.resource[row]]} down until {known.start_s[row]:.6g} s"
    if why == loop.BUSY:
        return f"{known.resources[known.resource[row]]} busy with {known.label(cause)}"
    if why == loop.FREE:
        return "waits for nothing"
    return f"waits for {known.label(cause)}{' to start' if why == loop.START else ''}"


# ---------------------------------------------------------------------------------------------------------- busy time


def busy_s(known: Timeline) -> Floats:
    """Seconds in which each resource ran something, lost runs included; several at once on a shared one count once."""
    ran = (known.resource >= 0) & ~np.isnan(known.end_s)
    resource, start, end = known.resource[ran], known.start_s[ran], known.end_s[ran]
    order = np.lexsort((end, start, resource))
    resource, start, end = resource[order], start[order], end[order]
    bounds = np.searchsorted(resource, np.arange(len(known.resources) + 1))
    busy = np.zeros(len(known.resources))
    for number, (low, high) in enumerate(pairwise(bounds.tolist())):
        if high > low:
            latest = np.maximum.accumulate(end[low:high])
            since = np.maximum(start[low:high], np.concatenate([[0.0], latest[:-1]]))
            busy[number] = np.maximum(latest - since, 0).sum()
    return busy


# ------------------------------------------------------------------------------------------------------------- memory


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Buffers:
    """Columns, one row a buffer, and what stays.

    memory: which rank's.   size_bytes.   first_task, first_at_end: allocated at the start or at the end of this task.
    last_task, last_at_end: freed so.   resident_bytes: of each memory, what is there all the time.
    Of a task that failures cancelled the run counts in which it ended; what a lost run held is not modelled. A buffer
    whose first task never ended is never allocated, one whose last never ended is never freed.
    """

    memory: Ints
    size_bytes: Ints
    first_task: Ints
    first_at_end: Bools
    last_task: Ints
    last_at_end: Bools
    resident_bytes: Ints
    label: Label = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alive:
    """One buffer at a peak."""

    buffer: int
    label: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Memory:
    """Bytes of each memory as a function of time: rows first[m] to first[m + 1] are those of memory m.

    time_s, level_bytes: what it holds from this time to the next row's; its first row is time zero.   peak_bytes,
    peak_s: its highest level, and when it is first reached.   start_s, end_s: the life of each buffer (NaN: never
    allocated; infinity: never freed).
    """

    buffers: Buffers
    first: Ints
    time_s: Floats
    level_bytes: Ints
    peak_bytes: Ints
    peak_s: Floats
    start_s: Floats
    end_s: Floats

    def final_bytes(self) -> Ints:
        """What each memory holds when all is over: `resident_bytes`, where everything was freed."""
        return self.level_bytes[self.first[1:] - 1]

    def alive(self, memory: int) -> tuple[Alive, ...]:
        """The buffers that a memory held at its peak, the largest first, then by number."""
        known, at = self.buffers, self.peak_s[memory]
        held = np.flatnonzero((known.memory == memory) & (self.start_s <= at) & (self.end_s > at))
        held = held[np.argsort(-known.size_bytes[held], kind="stable")]
        return tuple(
            Alive(buffer=number, label=known.label(number), size_bytes=int(known.size_bytes[number]))
            for number in held.tolist()
        )


def memory(known: Timeline, buffers: Buffers) -> Memory:
    """What each memory holds over time. At one time frees come before allocations.

    So a buffer that is freed when it is allocated, by a task of no length, takes no room.
    """
    start = _when(known, buffers.first_task, buffers.first_at_end)
    end = np.where(np.isnan(ended := _when(known, buffers.last_task, buffers.last_at_end)), np.inf, ended)
    lives = ~np.isnan(start) & (end != start)
    assert (end[lives] > start[lives]).all(), "a buffer is freed after it is allocated"
    freed = lives & np.isfinite(end)
    memories = len(buffers.resident_bytes)
    # One event at time zero for what is resident, one for each allocation and for each free.
    place = np.concatenate([np.arange(memories), buffers.memory[lives], buffers.memory[freed]])
    time = np.concatenate([np.zeros(memories), start[lives], end[freed]])
    change = np.concatenate([buffers.resident_bytes, buffers.size_bytes[lives], -buffers.size_bytes[freed]])
    order = np.lexsort((time, place))
    place, time, total = place[order], time[order], np.cumsum(change[order])
    # What happens at one time in one memory is one step, so that frees and allocations of that time are summed.
    final = np.append((place[1:] != place[:-1]) | (time[1:] != time[:-1]), np.ones(min(len(place), 1), np.bool_))
    place, time, total = place[final], time[final], total[final]
    first = np.searchsorted(place, np.arange(memories + 1))
    before = np.concatenate([[0], total])[first[:-1]]  # what the memories before it hold in the end
    level = total - np.repeat(before, np.diff(first))
    peaks = np.array([low + level[low:high].argmax() for low, high in pairwise(first.tolist())], np.int64)
    return Memory(
        buffers=buffers,
        first=first,
        time_s=time,
        level_bytes=level,
        peak_bytes=level[peaks],
        peak_s=time[peaks],
        start_s=np.where(lives, start, np.nan),
        end_s=end,
    )


def _when(known: Timeline, task: Ints, at_end: Bools) -> Floats:
    return np.where(at_end, known.end_s[task], known.start_s[task])
