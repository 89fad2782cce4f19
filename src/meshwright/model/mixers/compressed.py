"""Compressed attention: heads over one shared row of the last positions, and over rows that stand for several each.

A row of `stride` positions is a weighted mean that a compressor makes once they are complete; an indexer with a
compressor of its own may choose which of them a token reads. Source: DeepSeek-V4 as transformers 5.24 builds it
(DeepseekV4Attention, its compressors and caches).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshwright.base.errors import ModelError
from meshwright.model.mixers.latent import INDEX_KEY, Indexer
from meshwright.model.mixers.told import ATTENTION_HEADS, MatrixProduct, PairProduct, PositionState, SessionState, Span
from meshwright.model.tensors import Dim, Part, Tensor

if TYPE_CHECKING:
    from meshwright.model.mixers.saving import AttentionKernel, Elementwise, Training
    from meshwright.model.mixers.told import Form, Recurrence

_PAIR: Final = ("kv_proj", "gate_proj")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compressor:
    """One row for `stride` positions. overlapping: a row also takes in the positions of the row before it.

    indexer: scores these rows, and a token reads the best `top_k`; without one it reads all.
    """

    stride: int
    overlapping: bool = False
    indexer: Indexer | None = None
    top_k: int | None = None

    @property
    def series(self) -> int:
        """Vectors that a position adds: one to its own row, and where rows overlap one to the next."""
        return 2 if self.overlapping else 1

    @property
    def span(self) -> Span:
        """The rows that are scored."""
        return Span(stride=self.stride)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressedAttention:
    """`heads` query heads over one row of `head_dim` columns, key and value alike.

    query_rank: of the queries' low-rank row.   local: positions seen one by one, itself included.   out_groups,
    out_rank: heads are projected in so many groups, to so many columns each, before one matrix mixes them.
    compressor: what makes rows of positions further back; None for none, so that only the last are seen.
    """

    heads: int
    head_dim: int
    query_rank: int
    local: int
    out_groups: int
    out_rank: int
    compressor: Compressor | None = None

    @property
    def kind(self) -> str:
        """The word of `kv_bytes_per_token_by_kind`."""
        if self.compressor is None:
            return "sliding_attention"
        return "heavily_compressed_attention" if self.compressor.indexer is None else "compressed_sparse_attention"

    @property
    def head_counts(self) -> tuple[int, ...]:
        """Query heads, and the groups of them that are projected together."""
        return (self.heads, self.out_groups)

    @property
    def head_names(self) -> tuple[str, ...]:
        """What each of `head_counts` is a count of."""
        return (ATTENTION_HEADS, "output groups")

    @property
    def kv_head_counts(self) -> tuple[int, ...]:
        """None: all heads read one row, so every rank of a tp group keeps it whole."""
        return ()

    def mismatch(self) -> str:
        """Groups that do not divide the heads, or an indexer without a number of rows to choose."""
        if self.heads % self.out_groups:
            return f"out_groups={self.out_groups} does not divide heads={self.heads}"
        if self.compressor is None or self.compressor.indexer is None or self.compressor.top_k is not None:
            return ""
        return "an indexer without top_k"

    def weights(self, hidden: int) -> tuple[Tensor, ...]:
        """Matrices [out, in] as transformers names them; o_a is block-diagonal, one block of rows a group of heads."""
        plain, row, rank = Dim(role="hidden", size=hidden), self._row(), Dim(role="latent", size=self.query_rank)
        grouped = Dim(role="heads", size=self.out_groups * self.out_rank, grain=self.out_rank)
        inner = Dim(role="head_dim", size=self.heads * self.head_dim // self.out_groups)
        found = [
            _matrix("q_a_proj", (rank, plain)),
            _norm("q_a_norm", rank),
            _matrix("q_b_proj", (self._heads(), rank)),
            _matrix("kv_proj", (row, plain)),
            _norm("kv_norm", row),
            _matrix("o_a_proj", (grouped, inner)),
            _matrix("o_b_proj", (plain, grouped)),
            Tensor(name="self_attn.sinks", part="attention", dims=(Dim(role="heads", size=self.heads),), fp32=True),
        ]
        if self.compressor is not None:
            found += _compressor("compressor", self.compressor, row, plain)
            found += self._index_weights(self.compressor, plain, rank)
        return tuple(found)

    def token_state(self) -> tuple[PositionState, ...]:
        """A row of each of the last positions, one for every `stride` of them, and as many keys of an indexer."""
        found = [PositionState(tensor=_vector("local_cache", "kv_cache", self._row()), span=Span(window=self.local))]
        if self.compressor is not None:
            row = _vector("compressed_cache", "kv_cache", self._row())
            found.append(PositionState(tensor=row, span=self.compressor.span))
            if self.compressor.indexer is not None:
                found.append(_index_key(self.compressor, self.compressor.indexer))
        return tuple(found)

    def session_state(self) -> tuple[SessionState, ...]:
        """What compressors hold of positions whose row is not complete: values and weights of at most stride - 1.

        Where rows overlap, also those of the whole row before, in half the columns.
        """
        if self.compressor is None:
            return ()
        widths = [self.head_dim] + ([] if self.compressor.indexer is None else [self.compressor.indexer.index_dim])
        return tuple(_held(self.compressor, width) for width in widths)

    def matrix_products(self, form: Form) -> tuple[MatrixProduct, ...]:  # noqa: ARG002 - it has one form
        """Its own, its compressor's, and its indexer's."""
        names = ["q_a_proj", "q_b_proj", "kv_proj", "o_a_proj", "o_b_proj"]
        if self.compressor is not None:
            names += [f"compressor.{name}" for name in _PAIR]
            if self.compressor.indexer is not None:
                names += [f"compressor.indexer.{name}" for name in (*_PAIR, "q_b_proj", "scorer.weights_proj")]
        return tuple(MatrixProduct(name=f"self_attn.{name}") for name in names)

    def pair_products(self, form: Form) -> tuple[PairProduct, ...]:  # noqa: ARG002 - it has one form
        """Heads over the last positions, over compressed rows, and the indexer's over all of these."""
        query, mixed = (_vector(name, "attention", self._heads()) for name in ("query", "mixed"))
        state = self.token_state()
        local = PairProduct(name="attention", scores=query, values=mixed, state=state[:1], span=state[0].span)
        if self.compressor is None:
            return (local,)
        span = Span(stride=self.compressor.stride, top=self.compressor.top_k)
        further = PairProduct(name="attention.compressed", scores=query, values=mixed, state=state[1:2], span=span)
        if self.compressor.indexer is None:
            return (local, further)
        index = PairProduct(
            name="indexer",
            scores=_vector("index_query", "attention", _index_heads(self.compressor.indexer)),
            values=_vector("index_mixed", "attention", Dim(role="index_heads", size=0)),
            state=state[2:],
            span=self.compressor.span,
        )
        return (local, further, index)

    def recurrences(self) -> tuple[Recurrence, ...]:
        """None: the weighted means are no matrix products."""
        return ()

    def training(self, hidden: int, kernel: AttentionKernel, elementwise: Elementwise) -> Training:
        """Refused with MOD030: it is not known which rows a kernel of compressed attention keeps or makes again."""
        del hidden, kernel, elementwise
        cause = (
            f"saved activations of compressed attention ({self.kind}) are not modelled: no published kernel says which"
            " of the weighted means, the rows chosen of them and the residual streams around it are kept, and which are"
            " made again"
        )
        raise ModelError(30, cause, "inspect, fit and plan serve take this model")

    def _index_weights(self, compressor: Compressor, plain: Dim, rank: Dim) -> list[Tensor]:
        if compressor.indexer is None:
            return []
        key, heads = Dim(role="head_dim", size=compressor.indexer.index_dim), compressor.indexer.index_heads
        weighed = (Dim(role="index_heads", size=heads), plain)
        return [
            *_compressor("compressor.indexer", compressor, key, plain),
            _matrix("compressor.indexer.q_b_proj", (_index_heads(compressor.indexer), rank)),
            _unquantized("compressor.indexer.scorer.weights_proj", weighed),
        ]

    def _row(self) -> Dim:
        return Dim(role="head_dim", size=self.head_dim)

    def _heads(self) -> Dim:
        return Dim(role="heads", size=self.heads * self.head_dim, grain=self.head_dim)


