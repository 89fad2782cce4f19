"""Zero bubble H1: 1F1B with the backward split; weight gradients fill the gaps, memory stays as in 1F1B on rank 0.

Source: Qi et al., "Zero Bubble Pipeline Parallelism", 2023 (arXiv:2401.10241), figure 3, top; chapter
"Training systems", section 10.3.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.workload.slots import (
    BACKWARD_INPUT,
    FORWARD,
    Bubble,
    Refusal,
    Shape,
    Slots,
    Work,
    alternated,
    gathered,
    in_line,
    piece,
    with_weights,
)

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints

TITLE: Final = "1F1B with weight gradients in its gaps"
SOURCE: Final = "Qi et al., Zero Bubble Pipeline Parallelism, 2023 (arXiv:2401.10241), figure 3 and table 2"
DIRECTIONS: Final = 1
COPIES: Final = 1


def refusal(shape: Shape) -> Refusal | None:
    """Any shape."""
    _ = shape


def placement(shape: Shape) -> Ints:
    """One virtual stage a rank."""
    return in_line(shape)


def slots(shape: Shape) -> Slots:
    """Rank s runs a weight gradient s micro-batches behind its input gradient."""
    batches = np.arange(shape.micro_batches)
    return gathered(
        [
            (
                rank,
                0,
                with_weights(
                    alternated(
                        piece(FORWARD, rank, batches), piece(BACKWARD_INPUT, rank, batches), shape.stages - 1 - rank
                    ),
                    rank,
                ),
            )
            for rank in range(shape.stages)
        ],
        in_line(shape),
    )


def _bubble(stages: int, _chunks: int, work: Work) -> Any:
    """(p - 1)(F + B - W), B the input gradient."""
    return (stages - 1) * (work.forward + work.inputs - work.weight)


BUBBLE: Final = Bubble(
    time=_bubble,
    of="step",
    holds=lambda work: work.weight <= work.forward and work.weight <= work.inputs,
    least=lambda ranks: ranks,
    where="a weight gradient no longer than a forward or an input gradient, and p micro-batches or more",
)
