"""What makes one entry of the saved set: a name, dims and an operator go in; a tensor that is kept comes out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from meshwright.base.numbers import divide_up
from meshwright.model.mixers.saving import FP32_BITS, INDEX_BITS, AttentionKernel, Elementwise, Kept, KeptNorm, Need
from meshwright.model.tensors import Dim, Tensor
from meshwright.workload.batches import prefill

if TYPE_CHECKING:
    from meshwright.model.mixers.saving import Entry, KeptScores
    from meshwright.model.model import Model
    from meshwright.model.tensors import Part

Loss: TypeAlias = Literal["materialised", "fused"]


__all__ = ["FP32_BITS", "INDEX_BITS", "AttentionKernel", "Elementwise", "Kernels", "Maker", "Need", "Saved"]


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

    def told(self, entries: tuple[Entry, ...]) -> list[Saved]:
        """What a mixer tells of."""
        found: list[Saved] = []
        for item in entries:
            if isinstance(item, Kept):
                found.append(self._row(item))
            else:
                found += self._norm_inside(item) if isinstance(item, KeptNorm) else self._scores(item)
        return found

    def _row(self, item: Kept) -> Saved:
        """Rows of positions, or of `stride` positions each, or pairs of positions in place of both."""
        sample, every = self.rows
        dims = (sample, every, *item.dims)
        if item.stride > 1:
            dims = (sample, Dim(role="positions", size=divide_up(self.positions, item.stride)), *item.dims)
        if item.pairs:
            dims = (
                sample,
                *item.dims,
                Dim(role="positions", size=self.positions * self.positions, grain=self.positions),
            )
        return Saved(
            tensor=Tensor(name=item.name, part=item.part, dims=dims),
            operator=item.operator,
            bits=self.plain if item.bits is None else item.bits,
            need=item.need,
            core=item.core,
            product=item.product,
        )

    def _norm_inside(self, item: KeptNorm) -> tuple[Saved, ...]:
        """Of a view the whole row lives, unless it is copied into fp32."""
        read, *rest = self.norm(item.name, item.dim, item.groups, item.reads, item.keeper)
        if item.whole is not None and read.bits == self.plain:
            dims = (*read.tensor.dims[:-1], item.whole)
            read = replace(read, tensor=replace(read.tensor, dims=dims))
        return (read, *rest)

    def _scores(self, item: KeptScores) -> list[Saved]:
        """What core attention keeps of pairs: one number a row (flash), the whole square, or pairs under the mask.

        Source: transformers 5.24, eager_attention_forward: softmax in fp32, then cast; FlashAttention-2
        (arXiv:2307.08691), algorithm 1.
        """
        count, part = Dim(role="heads", size=item.heads), "attention"
        if self.kernels.attention == "flash":
            return [self.kept("logsumexp", "attention", (count,), "nonlinear", part, bits=FP32_BITS, core=True)]
        pairs: tuple[Any, Any] = (self.positions * self.positions, self.positions)
        if self.kernels.attention == "causal_pairs":
            pairs = (prefill(self.positions).pairs_seen(item.span), 1)
        square = (count, Dim(role="positions", size=pairs[0], grain=pairs[1]))
        found = [self._pairs("probabilities", "softmax", square, "nonlinear", FP32_BITS)]
        if self.plain != FP32_BITS:
            found.append(self._pairs("probabilities_cast", "attention", square, "product_input", self.plain))
        return found

    def _pairs(self, name: str, operator: str, dims: tuple[Dim, ...], need: Need, bits: int) -> Saved:
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
