"""What a tape gives: of one rank and one step, bytes that were alive, FLOPs, and bytes of collectives. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Category: TypeAlias = Literal[
    "parameters", "gradients", "optimizer_state", "activations", "comm_buffers", "samples", "workspace"
]
Phase: TypeAlias = Literal["forward", "backward_input", "backward_weight", "reduce", "update"]
Work: TypeAlias = Literal["matmul", "attention"]

CATEGORIES: Final[tuple[Category, ...]] = (
    "parameters",
    "gradients",
    "optimizer_state",
    "activations",
    "comm_buffers",
    "samples",
    "workspace",
)
"""comm_buffers: whole modules, whole gradients on their way and flat buffers of FSDP2.   samples: tokens and labels.

activations: what outlives the slot that made it.   workspace: what does not, and what nothing else claims.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Of one collective, axis and phase. calls: how many.   message_bytes: as nccl-tests count a message, all together.

    An all_reduce counts its buffer, an all_gather its output, a reduce_scatter its input, a send_recv what is sent.
    sent_bytes: what a rank of a ring sends of them.   backend_bytes: the same of what the backend runs in its place.
    """

    collective: str
    axis: str
    phase: Phase
    calls: int
    message_bytes: int
    sent_bytes: int
    backend_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One step of one rank.

    left: bytes by category when the step is over.   held: when the update begins, by category.   most: by category,
    the most at any time.   peak: by category when all together are most.   peak_phase: what ran then.   flops: by
    (work, phase).   traffic: by collective, axis and phase.   slots_s, run_s: of slots, and from the first to the last.
    """

    rank: int
    left: Mapping[Category, int]
    held: Mapping[Category, int]
    most: Mapping[Category, int]
    peak: Mapping[Category, int]
    peak_phase: Phase
    flops: Mapping[tuple[Work, Phase], int]
    traffic: tuple[Traffic, ...]
    slots_s: float
    run_s: float

    @property
    def peak_bytes(self) -> int:
        """The most that was alive."""
        return sum(self.peak.values())

    @property
    def total_flops(self) -> int:
        """Of all work and phases."""
        return sum(self.flops.values())
