"""Latent attention (MLA): one low-rank row a position, which every head reads. Shapes go in; what it runs comes out.

Source: DeepSeek-AI, "DeepSeek-V2" (arXiv 2405.04434), section 2.1; of the chosen rows, "DeepSeek-V3.2" (arXiv
2512.02556), section 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshwright.model.formats import Format
from meshwright.model.mixers._latent_training import latent_training
from meshwright.model.mixers.told import ALL, ATTENTION_HEADS, MatrixProduct, PairProduct, PositionState, Span
from meshwright.model.tensors import Dim, Part, Tensor

if TYPE_CHECKING:
    from meshwright.model.mixers.saving import AttentionKernel, Elementwise, Training
    from meshwright.model.mixers.told import Form, Recurrence, SessionState

INDEX_KEY: Final = Format(name="fp8[row]", bits=8, compute="fp8", block=(1, 128), scale_bytes=4)
"""Keys of an indexer, whatever the format of the cache: FP8 with a float32 scale for 128 elements. Source: vLLM 0.11,
DeepseekV32IndexerCache, head_dim + head_dim // 128 x 4 bytes a position; SGLang 0.5, NSATokenToKVPool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexer:
    """Small heads that score every position, so that a token reads the best of them alone.

    Every rank of a tp group scores with all of them: they choose for all its heads. No gradient goes through the choice
    (transformers 5.24, DeepseekV32Indexer).
    """

    index_heads: int
    index_dim: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Queries of `heads` heads, keys and values made from one row of `kv_rank` + `rope_dim` columns a position.

    query_rank: of the queries' own low-rank row; None for queries made at once.   nope_dim, rope_dim: columns of a head
    without and with rotary positions, the latter shared by the keys of all heads.   value_dim: of a head's values.
    bias: on the matrices that make low-rank rows, and on o.   top_k: positions that a token reads, None for all.
    indexer: what chooses them; None with a `top_k` where a layer before it did.
    """

    heads: int
    query_rank: int | None = None
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    bias: bool = False
    top_k: int | None = None
    indexer: Indexer | None = None

    @property
    def kind(self) -> str:
        """The word of `kv_bytes_per_token_by_kind`."""
        return "latent_attention" if self.top_k is None else "sparse_latent_attention"

    @property
    def head_counts(self) -> tuple[int, ...]:
        """Query heads; those of an indexer are on every rank."""
        return (self.heads,)

    @property
    def head_names(self) -> tuple[str, ...]:
        """What each of `head_counts` is a count of."""
        return (ATTENTION_HEADS,)

    @property
    def kv_head_counts(self) -> tuple[int, ...]:
        """None: what is cached has no heads."""
        return ()

    def mismatch(self) -> str:
        """An indexer without the low-rank queries that it reads, or without a number of positions to choose."""
        if self.indexer is None:
            return ""
        lacks = [name for name in ("query_rank", "top_k") if getattr(self, name) is None]
        return f"an indexer without {lacks[0]}" if lacks else ""

    def weights(self, hidden: int) -> tuple[Tensor, ...]:
        """Low-rank rows and what makes heads of them; matrices are [out, in] as Hugging Face stores them."""
        plain, rows = Dim(role="hidden", size=hidden), _latent(self.kv_rank + self.rope_dim)
        made = _heads(self.heads, self.nope_dim + self.value_dim)
        found = [
            *self._queries(plain),
            _matrix("kv_a_proj_with_mqa", (rows, plain)),
            _vector("kv_a_layernorm.weight", "norms", _latent(self.kv_rank)),
            _matrix("kv_b_proj", (made, _latent(self.kv_rank))),
            _matrix("o_proj", (plain, _heads(self.heads, self.value_dim))),
        ]
        if self.bias:
            if self.query_rank is not None:
                found.append(_vector("q_a_proj.bias", "attention", _latent(self.query_rank)))
            found += [_vector("kv_a_proj_with_mqa.bias", "attention", rows), _vector("o_proj.bias", "attention", plain)]
        return (*found, *self._index_weights(plain))

    def token_state(self) -> tuple[PositionState, ...]:
        """A latent row, and a key of the indexer; neither has heads, so every rank of a tp group keeps it whole."""
        row = PositionState(tensor=_vector("latent_cache", "kv_cache", _latent(self.kv_rank + self.rope_dim)))
        return (row,) if self.indexer is None else (row, self._index_key(self.indexer))

    def session_state(self) -> tuple[SessionState, ...]:
        """None."""
        return ()

    def matrix_products(self, form: Form) -> tuple[MatrixProduct, ...]:
        """kv_b multiplies every position that is read, or, absorbed, the queries and outputs of new tokens.

        Absorbed it multiplies as many columns: queries of nope_dim to kv_rank, and outputs of kv_rank to value_dim.
        """
        expanded = self._form(form) == "expanded"
        names = ("q_proj",) if self.query_rank is None else ("q_a_proj", "q_b_proj")
        found = [MatrixProduct(name=f"self_attn.{name}") for name in (*names, "kv_a_proj_with_mqa")]
        found.append(MatrixProduct(name="self_attn.kv_b_proj", rows="positions" if expanded else "tokens"))
        found.append(MatrixProduct(name="self_attn.o_proj"))
        if self.indexer is not None:
            names = ("wq_b", "wk", "weights_proj")
            found += [MatrixProduct(name=f"self_attn.indexer.{name}", backward=False) for name in names]
        return tuple(found)

    def pair_products(self, form: Form) -> tuple[PairProduct, ...]:
        """Heads over keys and values made for them, or, absorbed, over the latent row itself; then the indexer's."""
        expanded = self._form(form) == "expanded"
        scored = self.nope_dim + self.rope_dim if expanded else self.kv_rank + self.rope_dim
        mixed = self.value_dim if expanded else self.kv_rank
        attention = PairProduct(
            name="attention",
            scores=_vector("query", "attention", _heads(self.heads, scored)),
            values=_vector("mixed", "attention", _heads(self.heads, mixed)),
            state=self.token_state()[:1],
            span=ALL if self.top_k is None else Span(top=self.top_k),
        )
        return (attention,) if self.indexer is None else (attention, self._index_scores(self.indexer))

    def recurrences(self) -> tuple[Recurrence, ...]:
        """None."""
        return ()

    def training(self, hidden: int, kernel: AttentionKernel, elementwise: Elementwise) -> Training:
        """As `_latent_training` says."""
        del elementwise  # norms are listed apart
        return latent_training(self, hidden, kernel)

    def _form(self, form: Form) -> Form:
        """Rows that differ from token to token are read absorbed, in prompts too: source arXiv 2512.02556, 2.1."""
        return form if self.top_k is None else "absorbed"

    def _queries(self, plain: Dim) -> list[Tensor]:
        heads = _heads(self.heads, self.nope_dim + self.rope_dim)
        if self.query_rank is None:
            return [_matrix("q_proj", (heads, plain))]
        row = _latent(self.query_rank)
        norm = _vector("q_a_layernorm.weight", "norms", row)
        return [_matrix("q_a_proj", (row, plain)), norm, _matrix("q_b_proj", (heads, row))]

    def _index_weights(self, plain: Dim) -> list[Tensor]:
        if self.indexer is None or self.query_rank is None:
            return []
        heads, width = self.indexer.index_heads, self.indexer.index_dim
        key = Dim(role="head_dim", size=width)
        weighed = (Dim(role="index_heads", size=heads), plain)
        return [
            _matrix("indexer.wq_b", (_index_heads(self.indexer), _latent(self.query_rank))),
            _matrix("indexer.wk", (key, plain)),
            _vector("indexer.k_norm.weight", "norms", key),
            _vector("indexer.k_norm.bias", "norms", key),
            Tensor(name="self_attn.indexer.weights_proj.weight", part="attention", dims=weighed),
        ]

    def _index_key(self, indexer: Indexer) -> PositionState:
        key = _vector("index_key_cache", "kv_cache", Dim(role="head_dim", size=indexer.index_dim))
        return PositionState(tensor=key, format=INDEX_KEY)

    def _index_scores(self, indexer: Indexer) -> PairProduct:
        """Every position is scored; the weighted sum over heads is no matrix product."""
        return PairProduct(
            name="indexer",
            scores=_vector("index_query", "attention", _index_heads(indexer)),
            values=_vector("index_mixed", "attention", Dim(role="index_heads", size=0)),
            state=(self._index_key(indexer),),
            backward=False,
        )


def _latent(size: int) -> Dim:
    return Dim(role="latent", size=size)


def _heads(count: int, width: int) -> Dim:
    return Dim(role="heads", size=count * width, grain=width)


def _index_heads(indexer: Indexer) -> Dim:
    return Dim(role="index_heads", size=indexer.index_heads * indexer.index_dim, grain=indexer.index_dim)


def _matrix(name: str, dims: tuple[Dim, Dim]) -> Tensor:
    return Tensor(name=f"self_attn.{name}.weight", part="attention", dims=dims, quantized=True)


def _vector(name: str, part: Part, dim: Dim) -> Tensor:
    within = "" if part == "kv_cache" or name in {"query", "mixed", "index_query", "index_mixed"} else "self_attn."
    return Tensor(name=f"{within}{name}", part=part, dims=(dim,))
