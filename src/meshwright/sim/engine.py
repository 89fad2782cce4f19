"""Tasks, what they wait for and what they run on go in; when each ran, and which one let it start, come out.

The one engine of every timeline: pipeline schedules, buckets, checkpoints, storage. Everything is a column, so that a
quarter of a million tasks are a few arrays; `sim.timeline` names what comes out, `sim.loop` states every tie rule.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from meshwright.base.errors import ScheduleError
from meshwright.sim import loop

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from meshwright.base.numbers import Bools, Ints

LOG: Final = logging.getLogger(__name__)
Queue: TypeAlias = Literal["fifo", "priority", "shared"]
_KINDS: Final = {"fifo": loop.FIFO, "priority": loop.PRIORITY, "shared": loop.SHARED}
COMPILED_FROM: Final = 100_000
"""Tasks from which loading numba is repaid; below it the same function runs as it is (docs/benchmarks.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """What tasks run on.

    queue: `fifo` and `priority` run one task at a time, of those that wait the earliest ready, or that of the lowest
    tie; `shared` runs all at once, each at an equal share of `rate` (work a second).
    """

    name: str
    queue: Queue = "priority"
    rate: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A resource stops at `at`: what it runs is cancelled, and runs again, whole, once the resource is back.

    back: when it works again; infinity where it never does, and then what still needs it never runs (`Times.never`).
    """

    resource: int
    at: float
    back: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Edges:
    """`after` waits for the end of `before`, or where `at_start` says so for its start. Columns, one row an edge."""

    before: Ints
    after: Ints
    at_start: Bools


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """Columns of tasks, and what they share.

    duration: ticks, as int64 and exact, or seconds; on a shared resource its work.   resource: its number, -1 for none
    (a task that starts when it is ready).   tie: which goes first where two could, the lowest; part of the question.
    release: not before this time.   A problem with a shared resource is in seconds. Nothing is negative.
    """

    duration: NDArray[Any]
    resource: Ints
    edges: Edges
    resources: tuple[Resource, ...]
    tie: Ints
    release: NDArray[Any]
    failures: tuple[Failure, ...] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lost:
    """Runs that a failure cancelled, by end and task. Columns as in `Times`; `task` is whose run it was."""

    task: Ints
    start: NDArray[Any]
    end: NDArray[Any]
    cause: Ints
    why: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Times:
    """Columns, one row a task, in the unit of its problem: the run in which it ended.

    why: what it waited for last (`loop.FREE` to `loop.DOWN`).   cause: the task of it: the last one it waited for, or
    the one before it on its resource; -1 for none.   lost: the runs that failures cancelled.   never: the tasks that
    never ended, because a resource that they or what they wait for need never came back; their start is -1.
    events: ends, failures, returns and releases that the engine handled.
    """

    start: NDArray[Any]
    end: NDArray[Any]
    cause: Ints
    why: Ints
    lost: Lost
    never: Ints
    events: int


def simulate(problem: Problem, *, compiled: bool | None = None) -> Times:
    """Run every task. Raises SCH002 when some never start, because they wait for each other.

    compiled: by numba or as it is; None decides by size, and by whether numba (extra `numba`) is installed. A numba
    that does not work is logged, and the same function runs as it is.
    """
    _check(problem)
    tasks = len(problem.duration)
    if compiled is None:
        loaded = _compiled.cache_info().currsize > 0
        compiled = (loaded or tasks >= COMPILED_FROM) and find_spec("numba") is not None
    call = _compiled(problem.duration.dtype.kind) if compiled else _plain
    columns, done = _run(problem, call)
    if done < tasks:
        _refuse_deadlock(problem, call)
    return _times(columns)


def _check(problem: Problem) -> None:
    """What the caller owes us."""
    tasks, resources = len(problem.duration), len(problem.resources)
    assert problem.duration.dtype.kind in "if", "durations are ticks (integers) or seconds (floats)"
    assert len(problem.resource) == len(problem.tie) == len(problem.release) == tasks, "columns of one length"
    assert not tasks or (problem.resource.min() >= -1 and problem.resource.max() < resources), "a resource that is"
    assert not tasks or (problem.duration.min() >= 0 and problem.release.min() >= 0), "nothing is negative"
    shared = [item for item in problem.resources if item.queue == "shared"]
    assert not shared or problem.duration.dtype.kind == "f", "a problem with a shared resource is in seconds"
    assert all(0 < item.rate < math.inf for item in shared), "a shared resource has a rate"
    assert all(0 <= item.at <= item.back for item in problem.failures), "a failure ends after it starts"


def _run(problem: Problem, call: _Call) -> tuple[_Columns, int]:
    """The filled columns, and how many tasks ended; again with more room while failures cancel more than fit."""
    room = len(problem.failures)
    while True:
        columns = _columns(problem, room)
        filled, done = call(columns)
        if done != loop.OVERFLOW:
            return filled, done
        room = 4 * room + len(problem.duration)


def _plain(columns: _Columns) -> tuple[_Columns, int]:
    """`loop.run` as it is, on lists, which Python reads faster than arrays."""
    lists = tuple(column.tolist() for column in columns)
    done = loop.run(*lists)
    filled = (np.array(lists[place], columns[place].dtype) for place in range(_FILLED.start, _FILLED.stop))
    return (*columns[: _FILLED.start], *filled, *columns[_FILLED.stop :]), done


@cache
def _compiled(kind: str) -> _Call:
    """`loop.run` for ticks (`i`) or seconds (`f`), compiled and kept on disk for the next process; else as it is.

    Tried on a problem of one task, so that what numba cannot do here (import, compile, keep) shows before the run.
    """
    one, edges = np.zeros(1, np.int64), np.zeros(0, np.int64)
    duration = one.astype(np.int64 if kind == "i" else np.float64)
    no_edges = Edges(before=edges, after=edges, at_start=edges.astype(np.bool_))
    resources = (Resource(name=""),)
    trial = Problem(duration=duration, resource=one, edges=no_edges, resources=resources, tie=one, release=duration)
    refused: list[str] = []
    for keep in (True, False):
        try:
            run = _jitted(keep=keep)
            run(*_columns(trial, 0))
        except Exception as problem:  # noqa: BLE001 - whatever a foreign compiler raises, there is a twin
            refused.append(f"{type(problem).__name__}: {problem}".partition("\n")[0])
        else:
            return lambda columns: (columns, run(*columns))
    LOG.warning("numba does not work here (%s): the event loop runs uncompiled, many times slower", refused[-1])
    return _plain


def _jitted(*, keep: bool) -> Callable[..., int]:
    import numba  # noqa: PLC0415 - an extra, loaded where a problem repays it

    return numba.njit(cache=keep)(loop.run)


def _refuse_deadlock(problem: Problem, call: _Call) -> None:
    """Raises SCH002 unless every task would end if nothing failed: then a resource that never comes back holds them."""
    tasks = len(problem.duration)
    columns, done = _run(replace(problem, failures=()), call)
    if done == tasks:
        assert any(item.back == math.inf for item in problem.failures), "only a failure without end holds a task"
        return
    first = int(_times(columns).never[0])
    cause = f"{tasks - done} of {tasks} tasks wait for each other, the first of them number {first}"
    raise ScheduleError(2, cause, "give an order in which every task comes after those that it waits for")


def _times(columns: _Columns) -> Times:
    start, end, cause, why, *lost, counts = columns[_FILLED]
    task, lost_start, lost_end, lost_cause, lost_why = (column[: counts[0]] for column in lost)
    order = np.lexsort((task, lost_end))
    ended = end >= 0
    return Times(
        start=np.where(ended, start, -1),
        end=end,
        cause=np.where(ended, cause, -1),
        why=why,
        lost=Lost(
            task=task[order],
            start=lost_start[order],
            end=lost_end[order],
            cause=lost_cause[order],
            why=lost_why[order],
        ),
        never=np.flatnonzero(~ended),
        events=int(counts[1]),
    )


_FILLED: Final = slice(12, 22)
"""Where `start` to `counts`, which `loop.run` fills, stand among its arguments."""


def _columns(problem: Problem, room: int) -> _Columns:
    """The arguments of `loop.run`, in its order: fresh, contiguous, of one type each. room: cancelled runs that fit."""
    tasks, resources, failures = len(problem.duration), len(problem.resources), len(problem.failures)
    kind = np.int64 if problem.duration.dtype.kind == "i" else np.float64
    # Of each task at most its end and one event of its resource are in the heap, of each failure three.
    events = 2 * tasks + 3 * failures + 2
    whole, never = np.int64, -1
    back = [item.back if item.back < math.inf else -1 for item in problem.failures]
    return (
        np.array(problem.duration, kind),
        np.array(problem.resource, whole),
        np.array(problem.tie, whole),
        np.array(problem.release, kind),
        np.bincount(problem.edges.after, minlength=tasks),
        *_edges(problem.edges, tasks),
        np.array([_KINDS[item.queue] for item in problem.resources], whole),
        np.array([item.rate for item in problem.resources], np.float64),
        np.array([item.at for item in problem.failures], kind),
        np.array([item.resource for item in problem.failures], whole),
        np.array(back, kind),
        np.full(tasks, never, kind),
        np.full(tasks, never, kind),
        np.full(tasks, never, whole),
        np.zeros(tasks, whole),
        np.zeros(room, whole),
        np.zeros(room, kind),
        np.zeros(room, kind),
        np.zeros(room, whole),
        np.zeros(room, whole),
        np.zeros(2, whole),
        np.zeros(tasks, np.bool_),
        np.zeros(tasks, kind),
        np.zeros(tasks, kind),
        np.full(tasks, never, whole),
        np.full(tasks, never, whole),
        np.full(resources, never, whole),
        np.full(resources, never, whole),
        np.full(resources, never, whole),
        np.zeros(resources, whole),
        np.zeros(resources, whole),
        np.zeros(resources, np.float64),
        np.zeros(resources, kind),
        np.full(resources, never, kind),
        np.zeros(resources, np.bool_),
        np.zeros(events, kind),
        np.zeros(events, whole),
        np.zeros(tasks + 1, whole),
        np.zeros(resources, whole),
        np.zeros(resources, whole),
    )


def _edges(edges: Edges, tasks: int) -> tuple[Ints, Ints]:
    """`first_edge` and `edge_to` of `loop.run`: by task, those at its start first, in the given order."""
    side = 2 * edges.before.astype(np.int64) + ~edges.at_start
    first = np.zeros(2 * tasks + 1, np.int64)
    np.cumsum(np.bincount(side, minlength=2 * tasks), out=first[1:])
    return first, edges.after.astype(np.int64)[np.argsort(side, kind="stable")]


_Columns: TypeAlias = "tuple[NDArray[Any], ...]"
_Call: TypeAlias = "Callable[[_Columns], tuple[_Columns, int]]"
