"""Mamba-2 (state space duality): shapes go in; its projections, its state and its products come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from meshwright.model.mixers._recurrent import (
    FixedState,
    convolution,
    filters,
    heads_of,
    matrix,
    matrix_state,
    plain,
    recurrence,
    vector,
)
from meshwright.model.mixers._recurrent_training import LEFT_OUT, kept
from meshwright.model.mixers.saving import FP32_BITS, Training, held
from meshwright.model.mixers.told import Recurrence
from meshwright.model.tensors import Dim, Tensor

if TYPE_CHECKING:
    from meshwright.model.mixers.saving import AttentionKernel, Elementwise, Groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba2(FixedState):
    """A matrix of head_dim x state a head, decayed by one number; `groups` of heads share what they write and read at.

    kernel: of the causal convolution.   bias: on in_proj and out_proj.   conv_bias: on the convolution.   chunk: tokens
    that a prompt is worked on at once.   module: under which name a checkpoint keeps it.

    in_proj and the convolution are joined over heads and groups; here they are two, as tp parts heads by head and
    groups down to whole ones, which the ranks that share one repeat.
    Source: Dao and Gu, "Transformers are SSMs" (arXiv 2405.21060); transformers 5.24, `NemotronHMamba2Mixer`.
    """

    heads: int
    head_dim: int
    groups: int
    state: int
    kernel: int = 4
    bias: bool = False
    conv_bias: bool = True
    chunk: int = 256
    module: str = "mamba"

    @property
    def kind(self) -> str:
        """The word of `kv_bytes_per_token_by_kind`."""
        return "mamba"

    @property
    def head_counts(self) -> tuple[int, ...]:
        """Heads."""
        return (self.heads,)

    @property
    def head_names(self) -> tuple[str, ...]:
        """What each of `head_counts` is a count of."""
        return ("state heads",)

    @property
    def kv_head_counts(self) -> tuple[int, ...]:
        """Groups: tp divides them, or is a multiple of them and repeats each."""
        return (self.groups,)

    def mismatch(self) -> str:
        """Groups that do not divide the heads."""
        return f"groups={self.groups} does not divide heads={self.heads}" if self.heads % self.groups else ""

    def weights(self, hidden: int) -> tuple[Tensor, ...]:
        """in_proj (gate, x and step a head; B and C a group), convolution, A, D and step of a head, norm, out_proj."""
        wide, each, columns = plain(hidden), heads_of(self.heads), heads_of(self.heads, self.head_dim)
        made, shared, name = heads_of(self.heads, 2 * self.head_dim + 1), self._groups(), self.module
        found = [
            matrix(f"{name}.in_proj.heads", made, wide),
            matrix(f"{name}.in_proj.groups", shared, wide),
            *filters(f"{name}.conv1d.heads", columns, self.kernel, bias=self.conv_bias),
            *filters(f"{name}.conv1d.groups", shared, self.kernel, bias=self.conv_bias),
            *(vector(f"{name}.{item}", each) for item in ("dt_bias", "A_log", "D")),
            vector(f"{name}.norm.weight", columns, "norms"),
            matrix(f"{name}.out_proj", wide, columns),
        ]
        if self.bias:
            biases = {"in_proj.heads": made, "in_proj.groups": shared, "out_proj": wide}
            found += [vector(f"{name}.{item}.bias", dim) for item, dim in biases.items()]
        return tuple(found)

    def recurrences(self) -> tuple[Recurrence, ...]:
        """A token adds x B^T and reads at C; a chunk of c tokens also multiplies C B^T, once a group, and that with x.

        Left out: decays, D and the step's softplus. Source: "Transformers are SSMs", section 6; mamba-ssm 2.2,
        `_bmm_chunk_fwd`, makes C B^T once a group.
        """
        state = 2 * self.head_dim * self.state
        heads, columns = heads_of(self.heads), heads_of(self.heads, self.head_dim)
        kept = matrix_state(heads, self.head_dim, self.state)
        return (
            convolution(columns, self.kernel, "convolution.heads"),
            convolution(self._groups(), self.kernel, "convolution.groups"),
            recurrence("scan", heads, step=state, chunked=state + self.chunk * self.head_dim, state=kept),
            recurrence("scan.groups", self._groups(), step=0, chunked=self.chunk * self.state),
        )

    def training(self, hidden: int, kernel: AttentionKernel, elementwise: Elementwise) -> Training:
        """What in_proj made, the output of the scan before its norm, and rstd of every group.

        All between in_proj and out_proj, that included, is one kernel: its backward makes the convolution, the states
        between chunks and the normed output again. Source: transformers 5.24, NemotronHMamba2Mixer in training;
        mamba_ssm 2.3, MambaSplitConv1dScanCombinedFn.
        """
        del kernel, elementwise
        name, columns = f"{self.module}.scan", heads_of(self.heads, self.head_dim)
        made = heads_of(self.heads, 2 * self.head_dim + 1)
        rows = (
            kept("projected.heads", made, name),
            kept("projected.groups", self._groups(), name),
            kept("scan.output", columns, name),
            kept("scan.rstd", Dim(role="kv_heads", size=self.groups), name, bits=FP32_BITS),
        )
        return Training(kept=rows, gradients=self._gradients(hidden), left_out=LEFT_OUT)

    def _gradients(self, hidden: int) -> Groups:
        """Source: mamba_ssm 2.3, backward of the same, while states pass from chunk to chunk."""
        columns, each = heads_of(self.heads, self.head_dim), heads_of(self.heads)
        made, shared = heads_of(self.heads, 2 * self.head_dim + 1), self._groups()
        states = heads_of(self.heads, self.head_dim * self.state)
        scores = Dim(role="kv_heads", size=self.groups * self.chunk, grain=self.chunk)
        projected = (held("projected.heads", made), held("projected.groups", shared))
        scan = (
            *projected,
            *(held(name, columns) for name in ("out_proj", "convolution", "convolution.input", "normed_again")),
            *(held(name, shared) for name in ("convolution.groups", "convolution.input.groups")),
            *(held(name, each, bits=FP32_BITS) for name in ("step", "decay.sums")),
            held("chunk_scores", scores, bits=FP32_BITS),
            *(held(name, states, bits=FP32_BITS, stride=self.chunk) for name in ("states", "states.gradients")),
            *(held(name, states, stride=self.chunk) for name in ("states_again", "states.gradients_again")),
        )
        return {f"{self.module}.in_proj": (*projected, held("normed", plain(hidden))), f"{self.module}.scan": scan}

    def _groups(self) -> Dim:
        """B and C of every group."""
        return Dim(role="kv_heads", size=self.groups * 2 * self.state, grain=2 * self.state)
