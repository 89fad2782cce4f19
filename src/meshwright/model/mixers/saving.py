"""What a mixer tells of training: the tensors that it keeps from forward to backward, and what its backward holds.

Entries are columns of one row a position, with the roles that say who keeps them; `workload/saved_entries` makes
tensors of samples and positions of them, under the kernels that run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from meshwright.model.mixers.told import ALL, Span
from meshwright.model.tensors import Dim

if TYPE_CHECKING:
    from meshwright.model.tensors import Part

AttentionKernel: TypeAlias = Literal["flash", "materialised", "causal_pairs"]
Elementwise: TypeAlias = Literal["eager", "fused"]
Need: TypeAlias = Literal["product_input", "nonlinear", "copy", "index"]
"""Why a tensor is kept: a matrix product wants its input, or a non-linear operator its own values; `copy` is the input
of a norm whose normed values are kept too, `index` says which rows go where."""

FP32_BITS: Final = 32
INDEX_BITS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One tensor. operator: the first that keeps it.   bits: of an element, None for those of the plain format.

    core: made inside core attention.   product: an elementwise product of what is kept too.   stride: one row stands
    for so many positions.   pairs: for pairs of positions instead.
    """

    name: str
    operator: str
    dims: tuple[Dim, ...]
    need: Need = "product_input"
    bits: int | None = None
    part: Part = "attention"
    core: bool = False
    product: bool = False
    stride: int = 1
    pairs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptNorm:
    """What a norm inside the mixer keeps. groups: dims of its statistics.   reads: the name of its input.

    keeper: the first product that reads its output, or None.   whole: the dim that its input is a view of, if any.
    """

    name: str
    dim: Dim
    reads: str
    groups: tuple[Dim, ...] = ()
    keeper: str | None = None
    whole: Dim | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptScores:
    """What core attention keeps of so many heads' scores: one number a row, or the pairs."""

    heads: int
    span: Span = ALL


Entry: TypeAlias = Kept | KeptNorm | KeptScores
Groups: TypeAlias = dict[str, tuple[Kept, ...]]
"""By operator, in the order of the forward pass: what its backward holds at once, beside the residual's gradient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """Of one mixer. kept: beside its input, in the order of the forward pass.   gradients: as `Groups`.

    core_inputs: what core attention made again needs and nobody else keeps.   left_out: what is not counted.
    """

    kept: tuple[Entry, ...]
    gradients: Groups
    core_inputs: tuple[Kept, ...] = ()
    left_out: tuple[str, ...] = ()


NOTHING: Final = Training(kept=(), gradients={})


def held(name: str, *dims: Dim, bits: int | None = None, stride: int = 1) -> Kept:
    """A gradient, or what a kernel's backward makes again."""
    return Kept(name=f"{name}.gradient", operator="backward", dims=dims, need="nonlinear", bits=bits, stride=stride)


def score_gradients(heads: int) -> dict[str, Kept]:
    """Of a square of pairs of every head: of probabilities and scores in fp32, and of products."""
    count = Dim(role="heads", size=heads)
    widths = {"probabilities": FP32_BITS, "scores": FP32_BITS, "products": None}
    return {
        name: Kept(
            name=f"{name}.gradient",
            operator="backward",
            dims=(count,),
            need="nonlinear",
            bits=bits,
            core=True,
            pairs=True,
        )
        for name, bits in widths.items()
    }


def core_gradients(kernel: AttentionKernel, heads: int, mixed: Kept, made: tuple[Kept, Kept, Kept]) -> Groups:
    """Of core attention. mixed: of its output.   made: of queries, keys and values."""
    query, key, value = made
    if kernel == "flash":
        return {"attention": (mixed, query, key, value)}
    square = score_gradients(heads)
    return {
        "attention.scores": (value, square["products"], query, key),
        "attention.softmax": (value, square["probabilities"], square["scores"]),
        "attention.values": (mixed, value, square["products"]),
    }
