"""Slots and their timeline go in; the laws of schedules that do not hold come out, in words. No engine states them."""

from __future__ import annotations

import numpy as np

from meshwright.sim.pipeline_timeline import GRADIENTS, UPDATE
from meshwright.workload.slots import BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT, FORWARD, read_schedule


def not_computed_once(name, shape, slots):
    """Every micro-batch once per virtual stage and direction, on the rank that holds the stage."""
    program = read_schedule(name)
    every = [(piece, batch) for piece in range(slots.virtual_stages) for batch in range(shape.micro_batches)]
    found = _parts(slots)
    halves = slots.micro_batch >= (shape.micro_batches + 1) // 2 if program.DIRECTIONS == 2 else 0 * slots.rank
    return _broken({
        "every forward once": found[FORWARD] == every,
        "every backward once": sorted(found[BACKWARD] + found[BACKWARD_INPUT]) == every,
        "a weight gradient for every input gradient": found[BACKWARD_INPUT] == found[BACKWARD_WEIGHT],
        "the placement of the program": (slots.placement == program.placement(shape)).all(),
        "on the rank that holds it": (slots.rank == slots.placement[slots.direction, slots.virtual_stage]).all(),
        "its directions": len(slots.placement) == program.DIRECTIONS,
        "half of them each way": (slots.direction == halves).all(),
    })  # fmt: skip


def _broken(laws):
    return [name for name, holds in laws.items() if not holds]


def _parts(slots):
    """The slots of each kind by (virtual stage, micro-batch)."""
    return {
        kind: sorted(zip(slots.virtual_stage[rows].tolist(), slots.micro_batch[rows].tolist(), strict=True))
        for kind in (FORWARD, BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT)
        for rows in [slots.kind == kind]
    }


def not_one_at_a_time(run):
    """No rank and no wire runs two things at once, every task runs whole, and after what it waits for."""
    lane = run.problem.resource
    overlaps = []
    for resource in range(len(run.problem.resources)):
        rows = np.flatnonzero(lane == resource)
        rows = rows[np.lexsort((run.end[rows], run.start[rows]))]
        if not (run.start[rows[1:]] >= run.end[rows[:-1]]).all():
            overlaps.append(f"resource {resource} runs one thing at once")
    edges = run.problem.edges
    moment = np.where(edges.at_start, run.start[edges.before], run.end[edges.before])
    return overlaps + _broken({
        "after what it waits for": (run.start[edges.after] >= moment).all(),
        "every task whole": (run.end - run.start == run.problem.duration).all(),
    })  # fmt: skip


def out_of_order(run):
    """Micro-batches down the stages and up again, halves of a backward in turn; by names, not by the engine's edges."""
    slots = run.slots
    when = {
        (min(kind, BACKWARD) if kind != BACKWARD_WEIGHT else kind, piece, batch): (start, end)
        for kind, piece, batch, start, end in zip(
            *(column.tolist() for column in (slots.kind, slots.virtual_stage, slots.micro_batch)),
            run.start.tolist(),
            run.end.tolist(),
            strict=False,
        )
    }
    early = [
        f"{place} begins before {before} has ended"
        for place, (start, _) in when.items()
        for before in _waits_for(*place, slots.virtual_stages)
        if start < when[before][1]
    ]
    updates, last = run.kind == UPDATE, run.end[: len(slots.rank)].max()
    return early + _broken({
        "an update a rank": updates.sum() == slots.ranks,
        "updates after the last gradient": (run.start[updates] == last).all(),
        "the last gradient is the last slot's": run.end[run.kind == GRADIENTS] == last,
    })  # fmt: skip


def _waits_for(kind, piece, batch, pieces):
    if kind == FORWARD:
        return [(FORWARD, piece - 1, batch)] if piece else []
    if kind == BACKWARD:
        after = [(BACKWARD, piece + 1, batch)] if piece < pieces - 1 else []
        return [(FORWARD, piece, batch), *after]
    return [(BACKWARD, piece, batch)]
