"""A problem of the event engine goes in; when each task started and ended, by a simpy model of it, comes out.

Written from the stated rules, not from the engine: a process a task, interrupted by failures. What happens at one time
is ordered by the priority of simpy's events: ends and what becomes ready, then failures, returns, shared arrivals, and
then one round of starts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import simpy

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from meshwright.sim.engine import Problem

_FAILURE, _RETURN, _SHARED, _ROUND = 5, 6, 7, 9


class Model:
    """The state of one run."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.env = simpy.Environment()
        count, resources = len(problem.duration), len(problem.resources)
        self.start, self.end = np.full(count, -1.0), np.full(count, -1.0)
        self.started = [self.env.event() for _ in range(count)]
        self.ended = [self.env.event() for _ in range(count)]
        self.queue: list[list[tuple[Any, ...]]] = [[] for _ in range(resources)]
        self.runs: list[simpy.Process | None] = [None] * resources
        self.down = [0] * resources
        self.left: list[dict[int, float]] = [{} for _ in range(resources)]  # work left of what shares
        self.held: list[list[int]] = [[] for _ in range(resources)]  # what is to share next
        self.since = [0.0] * resources
        self.edition = [0] * resources
        self.waits: list[list[simpy.Event]] = [[] for _ in range(count)]
        edges = problem.edges
        for before, after, at_start in zip(edges.before, edges.after, edges.at_start, strict=True):
            self.waits[after].append((self.started if at_start else self.ended)[before])
        for failure in problem.failures:
            self.at(failure.at, _FAILURE, lambda own=failure.resource: self.fail(own))
            if failure.back < math.inf:
                self.at(failure.back, _RETURN, lambda own=failure.resource: self.back(own))

    def at(self, time: float, priority: int, call: Callable[[], None]) -> None:
        event = self.env.event()
        event._ok, event._value = True, None
        event.callbacks.append(lambda _: call())
        self.env.schedule(event, priority=priority, delay=time - self.env.now)

    def soon(self, priority: int, call: Callable[[], None]) -> None:
        self.at(self.env.now, priority, call)

    def run(self) -> tuple[np.ndarray, np.ndarray]:
        for task in range(len(self.problem.duration)):
            self.env.process(self.task(task))
        self.env.run()
        return np.where(self.end < 0, -1.0, self.start), self.end

    def task(self, task: int) -> Generator[simpy.Event, Any, None]:
        problem, env = self.problem, self.env
        if self.waits[task]:
            yield env.all_of(self.waits[task])
        if problem.release[task] > env.now:
            yield env.timeout(problem.release[task] - env.now)
        own, ready = int(problem.resource[task]), env.now
        if own >= 0 and problem.resources[own].queue == "shared":
            self.held[own].append(task)
            self.soon(_SHARED, lambda: self.share(own))
            return
        while True:
            if own >= 0:
                first = ready if problem.resources[own].queue == "fifo" else 0
                grant = env.event()
                self.queue[own].append((first, int(problem.tie[task]), task, grant))
                self.soon(_ROUND, self.round)
                yield grant
                self.runs[own] = env.active_process
            self.begin(task)
            try:
                yield env.timeout(problem.duration[task])
            except simpy.Interrupt:
                continue
            break
        self.finish(task)
        if own >= 0:
            self.runs[own] = None
            self.soon(_ROUND, self.round)

    def begin(self, task: int) -> None:
        self.start[task] = self.env.now
        if not self.started[task].triggered:
            self.started[task].succeed()

    def finish(self, task: int) -> None:
        self.end[task] = self.env.now
        self.ended[task].succeed()

    def round(self) -> None:
        for own, queue in enumerate(self.queue):
            if queue and self.runs[own] is None and not self.down[own]:
                first = min(queue, key=lambda item: item[:3])
                queue.remove(first)
                self.runs[own] = self.env.process(_nothing(self.env))
                first[3].succeed()

    def fail(self, own: int) -> None:
        self.down[own] += 1
        process = self.runs[own]
        if process is not None:
            self.runs[own] = None
            process.interrupt()
        self.held[own] += self.left[own]
        self.left[own] = {}
        self.edition[own] += 1

    def back(self, own: int) -> None:
        self.down[own] -= 1
        self.soon(_SHARED, lambda: self.share(own))
        self.soon(_ROUND, self.round)

    def share(self, own: int) -> None:
        """Count off what was done, take in what is held, and wait for the next end."""
        rate, now, left = self.problem.resources[own].rate, self.env.now, self.left[own]
        for task in left:
            left[task] -= (now - self.since[own]) * rate / len(left)
        self.since[own] = now
        if not self.down[own]:
            for task in self.held[own]:
                left[task] = float(self.problem.duration[task])
                self.begin(task)
            self.held[own] = []
        self.edition[own] += 1
        if left:
            task = min(left, key=lambda item: (left[item], item))
            edition = self.edition[own]
            self.at(now + max(left[task], 0.0) * len(left) / rate, 1, lambda: self.leave(own, task, edition))

    def leave(self, own: int, task: int, edition: int) -> None:
        if edition == self.edition[own]:
            left = self.left[own]
            done = left[task]
            self.left[own] = {item: work - done for item, work in left.items() if item != task}
            self.since[own] = self.env.now
            self.finish(task)
            self.edition[own] += 1
            self.soon(_SHARED, lambda: self.share(own))


def _nothing(env: simpy.Environment) -> Generator[simpy.Event, Any, None]:
    """Holds a resource between its grant and the first step of the process that it was granted to."""
    yield env.timeout(0)
