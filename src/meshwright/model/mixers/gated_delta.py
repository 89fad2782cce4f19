"""Gated DeltaNet: shapes go in; its projections, the state it keeps whatever the length, and its products come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

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
from meshwright.model.mixers.saving import FP32_BITS, Training, held
from meshwright.model.mixers.told import Recurrence
from meshwright.model.tensors import Dim, Tensor

if TYPE_CHECKING:
    from meshwright.model.mixers.saving import AttentionKernel, Elementwise, Groups


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedDelta(FixedState):
    """A matrix of key_dim x value_dim a value head, decayed, corrected towards the new value, and read by a query.

    Each of `key_heads` serves value_heads / key_heads value heads. q, k and v pass a causal convolution of `kernel`.
    projections: how the checkpoint joins them: "by_head" in_proj_qkvz and in_proj_ba, with rows ordered by key head
    (Qwen3-Next), "by_kind" in_proj_qkv, in_proj_z, in_proj_b and in_proj_a (Qwen3.5).   chunk: tokens that a prompt is
    worked on at once. Joined rows are counted here by key head: one is never parted.

    Source: Yang et al., "Gated Delta Networks" (ICLR 2025); transformers 5.24, `Qwen3NextGatedDeltaNet`.
    """

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int = 4
    projections: Literal["by_head", "by_kind"] = "by_kind"
    chunk: int = 64

    @property
    def kind(self) -> str:
        """The word of `kv_bytes_per_token_by_kind`."""
        return "linear_attention"

    @property
    def head_counts(self) -> tuple[int, ...]:
        """Value heads, and the key heads that serve them."""
        return (self.key_heads, self.value_heads)

    @property
    def head_names(self) -> tuple[str, ...]:
        """What each of `head_counts` is a count of."""
        return ("key heads", "value heads")

    def mismatch(self) -> str:
        """Key heads that do not divide the value heads."""
        odd = self.value_heads % self.key_heads
        return f"key_heads={self.key_heads} does not divide value_heads={self.value_heads}" if odd else ""

    def weights(self, hidden: int) -> tuple[Tensor, ...]:
        """Projections [out, in], the convolution [channels, 1, kernel], decay and step of a head, norm, output."""
        wide, ratio = plain(hidden), self.value_heads // self.key_heads
        values, each = heads_of(self.value_heads, self.value_dim), heads_of(self.value_heads)
        if self.projections == "by_head":
            joined = heads_of(self.key_heads, 2 * self.key_dim + 2 * ratio * self.value_dim)
            found = [
                matrix("linear_attn.in_proj_qkvz", joined, wide),
                narrow("linear_attn.in_proj_ba", heads_of(self.key_heads, 2 * ratio), wide),
            ]
        else:
            found = [
                matrix("linear_attn.in_proj_qkv", self._channels(), wide),
                matrix("linear_attn.in_proj_z", values, wide),
                narrow("linear_attn.in_proj_b", each, wide),
                narrow("linear_attn.in_proj_a", each, wide),
            ]
        return (
            *found,
            *filters("linear_attn.conv1d", self._channels(), self.kernel),
            vector("linear_attn.dt_bias", each),
            vector("linear_attn.A_log", each),
            vector("linear_attn.norm.weight", Dim(role="head_dim", size=self.value_dim), "norms"),
            matrix("linear_attn.out_proj", wide, values),
        )

    def recurrences(self) -> tuple[Recurrence, ...]:
        """Convolution and delta rule.

        A token: read the state at k, write the correction, read it at q: 3 x key_dim x value_dim. In a chunk of c
        tokens the WY form: k k^T and q k^T, two products with the inverse of the triangular matrix, and the scores with
        the values: c (3 key_dim + 2 value_dim), and the same three products with the state. Left out: decays, norms of
        q and k, and the inverse itself, about c^2 / 3 a token and head.
        Source: Yang et al., "Parallelizing Linear Transformers with the Delta Rule" (NeurIPS 2024), equations 8 to 11.
        """
        state = self.key_dim * self.value_dim
        inside = self.chunk * (3 * self.key_dim + 2 * self.value_dim)
        heads = heads_of(self.value_heads)
        kept = matrix_state(heads, self.key_dim, self.value_dim)
        return (
            convolution(self._channels(), self.kernel),
            recurrence("delta_rule", heads, step=3 * state, chunked=inside + 3 * state, state=kept),
        )

    def training(self, hidden: int, kernel: AttentionKernel, elementwise: Elementwise) -> Training:
        """What the convolution, the decay, the delta rule and the gated norm keep.

        q and k stay normed, with their rstd; of a chunk the inverse of its triangular matrix. The backward makes states
        between chunks and what is written into them again. Source: transformers 5.24, Qwen3NextGatedDeltaNet; fla-core
        0.6, ChunkGatedDeltaRuleFunction; causal_conv1d 1.7, CausalConv1dFn.
        """
        del kernel
        keys, each = heads_of(self.key_heads, self.key_dim), heads_of(self.value_heads)
        values, counts = heads_of(self.value_heads, self.value_dim), heads_of(self.key_heads)
        rule = "delta_rule"
        rows = (
            kept("convolution.input", self._channels(), "convolution"),
            kept("decay.input", each, "decay", bits=FP32_BITS),
            kept("decay", each, "decay", bits=FP32_BITS),
            *(kept(name, keys, rule) for name in ("normed_query", "normed_key")),
            *(kept(name, counts, rule, bits=FP32_BITS) for name in ("query_rstd", "key_rstd")),
            kept("value", values, rule),
            kept("decay.sums", each, rule, bits=FP32_BITS),
            kept("step", each, rule),
            kept("chunk_inverse", heads_of(self.value_heads, self.chunk), rule),
            *gated_norm("linear_attn.norm", values, each, "silu", elementwise),
            product_input("gated_output", values, "linear_attn.out_proj"),
        )
        return Training(kept=rows, gradients=self._gradients(hidden, elementwise), left_out=LEFT_OUT)

    def _gradients(self, hidden: int, elementwise: Elementwise) -> Groups:
        """Source: fla-core 0.6, chunk_gated_delta_rule_bwd, up to the gradients of q and k."""
        keys, values = heads_of(self.value_heads, self.key_dim), heads_of(self.value_heads, self.value_dim)
        states = heads_of(self.value_heads, self.key_dim * self.value_dim)
        rule = (
            *(held(name, values) for name in ("gate", "scan_output", "written", "new_value", "value", "value_again")),
            *(held(name, keys) for name in ("read", "query", "key", "read_again")),
            *(held(name, states, stride=self.chunk) for name in ("states", "states_again")),
        )
        channels = held("convolution", self._channels()), held("convolution.input", self._channels())
        return {
            "linear_attn.in_proj": (channels[1], held("gate", values), held("normed", plain(hidden))),
            "convolution": (held("gate", values), *channels),
            "delta_rule": rule,
            "linear_attn.norm": gated_norm_gradients(values, elementwise),
            "linear_attn.out_proj": (held("gated_output", values),),
        }

    def _channels(self) -> Dim:
        ratio = self.value_heads // self.key_heads
        return heads_of(self.key_heads, 2 * self.key_dim + ratio * self.value_dim)
