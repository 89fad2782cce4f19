"""DualPipe as the chapter declares it: two 1F1B with split backward, one from each end, on one stream a rank.

Each direction has a slot order of its own; which of the two runs next is not stated, so the event engine decides by the
earliest start and by its tie rule. Source: chapter "Training systems", section 10.3.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.workload.schedules import _two_ways
from meshwright.workload.slots import (
    BACKWARD_INPUT,
    FORWARD,
    Refusal,
    Shape,
    Slots,
    alternated,
    both_ways,
    gathered,
    piece,
    with_weights,
)

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints

TITLE: Final = "1F1B from both ends, the order between them left to the tie rule"
SOURCE: Final = 'chapter "Training systems", section 10.3.2'
DIRECTIONS: Final = 2
COPIES: Final = 2
BUBBLE: Final = None


def refusal(shape: Shape) -> Refusal | None:
    """An even number of ranks and of micro-batches."""
    return _two_ways.refusal(shape, least=2)


def placement(shape: Shape) -> Ints:
    """Rank s holds virtual stage s of one direction and p - 1 - s of the other."""
    return both_ways(shape)


def slots(shape: Shape) -> Slots:
    """Two orders a rank; the second half of the micro-batches enters at the last rank."""
    half = shape.micro_batches // 2
    orders: list[tuple[int, int, Ints]] = []
    for rank in range(shape.stages):
        for direction in (0, 1):
            place = shape.stages - 1 - rank if direction else rank
            batches = np.arange(half) + direction * half
            forwards = piece(FORWARD, place, batches, direction)
            backwards = piece(BACKWARD_INPUT, place, batches, direction)
            behind = shape.stages - 1 - place
            orders.append((rank, direction, with_weights(alternated(forwards, backwards, behind), behind)))
    return gathered(orders, both_ways(shape))
