"""A pipeline schedule goes in; events a second of the engine come out, held against simpy and against loading numba."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from fractions import Fraction
from statistics import median
from time import perf_counter, process_time
from typing import TYPE_CHECKING

import numpy as np
import simpy

from benchmarks.processes import in_turns
from meshwright.sim.engine import COMPILED_FROM, Edges, Problem, Resource, simulate
from meshwright.sim.memory import Buffers, memory
from meshwright.sim.timeline import busy_s, critical_path, timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

STAGES, MICRO_BATCHES = 64, 1024
EVENTS_PER_S = 3_000_000
TIMES_SIMPY = 5.0
WHOLE_S = 1.0
_FORWARD, _BACKWARD = 1, 2  # ticks
_TICK_S = Fraction(1, 1000)
_LOAD = "from benchmarks.engine import tiny; tiny(compiled={})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Medians. Each pair is (wall, CPU) seconds.

    simulate: the engine alone, compiled, with its columns.   whole: from nothing to a timeline with its path and its
    memory.   simpy: the same schedule as simpy processes.   times_simpy: the median of the ratios, round by round.
    plain: the engine as it is.   load: importing numba and reading the compiled loop from disk, in a new process.
    """

    events: int
    simulate: tuple[float, float]
    whole: tuple[float, float]
    simpy: tuple[float, float]
    times_simpy: float
    plain: tuple[float, float]
    load: tuple[float, float]

    @property
    def per_s(self) -> float:
        """Events a second of the core."""
        return self.events / min(self.simulate)

    @property
    def repaid_from(self) -> float:
        """Tasks from which loading numba is repaid."""
        return min(self.load) / ((min(self.plain) - min(self.simulate)) / self.events)

    @property
    def exceeded(self) -> tuple[str, ...]:
        """Budgets that are not kept, and not because the process had to wait for a core."""
        kept = {
            "events a second": self.per_s >= EVENTS_PER_S,
            "times simpy": self.times_simpy >= TIMES_SIMPY,
            "whole": min(self.whole) <= WHOLE_S,
        }
        return tuple(name for name, good in kept.items() if not good)


def measure(runs: int) -> Speed:
    """Everything in turns within one process, but for what a new process has to load."""
    known = pipeline(STAGES, MICRO_BATCHES)
    times = simulate(known, compiled=True)  # compiles, where no cache is
    assert by_simpy(known, STAGES) == times.end.max() == (MICRO_BATCHES + STAGES - 1) * (_FORWARD + _BACKWARD)

    def compiled() -> None:
        simulate(known, compiled=True)

    def plain() -> None:
        simulate(known, compiled=False)

    def simpys() -> None:
        by_simpy(known, STAGES)

    rounds = [[_seconds(part) for part in (compiled, whole, simpys, plain)] for _ in range(runs)]
    columns = [tuple(median(pair[kind] for pair in column) for kind in (0, 1)) for column in zip(*rounds, strict=True)]
    fast, everything, other, slow = ((wall, cpu) for wall, cpu in columns)
    loads = in_turns({name: (sys.executable, "-c", _LOAD.format(name)) for name in ("True", "False")}, runs)
    pairs = list(zip(loads["True"], loads["False"], strict=True))
    return Speed(
        events=times.events,
        simulate=fast,
        whole=everything,
        simpy=other,
        times_simpy=median(row[2][0] / row[0][0] for row in rounds),
        plain=slow,
        load=(median(a.wall_s - b.wall_s for a, b in pairs), median(a.cpu_s - b.cpu_s for a, b in pairs)),
    )


def page(speed: Speed) -> list[str]:
    """Its lines of docs/benchmarks.md."""
    rows = (
        ("the engine, compiled", speed.simulate),
        ("columns, engine, timeline, critical path, busy time and memory", speed.whole),
        ("simpy, a process a stage", speed.simpy),
        ("the engine as it is", speed.plain),
        ("importing numba and reading the compiled loop", speed.load),
    )
    broken = f" **Not kept: {', '.join(speed.exceeded)}.**" if speed.exceeded else ""
    return [
        f"One forward, one backward over {STAGES} stages and {MICRO_BATCHES:,} micro-batches, in turns",
        f"within one process: {speed.events:,} events,",
        f"{speed.per_s / 1e6:.1f} million events a second (at least {EVENTS_PER_S / 1e6:.0f}),",
        f"{speed.times_simpy:.0f} times simpy on the same schedule (at least {TIMES_SIMPY:.0f}),",
        f"{min(speed.whole):.2f} s for the whole (at most {WHOLE_S:.0f} s).{broken}",
        f"Loading numba is repaid from {speed.repaid_from:,.0f} tasks; `COMPILED_FROM` is {COMPILED_FROM:,}. The first",
        "process that compiles takes seconds longer, once, and keeps the result on disk.",
        "",
        "| what | wall | CPU |",
        "|---|---:|---:|",
        *(f"| {name} | {wall:.3f} s | {cpu:.3f} s |" for name, (wall, cpu) in rows),
    ]


