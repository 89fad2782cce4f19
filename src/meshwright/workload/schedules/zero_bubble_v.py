"""Zero bubble V: two virtual stages a rank, down the ranks and back up, with the backward split.

The last virtual stage stands on rank 0, so that a backward starts where the forward began, and memory is the same on
every rank. Source: Qi et al., "Pipeline Parallelism with Controllable Memory", 2024 (arXiv:2405.15362), V-ZB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.workload.slots import (
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    FORWARD,
    Bubble,
    Refusal,
    Shape,
    Slots,
    Work,
    below,
    gathered,
    in_a_v,
    joined,
    piece,
    woven,
)

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints

TITLE: Final = "two virtual stages a rank in a V, backward split"
SOURCE: Final = "Qi et al., Pipeline Parallelism with Controllable Memory, 2024 (arXiv:2405.15362), V-ZB"
DIRECTIONS: Final = 1
COPIES: Final = 1


def refusal(shape: Shape) -> Refusal | None:
    """Any shape; below 2p - 1 micro-batches the order of that many is cut."""
    _ = shape


def placement(shape: Shape) -> Ints:
    """Rank s holds virtual stages s and 2p - 1 - s."""
    return in_a_v(shape)


def slots(shape: Shape) -> Slots:
    """The order of 2p - 1 micro-batches or more, of which those that are there are kept."""
    longest = max(shape.micro_batches, 2 * shape.stages - 1)
    orders = [
        (rank, 0, below(_order(rank, shape.stages, longest), shape.micro_batches)) for rank in range(shape.stages)
    ]
    return gathered(orders, in_a_v(shape))


def _order(rank: int, stages: int, micro_batches: int) -> Ints:
    """Forwards of the way down, the turn, both ways in turn, and the weight gradients that were put off."""
    batches = np.arange(micro_batches)
    down, up = rank, 2 * stages - 1 - rank
    f0, f1 = piece(FORWARD, down, batches), piece(FORWARD, up, batches)
    b0, b1 = piece(BACKWARD_INPUT, down, batches), piece(BACKWARD_INPUT, up, batches)
    w0, w1 = piece(BACKWARD_WEIGHT, down, batches), piece(BACKWARD_WEIGHT, up, batches)
    after = stages - rank
    turns = micro_batches - stages
    fed = micro_batches - (2 * stages - 1 - rank)  # turns with a forward of the way down still to run
    ahead = 2 * after - 1
    back = (f1[stages:], b1[after:], w1[after:])  # what a turn runs of the way up
    return joined(
        f0[:ahead],
        woven(f1[:rank], f0[ahead : ahead + rank]),
        woven(f1[rank:stages], b1[:after], w1[:after]),
        woven(f0[ahead + rank :], b0[:fed], w0[:fed], *(item[:fed] for item in back)),
        woven(b0[fed:turns], w0[fed:turns], *(item[fed:turns] for item in back)),
        woven(b0[turns : turns + rank], b1[after + turns :]),
        woven(b0[turns + rank :], w0[turns : turns + after]),
        w1[after + turns :],
        w0[turns + after :],
    )


def _bubble(_stages: int, _chunks: int, work: Work) -> Any:
    """None, where the three are equal; the paper has no formula for other times."""
    return 0 * work.forward


BUBBLE: Final = Bubble(
    time=_bubble,
    of="rank",
    holds=lambda work: work.forward == work.inputs == work.weight,
    least=lambda ranks: 2 * ranks - 1,
    where="equal forward, input and weight gradient, and 2p - 1 micro-batches or more",
)
