"""Grouped-query attention. Shapes go in; weights, state and products come out (see `told`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from meshwright.model.mixers.told import MatrixProduct, PairProduct, PositionState, Span
from meshwright.model.tensors import Dim, Part, Tensor

if TYPE_CHECKING:
    from meshwright.model.mixers.told import Form, Recurrence, SessionState


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Grouped-query attention (heads == kv_heads is multi-head, kv_heads == 1 is multi-query).

    window: positions a token may look back at, itself included; None is all of them.   chunk: a token sees those of its
    own chunk of so many, itself and before it; None is one chunk of all.
    qkv_bias, out_bias: biases on q, k and v, and on o.   qk_norm: a norm on queries and keys, of width head_dim
    ("head") or over all heads together ("full").   output_gate: q_proj also makes a gate, twice as wide.
    sinks: a learned score of each query head, which softmax weighs beside the positions.   shared_kv: it makes and
    keeps no keys and values of its own, and reads those of the last layer before it that does, and sees what it does
    (YOCO, arXiv 2405.05254; cross-layer attention, arXiv 2405.12981).
    """

    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    chunk: int | None = None
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: Literal["none", "head", "full"] = "none"
    output_gate: bool = False
    sinks: bool = False
    shared_kv: bool = False

    @property
    def kind(self) -> str:
        """The word of `kv_bytes_per_token_by_kind`."""
        if self.chunk is not None:
            return "chunked_attention"
        return "full_attention" if self.window is None else "sliding_attention"

    @property
    def head_counts(self) -> tuple[int, ...]:
        """Query heads."""
        return (self.heads,)

    @property
    def head_names(self) -> tuple[str, ...]:
        """What each of `head_counts` is a count of."""
        return ("attention heads",)

    @property
    def kv_head_counts(self) -> tuple[int, ...]:
        """KV heads."""
        return (self.kv_heads,)

    def mismatch(self) -> str:
        """KV heads that do not divide the query heads."""
        return f"kv_heads={self.kv_heads} does not divide heads={self.heads}" if self.heads % self.kv_heads else ""

    def weights(self, hidden: int) -> tuple[Tensor, ...]:
        """q, k, v, o projections, biases, sinks, q/k norms; matrices are [out, in] as Hugging Face stores them."""
        width = self.head_dim * (2 if self.output_gate else 1)
        queries = Dim(role="heads", size=self.heads * width, grain=width)
        values = Dim(role="heads", size=self.heads * self.head_dim, grain=self.head_dim)
        keys, plain = self._keys(), Dim(role="hidden", size=hidden)
        inputs = {"q_proj": queries} if self.shared_kv else {"q_proj": queries, "k_proj": keys, "v_proj": keys}
        found = [_matrix(f"self_attn.{name}", (out, plain)) for name, out in inputs.items()]
        found.append(_matrix("self_attn.o_proj", (plain, values)))
        if self.qkv_bias:
            found += [_vector(f"self_attn.{name}.bias", "attention", out) for name, out in inputs.items()]
        if self.out_bias:
            found.append(_vector("self_attn.o_proj.bias", "attention", plain))
        if self.sinks:
            found.append(_vector("self_attn.sinks", "attention", Dim(role="heads", size=self.heads)))
        if self.qk_norm != "none":
            normed = Dim(role="head_dim", size=self.head_dim)
            widths = (normed, normed) if self.qk_norm == "head" else (values, keys)
            names = list(zip(("q_norm", "k_norm"), widths, strict=True))
            made = names[:1] if self.shared_kv else names
            found += [_vector(f"self_attn.{name}.weight", "norms", width) for name, width in made]
        return tuple(found)

    def token_state(self) -> tuple[PositionState, ...]:
        """A key and a value of every KV head, of the positions in the window; none of keys that another layer keeps."""
        return () if self.shared_kv else self._rows()

    def session_state(self) -> tuple[SessionState, ...]:
        """None."""
        return ()

    def matrix_products(self, form: Form) -> tuple[MatrixProduct, ...]:  # noqa: ARG002 - it has one form
        """q, k, v and o."""
        names = ("q_proj", "o_proj") if self.shared_kv else ("q_proj", "k_proj", "v_proj", "o_proj")
        return tuple(MatrixProduct(name=f"self_attn.{name}") for name in names)

    def pair_products(self, form: Form) -> tuple[PairProduct, ...]:  # noqa: ARG002 - it has one form
        """Each query head scores every position it sees and mixes the values."""
        heads = Dim(role="heads", size=self.heads * self.head_dim, grain=self.head_dim)
        query, mixed = (_vector(name, "attention", heads) for name in ("query", "mixed"))
        state, span = self._rows(), self._span()
        return (PairProduct(name="attention", scores=query, values=mixed, state=state, span=span),)

    def recurrences(self) -> tuple[Recurrence, ...]:
        """None."""
        return ()

    def _rows(self) -> tuple[PositionState, ...]:
        rows = (_vector(name, "kv_cache", self._keys()) for name in ("key_cache", "value_cache"))
        return tuple(PositionState(tensor=row, span=self._span()) for row in rows)

    def _span(self) -> Span:
        return Span(window=self.window, chunk=self.chunk)

    def _keys(self) -> Dim:
        return Dim(role="kv_heads", size=self.kv_heads * self.head_dim, grain=self.head_dim)


def _matrix(name: str, dims: tuple[Dim, Dim]) -> Tensor:
    return Tensor(name=f"{name}.weight", part="attention", dims=dims, quantized=True)


def _vector(name: str, part: Part, dim: Dim) -> Tensor:
    return Tensor(name=name, part=part, dims=(dim,))
