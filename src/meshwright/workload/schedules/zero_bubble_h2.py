"""Zero bubble H2: more forwards ahead, weight gradients later, so that each rank works without a pause.

The step becomes a parallelogram: rank s starts s slots after rank 0 and ends s slots after it. Ahead of its first
backward it runs 2(p - 1 - s) + 1 forwards, and after its last one 2s + 1 weight gradients. Between two input gradients
of one rank stand a weight gradient and a forward, but for the last 2(p - 1) gaps, which are one slot shorter: 2s of
them hold a forward alone, the rest a weight gradient alone. The gaps have one length on all ranks, so that every
gradient is used the moment it arrives.
Source: Qi et al., "Zero Bubble Pipeline Parallelism", 2023 (arXiv:2401.10241), figure 3, bottom, for the
shape and the counts; the order between is derived here from them.
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
    in_line,
    joined,
    piece,
)

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints

TITLE: Final = "forwards ahead and weight gradients late, each rank without a pause"
SOURCE: Final = "Qi et al., Zero Bubble Pipeline Parallelism, 2023 (arXiv:2401.10241), figure 3 and table 2"
DIRECTIONS: Final = 1
COPIES: Final = 1


def refusal(shape: Shape) -> Refusal | None:
    """Any shape; below 2p - 1 micro-batches the parallelogram is cut."""
    _ = shape


def placement(shape: Shape) -> Ints:
    """One virtual stage a rank."""
    return in_line(shape)


def slots(shape: Shape) -> Slots:
    """The order of 2p - 1 micro-batches or more, of which those that are there are kept."""
    longest = max(shape.micro_batches, 2 * shape.stages - 1)
    orders = [
        (rank, 0, below(_order(rank, shape.stages, longest), shape.micro_batches)) for rank in range(shape.stages)
    ]
    return gathered(orders, in_line(shape))


def _order(rank: int, stages: int, micro_batches: int) -> Ints:
    """Each slot stands behind an input gradient: the weight gradients first, then a forward."""
    batches = np.arange(micro_batches)
    ahead, late = 2 * (stages - 1 - rank) + 1, 2 * rank
    full = micro_batches - (2 * stages - 1)  # gaps that hold both
    behind = np.where(batches < full, batches, np.minimum(batches + late, micro_batches - 1))
    rows = joined(
        piece(FORWARD, rank, batches), piece(BACKWARD_INPUT, rank, batches), piece(BACKWARD_WEIGHT, rank, batches)
    )
    gap = np.concatenate([batches - ahead, batches, behind])
    within = np.repeat([2, 0, 1], micro_batches)
    return rows[np.lexsort((within, gap))]


def _bubble(stages: int, _chunks: int, work: Work) -> Any:
    """(p - 1)(F + B - 2W), B the input gradient."""
    return (stages - 1) * (work.forward + work.inputs - 2 * work.weight)


BUBBLE: Final = Bubble(
    time=_bubble,
    of="rank",
    holds=lambda work: work.weight <= work.forward and work.weight <= work.inputs,
    least=lambda ranks: 2 * ranks - 1,
    where="a weight gradient no longer than a forward or an input gradient, and 2p - 1 micro-batches or more",
)
