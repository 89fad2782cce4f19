"""What makes one entry of the saved set: a name, dims and an operator go in; a tensor that is kept comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from meshwright.model.tensors import Dim, Tensor
from meshwright.workload.batches import prefill

if TYPE_CHECKING:
    from meshwright.model.model import Model
    from meshwright.model.tensors import Part

AttentionKernel: TypeAlias = Literal["flash", "materialised", "causal_pairs"]
Elementwise: TypeAlias = Literal["eager", "fused"]
Loss: TypeAlias = Literal["materialised", "fused"]
Need: TypeAlias = Literal["product_input", "nonlinear", "copy", "index"]
"""Why a tensor is kept: a matrix product wants its input, or a non-linear operator its own values; `copy` is the input
of a norm whose normed values are kept too, `index` says which rows go where."""

FP32_BITS: Final = 32
INDEX_BITS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """One tensor that is kept; `tensor.name` says which.

    operator: the first one that keeps it.   bits: of an element.   need: see `Need`.   visits: experts that
    each row visits; the dims are then the columns of one visit, and else begin with samples and positions.
    core: made inside core attention (scores, softmax, values).   product: an elementwise product of what is kept too.
    """

    tensor: Tensor
    operator: str
    bits: int
    need: Need
    visits: int = 0
    core: bool = False
    product: bool = False

    @property
    def storage(self) -> tuple[str, int]:
        """Entries of one block with equal storage are one tensor."""
        return self.tensor.name, self.bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """Which kernels run: the table of `saved` says what each keeps."""

    attention: AttentionKernel = "flash"
    elementwise: Elementwise = "eager"
    loss: Loss = "materialised"


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """Makes the entries of one sample of so many positions."""

    model: Model
    positions: Any
    kernels: Kernels

    @property
    def plain(self) -> int:
        """Bits of an element of the plain format."""
        return self.model.plain.bits

    @property
    def rows(self) -> tuple[Dim, Dim]:
        """Samples and positions."""
        return Dim(role="samples", size=1), Dim(role="positions", size=self.positions)

    @property
    def hidden(self) -> Dim:
        """Columns of the sum that runs between the blocks."""
        return Dim(role="hidden", size=self.model.hidden)

    def kept(
        self,
        name: str,
        operator: str,
        dims: tuple[Dim, ...],
        need: Need,
        part: Part,
        *,
        bits: int | None = None,
        core: bool = False,
        product: bool = False,
    ) -> Saved:
        """One row a position, in the plain format where `bits` names no other."""
        tensor = Tensor(name=name, part=part, dims=(*self.rows, *dims))
        wide = self.plain if bits is None else bits
        return Saved(tensor=tensor, operator=operator, bits=wide, need=need, core=core, product=product)

    def scores(self, name: str, operator: str, dims: tuple[Dim, ...], need: Need, *, bits: int) -> Saved:
        """Pairs of positions in place of positions; inside core attention."""
        tensor = Tensor(name=name, part="attention", dims=(self.rows[0], *dims))
        return Saved(tensor=tensor, operator=operator, bits=bits, need=need, core=True)

    def routed(
        self,
        name: str,
        operator: str,
        dims: tuple[Dim, ...],
        need: Need,
        *,
        visits: int,
        bits: int | None = None,
        product: bool = False,
    ) -> Saved:
        """One row a visit of an expert, as `kept`."""
        tensor = Tensor(name=name, part="experts", dims=dims)
        wide = self.plain if bits is None else bits
        return Saved(tensor=tensor, operator=operator, bits=wide, need=need, visits=visits, product=product)

    def norm(self, name: str, dim: Dim, groups: tuple[Dim, ...], reads: str, keeper: str | None) -> tuple[Saved, ...]:
        """What a norm keeps, and its output where a product keeps that.

        groups: dims of its statistics beside the rows.   reads: the name of its input.   keeper: the first product that
        reads it, or None. An RMSNorm called operator by operator keeps its input in fp32, and what it multiplies its
        weight by. LayerNorm is one kernel: input, mean, rstd. Source: transformers 5.24, Qwen3RMSNorm; torch 2.13,
        native_layer_norm.
        """
        eager = self.model.norm == "rms" and self.kernels.elementwise == "eager"
        need: Need = "copy" if eager else "nonlinear"
        found = [self.kept(reads, name, (dim,), need, "norms", bits=FP32_BITS if eager else self.plain)]
        found += (
            self.kept(f"{name}.{item}", name, groups, "nonlinear", "norms", bits=FP32_BITS)
            for item in (("rstd",) if self.model.norm == "rms" else ("mean", "rstd"))
        )
        if eager:
            found.append(self.kept(f"{name}.normed", name, (dim,), "nonlinear", "norms"))
        if keeper is not None:
            found.append(self.kept(f"{name}.output", keeper, (dim,), "product_input", "norms", product=True))
        return tuple(found)


def core_scores(made: Maker, heads: int, window: int | None) -> list[Saved]:
    """What core attention keeps of pairs: one number a row (flash), the whole square, or the pairs under the mask.

    Source: transformers 5.24, eager_attention_forward: softmax in fp32, then cast; FlashAttention-2
    (arXiv:2307.08691), algorithm 1.
    """
    count, part = Dim(role="heads", size=heads), "attention"
    if made.kernels.attention == "flash":
        return [made.kept("logsumexp", "attention", (count,), "nonlinear", part, bits=FP32_BITS, core=True)]
    pairs: tuple[Any, Any] = (made.positions * made.positions, made.positions)
    if made.kernels.attention == "causal_pairs":
        pairs = (prefill(made.positions).pairs(window), 1)
    square = Dim(role="positions", size=pairs[0], grain=pairs[1])
    found = [made.scores("probabilities", "softmax", (count, square), "nonlinear", bits=FP32_BITS)]
    if made.plain != FP32_BITS:
        found.append(made.scores("probabilities_cast", "attention", (count, square), "product_input", bits=made.plain))
    return found
