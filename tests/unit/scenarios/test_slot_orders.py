"""Slots for a real run: one order a rank, every slot once, and nothing waits for what comes later."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from meshwright.scenarios.slot_orders import slot_orders
from meshwright.workload.slots import BACKWARD, BACKWARD_INPUT, FORWARD, SCHEDULES, Shape, read_schedule

_SHAPE = Shape(stages=4, micro_batches=8, virtual_stages=2)
_FIELDS = ("rank", "kind", "virtual_stage", "micro_batch", "direction", "cell")


def rows(slots):
    return list(zip(*(getattr(slots, name).tolist() for name in _FIELDS), strict=True))


@pytest.mark.parametrize("name", SCHEDULES.names())
def test_every_slot_of_the_schedule_is_there_once_in_one_order_a_rank(name):
    found, own = slot_orders(name, _SHAPE), read_schedule(name).slots(_SHAPE)
    assert Counter(rows(found)) == Counter(rows(own))
    assert not found.sequence.any()
    if not own.sequence.any():
        assert rows(found) == rows(own)


@pytest.mark.parametrize("name", SCHEDULES.names())
def test_ranks_that_follow_their_orders_never_wait_for_each_other_in_a_ring(name):
    """Each rank runs its next slot once what it needs has run; all slots run."""
    slots = slot_orders(name, _SHAPE)
    queues = {rank: [row for row in rows(slots) if row[0] == rank] for rank in range(_SHAPE.stages)}
    done: set[tuple[str, int, int]] = set()
    last = slots.virtual_stages - 1
    moved = True
    while moved:
        moved = False
        for queue in queues.values():
            while queue and needs(queue[0], last) <= done:
                done |= gives(queue.pop(0))
                moved = True
    assert not any(queues.values())


def needs(row, last):
    _, kind, stage, batch, _, _ = row
    if kind == FORWARD:
        return {("rows", stage - 1, batch)} if stage else set()
    if kind in {BACKWARD, BACKWARD_INPUT}:
        return {("rows", stage, batch), *({("gradient", stage + 1, batch)} if stage < last else set())}
    return {("gradient", stage, batch)}


def gives(row):
    _, kind, stage, batch, _, _ = row
    if kind == FORWARD:
        return {("rows", stage, batch)}
    return {("gradient", stage, batch)} if kind in {BACKWARD, BACKWARD_INPUT} else set()


def test_two_orders_on_one_stream_are_resolved_by_their_starts():
    own = read_schedule("dualpipe_declared").slots(_SHAPE)
    assert own.sequence.any()
    found = slot_orders("dualpipe_declared", _SHAPE)
    for rank in range(_SHAPE.stages):
        for direction in (0, 1):  # each of the two keeps its own order
            mine = [row for row in rows(found) if row[0] == rank and row[4] == direction]
            assert mine == [row for row in rows(own) if row[0] == rank and row[4] == direction]
        switches = np.diff(found.direction[found.rank == rank])
        assert np.count_nonzero(switches) > 1
