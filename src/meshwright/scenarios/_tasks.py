"""Named tasks in seconds go in; when each ran comes out by its name: the engine, for studies of a few tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from meshwright.sim.engine import Edges, Failure, Problem, Resource, simulate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One piece of work. duration_s: on a shared resource its work.   on: a resource; empty starts it when it is ready.

    after, after_start: the tasks whose end, or whose start, it waits for.   Of those that could start, the one that
    stands first in the list does.
    """

    name: str
    duration_s: float
    on: str = ""
    after: tuple[str, ...] = ()
    after_start: tuple[str, ...] = ()
    release_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """When a task ran to its end; both infinite where a resource that stopped for good kept it from that."""

    start_s: float
    end_s: float


def spans(
    tasks: Sequence[Task], resources: Sequence[Resource], stops: Mapping[str, float] | None = None
) -> dict[str, Span]:
    """Every task by its name. stops: resources that fail for good, and when.

    Raises SCH002 for tasks that wait for each other.
    """
    place = {task.name: index for index, task in enumerate(tasks)}
    known = {resource.name: index for index, resource in enumerate(resources)}
    edges = [(place[name], place[task.name], False) for task in tasks for name in task.after]
    edges += [(place[name], place[task.name], True) for task in tasks for name in task.after_start]
    before, after, at_start = zip(*edges, strict=True) if edges else ((), (), ())
    times = simulate(
        Problem(
            duration=np.array([task.duration_s for task in tasks], np.float64),
            resource=np.array([known[task.on] if task.on else -1 for task in tasks], np.int64),
            edges=Edges(
                before=np.array(before, np.int64),
                after=np.array(after, np.int64),
                at_start=np.array(at_start, np.bool_),
            ),
            resources=tuple(resources),
            tie=np.arange(len(tasks), dtype=np.int64),
            release=np.array([task.release_s for task in tasks], np.float64),
            failures=tuple(Failure(resource=known[name], at=at, back=np.inf) for name, at in (stops or {}).items()),
        )
    )
    ended = np.isfinite(times.end) & (times.end >= 0)
    start, end = (np.where(ended, column, np.inf).tolist() for column in (times.start, times.end))
    return {task.name: Span(start_s=start[index], end_s=end[index]) for index, task in enumerate(tasks)}
