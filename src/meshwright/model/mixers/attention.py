"""Grouped-query attention. Shapes go in; weights, state and products come out (see `told`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from meshwright.base.errors import ModelError
from meshwright.model.mixers.saving import Kept, KeptNorm, KeptScores, Training, core_gradients, held
from meshwright.model.mixers.told import ATTENTION_HEADS, MatrixProduct, PairProduct, PositionState, Span
from meshwright.model.tensors import Dim, Part, Tensor

if TYPE_CHECKING:
    from meshwright.model.mixers.saving import AttentionKernel, Elementwise, Entry
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
        return (ATTENTION_HEADS,)

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
        query, mixed = (_vector(name, "attention", self._heads()) for name in ("query", "mixed"))
        state, span = self._rows(), self._span()
        return (PairProduct(name="attention", scores=query, values=mixed, state=state, span=span),)

    def recurrences(self) -> tuple[Recurrence, ...]:
        """None."""
        return ()

    def training(self, hidden: int, kernel: AttentionKernel, elementwise: Elementwise) -> Training:
        """Queries, keys and values, scores, and the output; norms and a gate where it has them.

        Materialised products copy keys and values to every query head. Source: transformers 5.24, Qwen3Attention and
        eager_attention_forward; Dao, "FlashAttention-2" (arXiv 2307.08691), algorithm 1.   Raises MOD030 for keys and
        values of another layer.
        """
        del elementwise  # a gate is a product by itself, and norms are listed apart
        if self.shared_kv:
            cause = f"saved activations of {self.kind} over another layer's keys are not modelled"
            raise ModelError(30, cause, "inspect, fit and plan serve take this model")
        heads, keys = self._heads(), self._keys()
        own = (_kept("key", keys), _kept("value", keys))
        copied = kernel == "materialised" and self.heads != self.kv_heads
        copies = (_kept("key_copies", heads, core=True), _kept("value_copies", heads, core=True))
        found: list[Entry] = [*self._kept_norms(), _kept("query", heads), *(copies if copied else own)]
        found.append(KeptScores(heads=self.heads, span=self._span()))
        if self.output_gate:
            gate = ("attention_gate", "attention_mixed")
            found += (Kept(name=name, operator="output_gate", dims=(heads,), need="nonlinear") for name in gate)
        found.append(_kept("attention_output", heads, operator="self_attn.o_proj"))
        mixed, query, key, value = (
            held(name, dim)
            for name, dim in (("attention_output", heads), ("query", heads), ("key", keys), ("value", keys))
        )
        normed = held("normed", Dim(role="hidden", size=hidden))
        gradients = {
            "self_attn.q_proj": (query, key, value, normed),
            **core_gradients(kernel, self.heads, mixed, (query, key, value)),
            "self_attn.o_proj": (mixed,),
        }
        return Training(kept=tuple(found), gradients=gradients, core_inputs=own if copied else ())

    def _kept_norms(self) -> list[KeptNorm]:
        if self.qk_norm == "none":
            return []
        counts = Dim(role="heads", size=self.heads), Dim(role="kv_heads", size=self.kv_heads)
        both = zip(("q_norm", "k_norm"), (self._heads(), self._keys()), counts, strict=True)
        return [
            KeptNorm(
                name=f"self_attn.{name}",
                dim=dim,
                reads=f"self_attn.{name}.input",
                groups=(count,) if self.qk_norm == "head" else (),
            )
            for name, dim, count in both
        ]

    def _heads(self) -> Dim:
        return Dim(role="heads", size=self.heads * self.head_dim, grain=self.head_dim)

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


def _kept(name: str, dim: Dim, *, core: bool = False, operator: str = "attention") -> Kept:
    return Kept(name=name, operator=operator, dims=(dim,), core=core)
