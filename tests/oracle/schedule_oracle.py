"""The problem of a schedule and its sizes go in; what a simpy model of it says comes out: times, and a row's figures.

Figures are worked out from simpy's times and from the names of slots, as the chapter states them (section 10.3.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from meshwright.workload.slots import BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT, FORWARD
from tests.oracle.simpy_model import Model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshwright.sim.pipeline_timeline import PipelineTimeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """start, end: of every task, in ticks; the rest as the fields of a row of `schedule`, in ticks and bytes."""

    start: np.ndarray
    end: np.ndarray
    total: float
    gradients: float
    idle: list[float]
    step_without_barrier: float
    peak_bytes: list[int]


def told(run: PipelineTimeline, saved: list[int], activation: int, gradient: int, update: int) -> Told:
    """saved: bytes by virtual stage. Of `run` only the problem and the names of its tasks are read."""
    start, end = Model(run.problem).run()
    slots, count = run.slots, len(run.slots.rank)
    gradients = end[:count].max()
    own = [np.flatnonzero(slots.rank == rank) for rank in range(slots.ranks)]
    spans = [end[rows].max() - start[rows].min() for rows in own]
    held: list[list[tuple[float, float, int]]] = [[] for _ in own]
    for rank, since, until, size in _held(run, start, end, (saved, activation, gradient)):
        held[rank].append((since, until, size))
    return Told(
        start=start,
        end=end,
        total=end.max(),
        gradients=gradients,
        idle=[gradients - (end[rows] - start[rows]).sum() for rows in own],
        step_without_barrier=max(spans) + update,
        peak_bytes=[_peak(kept) for kept in held],
    )


def _held(
    run: PipelineTimeline, start: np.ndarray, end: np.ndarray, sizes: tuple[list[int], int, int]
) -> Iterator[tuple[int, float, float, int]]:
    """Rank, from, until, bytes: saved sets, and both copies of every message."""
    saved, activation, gradient = sizes
    slots = run.slots
    names = zip(*(column.tolist() for column in (slots.kind, slots.virtual_stage, slots.micro_batch)), strict=True)
    row = {name: number for number, name in enumerate(names)}
    sent = {int(source): task for task, source in enumerate(run.source) if source >= 0}

    def back(piece: int, batch: int) -> int:
        whole = row.get((BACKWARD, piece, batch))
        return row[BACKWARD_INPUT, piece, batch] if whole is None else whole

    for (kind, piece, batch), here in row.items():
        rank = int(slots.rank[here])
        if kind == FORWARD:
            frees = row.get((BACKWARD_WEIGHT, piece, batch), back(piece, batch))
            yield rank, start[here], end[frees], saved[piece]
        if here not in sent:
            continue
        size, there = (
            (activation, row[FORWARD, piece + 1, batch]) if kind == FORWARD else (gradient, back(piece - 1, batch))
        )
        task = sent[here]
        yield rank, end[here], end[task], size
        yield int(slots.rank[there]), start[task], start[run.begun_with[there]], size


def _peak(kept: list[tuple[float, float, int]]) -> int:
    """The most that is held; at one time what ends is freed before what starts."""
    changes = [(since, 1, size) for since, until, size in kept if until > since]
    changes += [(until, 0, -size) for since, until, size in kept if until > since]
    return max(accumulate(change for _, _, change in sorted(changes)), default=0)
