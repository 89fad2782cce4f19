"""A program and orders of its ranks go in; the same operation in channels comes out, each on a part of the message.

Libraries lay rings and trees in several channels, each with its own order of the ranks of a box, so that every NIC of
the box carries a part of what leaves it. Source: NCCL, docs/env (NCCL_CROSS_NIC), and its rings, one a NIC: entered
from general knowledge, to be checked.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.workload.programs import Program, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from meshwright.base.numbers import Ints

OPERATIONS: Final = ("all_reduce", "reduce_scatter", "all_gather")
"""What has no root, and no pair of ranks that each piece belongs to: any order of ranks gives the same result."""


def in_channels_of(module: ModuleType, operation: str, box: Ints) -> bool:
    """Whether libraries lay the operation in channels over these boxes (of each rank its own): as many ranks in each.

    Only some do, and by their name `IN_CHANNELS`; of others each rank sends by a NIC of its own.
    """
    members = np.bincount(box)
    even = len(members) > 1 and bool(np.all(members == members[0]))
    return even and getattr(module, "IN_CHANNELS", False) and operation in OPERATIONS


def box_orders(ranks: int, in_box: int) -> tuple[Ints, ...]:
    """One order a rank of a box: the rank that stands at each place, box after box.

    Order j goes through even boxes from rank j on, and through odd ones backwards from where it left the box before, so
    that it leaves and enters on NICs of one rail wherever the number of boxes is even.
    """
    box, place = np.divmod(np.arange(ranks), in_box)
    ahead = np.where(box % 2 == 0, place, in_box - 1 - place)
    return tuple(box * in_box + (ahead + turn) % in_box for turn in range(in_box))


def in_channels(program: Program, orders: Sequence[Ints]) -> Program:
    """The program once a channel, all at once, on as many parts of the message. orders: the rank at each place."""
    assert program.operation in OPERATIONS, "operations without a root"
    assert not program.switches, "programs of ranks alone"
    steps = tuple(_step(step, orders, program.message_pieces) for step in program.steps)
    return replace(
        program,
        message_pieces=program.message_pieces * len(orders),
        home=np.concatenate([order[program.home] for order in orders]),
        steps=steps,
    )


def _step(step: Step, orders: Sequence[Ints], pieces: int) -> Step:
    count = len(orders)
    shift = np.arange(count) * pieces
    reduce: Any = step.reduce
    return Step(
        sender=np.concatenate([order[step.sender] for order in orders]),
        receiver=np.concatenate([order[step.receiver] for order in orders]),
        pieces=np.tile(step.pieces, count),
        times=step.times,
        carried=_carried(step.carried, shift),
        reduce=reduce if isinstance(reduce, bool) else np.tile(reduce, count),
    )


def _carried(carried: Callable[[int], Ints], shift: Ints) -> Callable[[int], Ints]:
    return lambda number: np.concatenate([carried(number) + own for own in shift.tolist()])
