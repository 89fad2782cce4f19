"""Slots and their timeline go in; an assertion fails where a law of schedules does not hold. No engine states them."""

from __future__ import annotations

import numpy as np

from meshwright.sim.pipeline_timeline import GRADIENTS, UPDATE
from meshwright.workload.slots import BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT, FORWARD, read_schedule


def computed_once(name, shape, slots):
    """Every micro-batch once per virtual stage and direction, on the rank that holds the stage."""
    program = read_schedule(name)
    every = [(piece, batch) for piece in range(slots.virtual_stages) for batch in range(shape.micro_batches)]
    found = _parts(slots)
    assert found[FORWARD] == every
    assert sorted(found[BACKWARD] + found[BACKWARD_INPUT]) == every
    assert found[BACKWARD_INPUT] == found[BACKWARD_WEIGHT]
    assert (slots.placement == program.placement(shape)).all()
    assert (slots.rank == slots.placement[slots.direction, slots.virtual_stage]).all()
    assert len(slots.placement) == program.DIRECTIONS
    halves = slots.micro_batch >= (shape.micro_batches + 1) // 2 if program.DIRECTIONS == 2 else 0 * slots.rank
    assert (slots.direction == halves).all()


def _parts(slots):
    """The slots of each kind by (virtual stage, micro-batch)."""
    return {
        kind: sorted(zip(slots.virtual_stage[rows].tolist(), slots.micro_batch[rows].tolist(), strict=True))
        for kind in (FORWARD, BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT)
        for rows in [slots.kind == kind]
    }


def one_at_a_time(run):
    """No rank and no wire runs two things at once, every task runs whole, and after what it waits for."""
    lane = run.problem.resource
    for resource in range(len(run.problem.resources)):
        rows = np.flatnonzero(lane == resource)
        rows = rows[np.lexsort((run.end[rows], run.start[rows]))]
        assert (run.start[rows[1:]] >= run.end[rows[:-1]]).all()
    edges = run.problem.edges
    moment = np.where(edges.at_start, run.start[edges.before], run.end[edges.before])
    assert (run.start[edges.after] >= moment).all()
    assert (run.end - run.start == run.problem.duration).all()


def in_order(run):
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
    for (kind, piece, batch), (start, _) in when.items():
        if kind == FORWARD and piece:
            assert start >= when[FORWARD, piece - 1, batch][1]
        if kind == BACKWARD:
            assert start >= when[FORWARD, piece, batch][1]
            if piece < slots.virtual_stages - 1:
                assert start >= when[BACKWARD, piece + 1, batch][1]
        if kind == BACKWARD_WEIGHT:
            assert start >= when[BACKWARD, piece, batch][1]
    updates = run.kind == UPDATE
    assert updates.sum() == slots.ranks
    assert (run.start[updates] == run.end[: len(slots.rank)].max()).all()
    assert run.end[run.kind == GRADIENTS] == run.end[: len(slots.rank)].max()
