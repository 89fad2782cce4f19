"""A problem and its times go in; a timeline comes out: what ran when and where, and what held it up.

timeline(problem, times, ...)   rows of start, end, resource and kind, lost runs among them
critical_path(timeline)         what the last end waited for, back to time zero, each step with its reason
busy_s(timeline)                how long each resource ran something

What is held meanwhile is the ledger of `sim.memory`, whose buffers live between times of a timeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from meshwright.sim import loop

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from meshwright.base.numbers import Floats, Ints
    from meshwright.sim.engine import Problem, Times

LOST: Final = "lost"
"""The kind of a run that a failure cancelled."""
Label: TypeAlias = Callable[[int], str]
"""Names a task or a buffer by its number, when somebody reads it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timeline:
    """Columns, one row a run: row i is the run in which task i ended, and behind those stand the lost runs.

    task: whose run a row is.   start, end: in ticks, as the engine found them; -1 where a task never ended.   start_s,
    end_s: the same in seconds, NaN there.   resource: -1 for none.   kind: which of `kinds`; lost runs are of the last,
    `lost`.   cause, why: as in `engine.Times`.   tick_s: seconds of a tick, exactly; 1 where ticks are seconds.
    """

    task: Ints
    start: NDArray[Any]
    end: NDArray[Any]
    start_s: Floats
    end_s: Floats
    resource: Ints
    kind: Ints
    cause: Ints
    why: Ints
    resources: tuple[str, ...]
    kinds: tuple[str, ...]
    label: Label = field(repr=False)
    tick_s: Fraction

    @property
    def tasks(self) -> int:
        """How many tasks there are: the rows before the lost runs."""
        return int(np.count_nonzero(self.kind != len(self.kinds) - 1))

    @property
    def makespan_s(self) -> float:
        """When the last run ended, lost ones included; zero where nothing ran."""
        return self.seconds(self.end.max(initial=0))

    def seconds(self, ticks: Any) -> float:
        """A time or a duration in seconds, rounded once."""
        return float(Fraction(ticks.item()) * self.tick_s)


def timeline(
    problem: Problem, times: Times, *, kind: Ints, kinds: tuple[str, ...], label: Label, tick_s: Fraction
) -> Timeline:
    """Name what the engine found. kind: of each task, which of `kinds`.   tick_s: as of a `Timeline`."""
    assert len(kind) == len(times.start), "a kind for each task"
    assert LOST not in kinds, "the kind of lost runs"
    lost = times.lost
    start, end = np.concatenate([times.start, lost.start]), np.concatenate([times.end, lost.end])
    return Timeline(
        task=np.concatenate([np.arange(len(kind)), lost.task]),
        start=start,
        end=end,
        start_s=np.where(end >= 0, start, np.nan) * float(tick_s),
        end_s=np.where(end >= 0, end, np.nan) * float(tick_s),
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
