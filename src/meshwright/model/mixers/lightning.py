"""Lightning attention: shapes go in; its projections, the state it keeps whatever the length, and products come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from meshwright.model.mixers._recurrent import (
    FixedState,
    heads_of,
    matrix,
    matrix_state,
    plain,
    recurrence,
    vector,
)
from meshwright.model.mixers._recurrent_training import LEFT_OUT, kept, product_input
from meshwright.model.mixers.saving import FP32_BITS, KeptNorm, Training, held
from meshwright.model.mixers.told import ATTENTION_HEADS, Recurrence
from meshwright.model.tensors import Dim, Tensor

if TYPE_CHECKING:
    from meshwright.model.mixers.saving import AttentionKernel, Elementwise, Groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Lightning(FixedState):
    """Linear attention with one fixed decay a head: a sum of k v^T that a query reads; its output is normed and gated.

    block: tokens that a prompt is worked on at once. The rows of qkv_proj are ordered by head. Source: MiniMax-01
    (arXiv 2501.08313), section 2.2; transformers 5.24, `MiniMaxLightningAttention`. Its decays are buffers, made from
    the head's and the layer's number.
    """

    heads: int
    head_dim: int
    block: int = 256

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
        return (ATTENTION_HEADS,)

    def weights(self, hidden: int) -> tuple[Tensor, ...]:
        """Projections [out, in] and the norm over all heads together."""
        wide, columns = plain(hidden), self._columns()
        return (
            matrix("self_attn.qkv_proj", heads_of(self.heads, 3 * self.head_dim), wide),
            matrix("self_attn.output_gate", columns, wide),
            vector("self_attn.norm.weight", columns, "norms"),
            matrix("self_attn.out_proj", wide, columns),
        )

    def recurrences(self) -> tuple[Recurrence, ...]:
        """A token adds k v^T and reads at q; a chunk of c tokens also multiplies its scores, 2 c head_dim a token.

        Source: MiniMax-01, algorithm 2. Left out: decays.
        """
        state = 2 * self.head_dim * self.head_dim
        inside = 2 * self.block * self.head_dim
        heads = heads_of(self.heads)
        kept = matrix_state(heads, self.head_dim, self.head_dim)
        return (recurrence("lightning", heads, step=state, chunked=inside + state, state=kept),)

    def training(self, hidden: int, kernel: AttentionKernel, elementwise: Elementwise) -> Training:
        """The input of silu, queries, keys and values, the norm, and both factors of the gated output.

        Source: transformers 5.24, MiniMaxLightningAttention, its loop over blocks in place of which runs the kernel of
        fla-core 0.6, chunk_lightning_attn (ChunkSimpleGLAFunction), which keeps q, k and v.
        """
        del kernel, elementwise
        columns, joined = self._columns(), heads_of(self.heads, 3 * self.head_dim)
        rows = (
            kept("qkv", joined, "self_attn.act_fn"),
            *(kept(name, columns, "lightning") for name in ("query", "key", "value")),
            KeptNorm(name="self_attn.norm", dim=columns, reads="self_attn.norm.input"),
            *(kept(name, columns, "output_gate") for name in ("output_gate", "normed_output")),
            product_input("gated_output", columns, "self_attn.out_proj"),
        )
        return Training(kept=rows, gradients=self._gradients(hidden), left_out=LEFT_OUT)

    def _gradients(self, hidden: int) -> Groups:
        """Source: fla-core 0.6, chunk_simple_gla_bwd, whose states are in fp32."""
        columns, joined = self._columns(), heads_of(self.heads, 3 * self.head_dim)
        states = heads_of(self.heads, self.head_dim * self.head_dim)
        gate = held("output_gate", columns)
        steps = ("normed", "input_by_product", "input_by_statistics")
        return {
            "self_attn.qkv_proj": (held("qkv", joined), gate, held("normed_input", plain(hidden))),
            "self_attn.act_fn": (gate, held("activated", joined), held("qkv", joined)),
            "lightning": (
                gate,
                *(held(name, columns) for name in ("scan_output", "query", "key", "value")),
                *(held(name, states, bits=FP32_BITS, stride=self.block) for name in ("states", "states_again")),
            ),
            "self_attn.norm": (gate, *(held(name, columns, bits=FP32_BITS) for name in steps)),
            "self_attn.out_proj": (held("gated_output", columns),),
        }

    def _columns(self) -> Dim:
        return heads_of(self.heads, self.head_dim)
