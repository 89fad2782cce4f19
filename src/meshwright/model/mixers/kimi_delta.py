"""Kimi Delta Attention: shapes go in; its projections, its state of fixed size and its products come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

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
from meshwright.model.mixers._recurrent_training import (
    LEFT_OUT,
    gated_norm,
    gated_norm_gradients,
    kept,
    product_input,
)
from meshwright.model.mixers.saving import FP32_BITS, Kept, Training, held
from meshwright.model.mixers.told import Recurrence
from meshwright.model.tensors import Dim, Tensor

if TYPE_CHECKING:
    from meshwright.model.mixers.saving import AttentionKernel, Elementwise, Groups

_FLAG_BITS: Final = 8


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

    @property
    def head_names(self) -> tuple[str, ...]:
        """What each of `head_counts` is a count of."""
        return ("delta heads",)

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

    def training(self, hidden: int, kernel: AttentionKernel, elementwise: Elementwise) -> Training:
        """As of a gated delta rule; the decay has a number a channel, and of a chunk scores are kept too.

        Called operator by operator the decay is made in fp32 outside the kernel, which keeps it and its sums; one
        kernel keeps what it is made of. Source: transformers 5.24, KimiLinearDeltaAttention and KimiLinearForgetGate;
        fla-core 0.6, ChunkKDAFunction, without and with `use_gate_in_kernel`.
        """
        del kernel
        columns, each = self._columns(), heads_of(self.heads)
        slim, chunks = Dim(role="head_dim", size=self.head_dim), heads_of(self.heads, self.chunk)
        rule = "delta_rule"
        rows = (
            kept("convolution.input", heads_of(self.heads, 3 * self.head_dim), "convolution"),
            kept("forget_gate.row", slim, "self_attn.forget_gate.f_b_proj", need="product_input"),
            *self._decay(elementwise),
            *(kept(name, columns, rule) for name in ("normed_query", "normed_key")),
            *(kept(name, each, rule, bits=FP32_BITS) for name in ("query_rstd", "key_rstd")),
            kept("value", columns, rule),
            kept("step", each, rule),
            *(kept(name, chunks, rule) for name in ("chunk_scores", "chunk_inverse")),
            kept("gate.row", slim, "self_attn.g_b_proj", need="product_input"),
            *gated_norm("self_attn.o_norm", columns, each, "sigmoid", elementwise),
            product_input("gated_output", columns, "self_attn.o_proj"),
        )
        return Training(kept=rows, gradients=self._gradients(hidden, elementwise), left_out=LEFT_OUT)

    def _decay(self, elementwise: Elementwise) -> tuple[Kept, ...]:
        """exp, the input of a logarithm, which of both is taken, their softplus, the decay, and its sums."""
        columns, name = self._columns(), "self_attn.forget_gate"
        if elementwise == "fused":
            return (kept("forget_gate", columns, "delta_rule"),)
        wide = ("exponential", "logarithm_input", "softplus")
        return (
            *(kept(f"forget_gate.{item}", columns, name, bits=FP32_BITS) for item in wide),
            kept("forget_gate.large", columns, name, need="index", bits=_FLAG_BITS),
            *(kept(item, columns, "delta_rule", bits=FP32_BITS) for item in ("decay", "decay.sums")),
        )

    def _gradients(self, hidden: int, elementwise: Elementwise) -> Groups:
        """Source: fla-core 0.6, chunk_kda_bwd, up to the gradients of q, k and decay."""
        columns, normed = self._columns(), held("normed", plain(hidden))
        states = heads_of(self.heads, self.head_dim * self.head_dim)
        made = ("gate", "scan_output", "read", "written", "decayed_query", "decayed_key", "new_value", "value", "again")
        rule = (
            *(held(name, columns) for name in made),
            *(held(name, columns, bits=FP32_BITS) for name in ("query", "key", "decay")),
            *(held(name, states, stride=self.chunk) for name in ("states", "states_again")),
            *(held(name, heads_of(self.heads, self.chunk), bits=FP32_BITS) for name in ("chunk_scores", "chunk_keys")),
        )
        wide = heads_of(self.heads, 3 * self.head_dim)
        channels, decay = (held("convolution", wide), held("convolution.input", wide)), held("forget_gate", columns)
        return {
            "self_attn.q_proj": (channels[1], held("gate", columns), decay, normed),
            "convolution": (held("gate", columns), decay, *channels),
            "delta_rule": rule,
            "self_attn.o_norm": gated_norm_gradients(columns, elementwise),
            "self_attn.o_proj": (held("gated_output", columns),),
        }

    def _columns(self) -> Dim:
        return heads_of(self.heads, self.head_dim)
