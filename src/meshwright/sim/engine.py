"""Tasks, what they wait for and what they run on go in; when each ran, and which one let it start, come out.

The one engine of every timeline: pipeline schedules, buckets, checkpoints, storage. Everything is a column, so that a
quarter of a million tasks are a few arrays; `sim.timeline` names what comes out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
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

Queue: TypeAlias = Literal["fifo", "priority", "shared"]
_KINDS: Final = {"fifo": loop.FIFO, "priority": loop.PRIORITY, "shared": loop.SHARED}
COMPILED_FROM: Final = 20_000
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
    """A resource stops: what it runs is cancelled, and runs again, whole, once the resource is back."""

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
    release: not before this time.   A problem with a shared resource is in seconds.
    """

    duration: NDArray[Any]
    resource: Ints
    edges: Edges
    resources: tuple[Resource, ...]
    tie: Ints
    release: NDArray[Any]
    failures: tuple[Failure, ...] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Times:
    """Columns, one row a task, in the unit of its problem.

    cause: the task whose end (or start) let it start: the last one it waited for, or the one before it on its resource;
    -1 for none.   lost: what failures took from it before it ran to its end.
    """

    start: NDArray[Any]
    end: NDArray[Any]
    cause: Ints
    lost: NDArray[Any]


def simulate(problem: Problem, *, compiled: bool | None = None) -> Times:
    """Run every task. Raises SCH002 when some never start, because they wait for each other.

    compiled: by numba or as it is; None decides by size, and by whether numba (extra `numba`) is installed.
    """
    tasks = len(problem.duration)
    large = tasks >= COMPILED_FROM and find_spec("numba") is not None
    columns = _columns(problem)
    if large if compiled is None else compiled:
        done = _compiled()(*columns)
        start, end, cause, lost = columns[_FILLED]
    else:
        lists = tuple(column.tolist() for column in columns)
        done = loop.run(*lists)
        types = [column.dtype for column in columns[_FILLED]]
        start, end, cause, lost = (np.array(found, kind) for found, kind in zip(lists[_FILLED], types, strict=True))
    if done < tasks:
        stuck = np.flatnonzero(start < 0)
        cause_text = f"{tasks - done} of {tasks} tasks wait for each other, the first of them number {int(stuck[0])}"
        raise ScheduleError(2, cause_text, "give an order in which every task comes after those that it waits for")
    return Times(start=start, end=end, cause=cause, lost=lost)


_FILLED: Final = slice(13, 17)
"""Where `start`, `end`, `cause` and `lost` stand among the arguments of `loop.run`."""


def _columns(problem: Problem) -> tuple[NDArray[Any], ...]:
    """The arguments of `loop.run`, in its order."""
    tasks, resources, failures = len(problem.duration), len(problem.resources), len(problem.failures)
    kind = problem.duration.dtype
    order = np.argsort(problem.edges.before, kind="stable")
    first = np.searchsorted(problem.edges.before[order], np.arange(tasks + 1))
    events = 3 * tasks + 2 * failures + resources + 2
    whole, never = np.int64, -1
    return (
        problem.duration,
        problem.resource,
        problem.tie,
        problem.release.astype(kind),
        np.bincount(problem.edges.after, minlength=tasks),
        first,
        problem.edges.after[order],
        problem.edges.at_start[order],
        np.array([_KINDS[item.queue] for item in problem.resources], whole),
        np.array([item.rate for item in problem.resources], np.float64),
        np.array([item.at for item in problem.failures], kind),
        np.array([item.resource for item in problem.failures], whole),
        np.array([item.back for item in problem.failures], kind),
        np.full(tasks, never, kind),
        np.full(tasks, never, kind),
        np.full(tasks, never, whole),
        np.zeros(tasks, kind),
        np.zeros(tasks, np.bool_),
        np.zeros(tasks, kind),
        np.zeros(tasks, kind),
        np.full(tasks, never, whole),
        np.full(tasks, never, whole),
        np.full(resources, never, whole),
        np.full(resources, never, whole),
        np.full(resources, never, whole),
        np.full(resources, never, whole),
        np.zeros(resources, whole),
        np.zeros(resources, whole),
        np.zeros(resources, np.float64),
        np.zeros(resources, kind),
        np.zeros(resources, whole),
        np.zeros(events, kind),
        np.zeros(events, whole),
        np.zeros(events, whole),
        np.zeros(events, whole),
        np.zeros(events, whole),
        np.zeros(tasks + 1, whole),
        np.zeros(tasks + resources + failures + 1, whole),
        np.zeros(1, kind),
    )


@cache
def _compiled() -> Callable[..., int]:
    """`loop.run`, compiled; kept on disk for the next process."""
    import numba  # noqa: PLC0415 - an extra, loaded where a problem repays it

    return numba.njit(cache=True)(loop.run)
