"""What a rank receives is what others send it, in their order; and who talks with whom, for every schedule."""

from __future__ import annotations

import pytest

from meshwright.runtime.pipeline.orders import orders_of
from meshwright.scenarios.slot_orders import slot_orders
from meshwright.workload.slots import SCHEDULES, Shape, read_schedule

SHAPE = Shape(stages=4, micro_batches=8, virtual_stages=2)


def shape_of(name):
    return SHAPE if name == "interleaved" else Shape(stages=4, micro_batches=8)


@pytest.mark.parametrize("name", SCHEDULES.names())
def test_every_message_is_sent_once_and_received_once_in_the_order_of_its_sender(name):
    assert read_schedule(name).refusal(shape_of(name)) is None
    every = {rank: orders_of(slot_orders(name, shape_of(name)), rank) for rank in range(4)}
    sent = {
        (sender, receiver): [turn.sends[1] for turn in orders.turns if turn.sends and turn.sends[0] == receiver]
        for sender, orders in every.items()
        for receiver in every
    }
    for receiver, orders in every.items():
        for sender in every:
            assert list(orders.incoming.get(sender, ())) == sent[sender, receiver]
            taken = [turn.receives[1] for turn in orders.turns if turn.receives and turn.receives[0] == sender]
            assert sorted(taken) == sorted(sent[sender, receiver])
        assert orders.pairs == tuple(sorted(pair for pair, messages in sent.items() if messages))


@pytest.mark.parametrize("name", SCHEDULES.names())
def test_the_last_gradient_of_a_stage_is_marked_once(name):
    for rank in range(4):
        orders = orders_of(slot_orders(name, shape_of(name)), rank)
        assert sorted(turn.part for turn in orders.turns if turn.last) == sorted(orders.parts)
