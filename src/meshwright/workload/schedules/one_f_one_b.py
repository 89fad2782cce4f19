"""One forward, one backward (1F1B): a rank holds no more micro-batches than ranks follow it, itself included.

Source: Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", 2021 (arXiv:2006.09503),
PipeDream-Flush; chapter "Training systems", section 10.3.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.workload.slots import (
    BACKWARD,
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
)

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints

TITLE: Final = "one forward, one backward"
SOURCE: Final = "Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, 2021 (arXiv:2006.09503)"
DIRECTIONS: Final = 1
COPIES: Final = 1


def refusal(shape: Shape) -> Refusal | None:
    """Any shape."""
    _ = shape


def placement(shape: Shape) -> Ints:
    """One virtual stage a rank."""
    return in_line(shape)


def slots(shape: Shape) -> Slots:
    """Rank s runs p - 1 - s forwards ahead of its first backward."""
    batches = np.arange(shape.micro_batches)
    return gathered(
        [
            (
                rank,
                0,
                alternated(piece(FORWARD, rank, batches), piece(BACKWARD, rank, batches), shape.stages - 1 - rank),
            )
            for rank in range(shape.stages)
        ],
        in_line(shape),
    )


def _bubble(stages: int, _chunks: int, work: Work) -> Any:
    """As long as fill and drain: what it saves is memory."""
    return (stages - 1) * (work.forward + work.backward)


BUBBLE: Final = Bubble(time=_bubble, of="step", holds=lambda _work: True, least=lambda _ranks: 1, where="any times")
