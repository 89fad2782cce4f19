"""Fill and drain (GPipe): all forwards, then all backwards, the last micro-batch first.

Source: Huang et al., "GPipe", 2019 (arXiv:1811.06965); chapter "Training systems", section 10.3.2.
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
    gathered,
    in_line,
    joined,
    piece,
)

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints

TITLE: Final = "all forwards, then all backwards"
SOURCE: Final = "Huang et al., GPipe, 2019 (arXiv:1811.06965)"
DIRECTIONS: Final = 1
COPIES: Final = 1


def refusal(shape: Shape) -> Refusal | None:
    """Any shape."""
    _ = shape


def placement(shape: Shape) -> Ints:
    """One virtual stage a rank."""
    return in_line(shape)


def slots(shape: Shape) -> Slots:
    """Every rank has the same order."""
    batches = np.arange(shape.micro_batches)
    return gathered(
        [
            (rank, 0, joined(piece(FORWARD, rank, batches), piece(BACKWARD, rank, batches[::-1])))
            for rank in range(shape.stages)
        ],
        in_line(shape),
    )


def _bubble(stages: int, _chunks: int, work: Work) -> Any:
    """Until the last rank has work, and while the first waits for its last gradient."""
    return (stages - 1) * (work.forward + work.backward)


BUBBLE: Final = Bubble(time=_bubble, of="step", holds=lambda _work: True, least=lambda _ranks: 1, where="any times")