def pipeline(stages: int, micro_batches: int) -> Problem:
    """One forward, one backward: task `stage * 2 * micro_batches + slot`, each stage in the order of its slots."""
    stage, slot = np.divmod(np.arange(stages * 2 * micro_batches), 2 * micro_batches)
    backward, micro_batch = _slots(stage, slot, stages, micro_batches)
    task = np.arange(len(slot)).reshape(stages, -1)
    forwards, backwards = np.empty((2, stages, micro_batches), np.int64)
    forwards[stage[~backward], micro_batch[~backward]] = np.flatnonzero(~backward)
    backwards[stage[backward], micro_batch[backward]] = np.flatnonzero(backward)
    before = (forwards[:-1], forwards[-1], backwards[1:], task[:, :-1])
    after = (forwards[1:], backwards[-1], backwards[:-1], task[:, 1:])
    edges = tuple(np.concatenate([part.ravel() for part in side]) for side in (before, after))
    return Problem(
        duration=np.where(backward, _BACKWARD, _FORWARD),
        resource=stage,
        edges=Edges(before=edges[0], after=edges[1], at_start=np.zeros(len(edges[0]), np.bool_)),
        resources=tuple(Resource(name=f"stage {number}") for number in range(stages)),
        tie=slot,
        release=np.zeros(len(slot), np.int64),
    )


def _slots(stage: np.ndarray, slot: np.ndarray, stages: int, micro_batches: int) -> tuple[np.ndarray, np.ndarray]:
    """Whether each slot runs a backward, and of which micro-batch: `stages - stage` forwards, then by turns."""
    warm_up = np.minimum(micro_batches, stages - stage)
    steady, turns = slot - warm_up, 2 * (micro_batches - warm_up)
    backward = (steady >= 0) & ((steady % 2 == 0) | (steady >= turns))
    forward_of = np.where(steady < 0, slot, warm_up + (steady - 1) // 2)
    backward_of = np.where(steady < turns, steady // 2, steady - (micro_batches - warm_up))
    return backward, np.where(backward, backward_of, forward_of)


def whole() -> None:
    """From nothing to a timeline with its critical path, its busy times and what each stage's memory held."""
    known = pipeline(STAGES, MICRO_BATCHES)
    kind = known.duration // _BACKWARD
    line = timeline(
        known, simulate(known, compiled=True), kind=kind, kinds=("forward", "backward"), label=str, tick_s=_TICK_S
    )
    first, last = np.flatnonzero(kind == 0), np.flatnonzero(kind == 1)
    held = Buffers(
        rank=known.resource[first],
        alloc=line.start[first],
        free=line.end[last],
        size_bytes=np.ones_like(first),
        kind=np.zeros_like(first),
        kinds=("saved",),
        resident_bytes=np.zeros(STAGES, np.int64),
    )
    used = memory(held)
    assert used.peak_bytes.tolist() == used.alive_bytes()[:, 0].tolist() == list(range(STAGES, 0, -1))
    assert critical_path(line).length_s == line.makespan_s
    assert len(busy_s(line)) == STAGES


def by_simpy(known: Problem, stages: int) -> int:
    """Makespan of a pipeline in simpy: one process a stage takes its slots in order, an event is the end of a task."""
    env = simpy.Environment()
    tasks = len(known.duration)
    ended = [env.event() for _ in range(tasks)]
    durations = known.duration.tolist()
    waits: list[list[simpy.Event]] = [[] for _ in range(tasks)]
    for before, after in zip(known.edges.before.tolist(), known.edges.after.tolist(), strict=True):
        if known.resource[before] != known.resource[after]:
            waits[after].append(ended[before])

    def stage(slots: range) -> Generator[simpy.Event, object, None]:
        for task in slots:
            for event in waits[task]:
                if not event.processed:
                    yield event
            yield env.timeout(durations[task])
            ended[task].succeed()

    for number in range(stages):
        env.process(stage(range(number * tasks // stages, (number + 1) * tasks // stages)))
    env.run()
    return int(env.now)


def tiny(*, compiled: bool) -> None:
    """Runs a pipeline of one micro-batch: what is left is loading."""
    simulate(pipeline(1, 1), compiled=compiled)


def _seconds(work: Callable[[], None]) -> tuple[float, float]:
    wall, used = perf_counter(), process_time()
    work()
    return perf_counter() - wall, process_time() - used


if __name__ == "__main__":
    print("\n".join(page(measure(11))))
