"""Kimi Delta Attention: shapes go in; its projections, its state of fixed size and its products come out."""

from __future__ import annotations

from dataclasses import dataclass

from meshwright.model.mixers._recurrent import (
    FixedState,
    convolution,
    filters,
    heads_of,
    matrix,
    matrix_state,
    narrow,
    plain,
    recurrence,
    vector,
)
from meshwright.model.mixers.told import Recurrence
from meshwright.model.tensors import Dim, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class KimiDelta(FixedState):
    """A gated delta rule whose decay is one number a channel of a head, from a product through `head_dim` columns.

    heads: of q, k and v alike, each of head_dim.   kernel: of the causal convolution over all three.   chunk: tokens
    that a prompt is worked on at once. Source: Kimi Linear (arXiv 2510.26692); transformers 5.24,
    `KimiLinearDeltaAttention`.
    """

    heads: int
    head_dim: int
    kernel: int = 4
    chunk: int = 64

    @property
    def kind(self) -> str:
        """The word of `kv_bytes_per_token_by_kind`."""
        return "linear_attention"

    @property
    def head_counts(self) -> tuple[int, ...]:
        """Heads."""
        return (self.heads,)

    def weights(self, hidden: int) -> tuple[Tensor, ...]:
        """q, k, v, o; the convolution; decay, step and output gate, two of them through `head_dim` columns; a norm."""
        wide, columns, each = plain(hidden), self._columns(), heads_of(self.heads)
        slim = Dim(role="head_dim", size=self.head_dim)
        return (
            *(matrix(f"self_attn.{name}_proj", columns, wide) for name in "qkv"),
            *filters("self_attn.conv1d", heads_of(self.heads, 3 * self.head_dim), self.kernel),
            matrix("self_attn.forget_gate.f_a_proj", slim, wide),
            matrix("self_attn.forget_gate.f_b_proj", columns, slim),
            Tensor(name="self_attn.forget_gate.dt_bias", part="attention", dims=(columns,), fp32=True),
            vector("self_attn.forget_gate.A_log", each),
            narrow("self_attn.b_proj", each, wide),
            matrix("self_attn.g_a_proj", slim, wide),
            matrix("self_attn.g_b_proj", columns, slim),
            vector("self_attn.o_norm.weight", slim, "norms"),
            matrix("self_attn.o_proj", wide, columns),
        )

    def recurrences(self) -> tuple[Recurrence, ...]:
        """Products as those of a gated delta rule; that the decay differs by channel changes none of their sizes."""
        state = self.head_dim * self.head_dim
        inside = 5 * self.chunk * self.head_dim
        heads = heads_of(self.heads)
        kept = matrix_state(heads, self.head_dim, self.head_dim)
        return (
            convolution(heads_of(self.heads, 3 * self.head_dim), self.kernel),
            recurrence("delta_rule", heads, step=3 * state, chunked=inside + 3 * state, state=kept),
        )

    def _columns(self) -> Dim:
        return heads_of(self.heads, self.head_dim)