def _compressor(name: str, compressor: Compressor, row: Dim, plain: Dim) -> list[Tensor]:
    """Values and weights of a position, a weight for each place in a row, and a norm. Both matrices are kept plain."""
    made = Dim(role="head_dim", size=compressor.series * row.size)
    places = Dim(role="table_rows", size=compressor.stride)
    return [
        *(_unquantized(f"{name}.{item}", (made, plain)) for item in _PAIR),
        Tensor(name=f"self_attn.{name}.position_bias", part="attention", dims=(places, made), fp32=True),
        _norm(f"{name}.kv_norm", row),
    ]


def _held(compressor: Compressor, width: int) -> SessionState:
    rows = (compressor.stride - 1) * compressor.series + (compressor.stride if compressor.overlapping else 0)
    dims = (Dim(role="table_rows", size=rows), Dim(role="head_dim", size=len(_PAIR) * width))
    return SessionState(tensor=Tensor(name="open_row", part="kv_cache", dims=dims))


def _index_key(compressor: Compressor, indexer: Indexer) -> PositionState:
    key = _vector("index_key_cache", "kv_cache", Dim(role="head_dim", size=indexer.index_dim))
    return PositionState(tensor=key, span=compressor.span, format=INDEX_KEY)


def _index_heads(indexer: Indexer) -> Dim:
    return Dim(role="index_heads", size=indexer.index_heads * indexer.index_dim, grain=indexer.index_dim)


def _matrix(name: str, dims: tuple[Dim, Dim]) -> Tensor:
    return Tensor(name=f"self_attn.{name}.weight", part="attention", dims=dims, quantized=True)


def _unquantized(name: str, dims: tuple[Dim, Dim]) -> Tensor:
    return Tensor(name=f"self_attn.{name}.weight", part="attention", dims=dims)


def _norm(name: str, dim: Dim) -> Tensor:
    return Tensor(name=f"self_attn.{name}.weight", part="norms", dims=(dim,), fp32=True)


def _vector(name: str, part: Part, dim: Dim) -> Tensor:
    return Tensor(name=name, part=part, dims=(dim,))
