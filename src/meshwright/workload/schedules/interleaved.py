"""Interleaved 1F1B: a rank holds several virtual stages, so that a bubble lasts a fraction of a stage.

Rank s holds virtual stages s, s + p, s + 2p, ...; micro-batches travel in groups of p.
Source: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", 2021
(arXiv:2104.04473); chapter "Training systems", section 10.3.2.
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
    piece,
)

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints

TITLE: Final = "1F1B over several virtual stages a rank"
SOURCE: Final = "Narayanan et al., Large-Scale Language Model Training Using Megatron-LM, 2021 (arXiv:2104.04473)"
DIRECTIONS: Final = 1
COPIES: Final = 1


def refusal(shape: Shape) -> Refusal | None:
    """The micro-batches are a multiple of the ranks."""
    if shape.micro_batches % shape.stages == 0:
        return None
    nearest = max(1, (2 * shape.micro_batches + shape.stages) // (2 * shape.stages)) * shape.stages
    reason = f"{shape.micro_batches} micro-batches are no multiple of {shape.stages} stages"
    return Refusal(code="SCH001", reason=reason, nearest=nearest)


def placement(shape: Shape) -> Ints:
    """Round the ranks, `virtual_stages` times."""
    return np.tile(np.arange(shape.stages, dtype=np.int64), shape.virtual_stages)[None, :]


def slots(shape: Shape) -> Slots:
    """Rank s runs 2(p - 1 - s) + (v - 1)p forwards ahead of its first backward."""
    ranks, chunks = shape.stages, shape.virtual_stages
    turn = np.arange(shape.micro_batches * chunks)
    chunk = turn // ranks % chunks
    batch = turn // (ranks * chunks) * ranks + turn % ranks
    return gathered(
        [
            (
                rank,
                0,
                alternated(
                    piece(FORWARD, chunk * ranks + rank, batch),
                    piece(BACKWARD, (chunks - 1 - chunk) * ranks + rank, batch),
                    2 * (ranks - 1 - rank) + (chunks - 1) * ranks,
                ),
            )
            for rank in range(ranks)
        ],
        placement(shape),
    )


def _bubble(stages: int, chunks: int, work: Work) -> Any:
    """A v-th of that of 1F1B; `work` is that of all v."""
    return (stages - 1) * (work.forward + work.backward) / chunks


BUBBLE: Final = Bubble(time=_bubble, of="step", holds=lambda _work: True, least=lambda _ranks: 1, where="any times")
