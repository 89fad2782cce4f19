"""The words for a tensor's shape: each dim has a role, and the role decides which mesh axis may shard it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Role: TypeAlias = Literal[
    "hidden",
    "head_dim",
    "heads",
    "kv_heads",
    "latent",
    "index_heads",
    "intermediate",
    "experts",
    "expert_intermediate",
    "routes",
    "vocab",
    "table_rows",
    "adapter_rank",
    "samples",
    "positions",
    "kernel",
]
Part: TypeAlias = Literal[
    "embedding", "attention", "feed_forward", "experts", "router", "norms", "head", "other", "kv_cache"
]
PARTS: Final[tuple[Part, ...]] = (
    "embedding",
    "attention",
    "feed_forward",
    "experts",
    "router",
    "norms",
    "head",
    "other",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dim:
    """One dimension: `size` elements in indivisible units of `grain` (a head is never cut: its grain is head_dim)."""

    role: Role
    size: int
    grain: int = 1

    @property
    def units(self) -> int:
        """How many indivisible units lie along this dim."""
        return self.size // self.grain


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One parameter, or one kind of state, of a block or of an end of the model.

    name: the Hugging Face parameter name below the block.   part: where `inspect` counts it.
    dims: outermost first.   quantized: a matrix, stored in the model's weight format where the quantization covers its
    part.   fp32: stored in fp32 where it is not quantized, whatever the plain format.
    alias: the tensor whose storage this one shares when both lie on one rank (a tied head).
    """

    name: str
    part: Part
    dims: tuple[Dim, ...]
    quantized: bool = False
    fp32: bool = False
    alias: str | None = None

    @property
    def elements(self) -> int:
        """Elements of the whole tensor."""
        total = 1
        for dim in self.dims:
            total *= dim.size
        return total

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the whole tensor."""
        return tuple(dim.size for dim in self.dims)
