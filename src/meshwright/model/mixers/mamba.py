"""Mamba (selective state space): shapes go in; its projections, its state and its products come out."""

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
    plain,
    recurrence,
    vector,
)
from meshwright.model.mixers._recurrent_training import LEFT_OUT, kept, product_input
from meshwright.model.mixers.saving import FP32_BITS, Kept, KeptNorm, Training, held
from meshwright.model.mixers.told import Recurrence
from meshwright.model.tensors import Dim, Tensor

if TYPE_CHECKING:
    from meshwright.model.mixers.saving import AttentionKernel, Elementwise, Entry, Groups

_SCANNED: Final = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba(FixedState):
    """`channels` channels, each with `state` numbers that decay as the token says.

    rank: columns through which the step of a channel is made.   kernel: of the causal convolution.   bias: on in_proj
    and out_proj.   conv_bias: on the convolution.   inner_norms: of step, B and C, which Jamba adds.
    Source: Gu and Dao, "Mamba" (arXiv 2312.00752); transformers 5.24, `JambaMambaMixer`.
    """

    channels: int
    state: int
    rank: int
    kernel: int = 4
    bias: bool = False
    conv_bias: bool = True
    inner_norms: bool = False

    @property
    def kind(self) -> str:
        """The word of `kv_bytes_per_token_by_kind`."""
        return "mamba"

    @property
    def head_counts(self) -> tuple[int, ...]:
        """Channels, which tp deals out."""
        return (self.channels,)

    @property
    def head_names(self) -> tuple[str, ...]:
        """What each of `head_counts` is a count of."""
        return ("channels",)

    def weights(self, hidden: int) -> tuple[Tensor, ...]:
        """in_proj (two rows a channel), convolution, x_proj and dt_proj, A, D, norms, out_proj.

        x_proj sums over all channels, so tp leaves partial sums: an exchange of its own.
        """
        wide, each = plain(hidden), heads_of(self.channels)
        twice, rank = heads_of(self.channels, 2), Dim(role="head_dim", size=self.rank)
        chosen = Dim(role="head_dim", size=self.rank + 2 * self.state)
        state = Dim(role="head_dim", size=self.state)
        found = [
            matrix("mamba.in_proj", twice, wide),
            *filters("mamba.conv1d", each, self.kernel, bias=self.conv_bias),
            matrix("mamba.x_proj", chosen, each),
            matrix("mamba.dt_proj", each, rank),
            vector("mamba.dt_proj.bias", each),
            Tensor(name="mamba.A_log", part="attention", dims=(each, state)),
            vector("mamba.D", each),
            matrix("mamba.out_proj", wide, each),
        ]
        if self.bias:
            found += [vector("mamba.in_proj.bias", twice), vector("mamba.out_proj.bias", wide)]
        if self.inner_norms:
            widths = {"dt": rank, "b": state, "c": state}
            found += [vector(f"mamba.{name}_layernorm.weight", width, "norms") for name, width in widths.items()]
        return tuple(found)

    def recurrences(self) -> tuple[Recurrence, ...]:
        """A token adds to each of a channel's numbers and reads them all; the scan of a prompt does the same.

        Left out: decays and the step's softplus. Source: "Mamba", section 3.3: the scan is no matrix product.
        """
        each = heads_of(self.channels)
        work = 2 * self.state
        scan = recurrence("scan", each, step=work, chunked=work, state=matrix_state(each, self.state))
        return convolution(each, self.kernel), scan

    def training(self, hidden: int, kernel: AttentionKernel, elementwise: Elementwise) -> Training:
        """What convolution, inner products and scan keep; of every 2048 positions also a pair of states in fp32.

        The scan wants rows of channels, so its input, gate, B and C are copied beside those that other operators keep.
        Source: transformers 5.24, JambaMambaMixer; mamba_ssm 2.3, SelectiveScanFn, and n_chunks of selective_scan.cpp;
        causal_conv1d 1.7, CausalConv1dFn. A mixer without inner norms may run as one kernel that keeps less
        (MambaInnerFn); it is counted as these steps.
        """
        del kernel, elementwise
        each, states = heads_of(self.channels), heads_of(self.channels, 2 * self.state)
        rows = (
            kept("projected", heads_of(self.channels, 2), "convolution"),
            kept("convolution", each, "mamba.x_proj", need="product_input"),
            *self._inner(),
            *(kept(name, each, "scan") for name in ("scan.input", "scan.step", "scan.gate", "scan.output")),
            Kept(
                name="scan.states", operator="scan", dims=(states,), need="nonlinear", bits=FP32_BITS, stride=_SCANNED
            ),
            product_input("gated_output", each, "mamba.out_proj"),
        )
        return Training(kept=rows, gradients=self._gradients(hidden), left_out=LEFT_OUT)

    def _inner(self) -> tuple[Entry, ...]:
        """Step, B and C: the row that they are parts of, or a norm each, whose outputs are tensors of their own."""
        rank, state = Dim(role="head_dim", size=self.rank), Dim(role="head_dim", size=self.state)
        copies = (kept("b", state, "scan"), kept("c", state, "scan"))
        if not self.inner_norms:
            whole = Dim(role="head_dim", size=self.rank + 2 * self.state)
            return (kept("chosen", whole, "mamba.dt_proj", need="product_input"), *copies)
        norms = {"dt": rank, "b": state, "c": state}
        made = (
            KeptNorm(
                name=f"mamba.{name}_layernorm",
                dim=dim,
                reads=f"mamba.{name}_layernorm.input",
                keeper="mamba.dt_proj" if name == "dt" else None,
            )
            for name, dim in norms.items()
        )
        return (*made, *copies)

    def _gradients(self, hidden: int) -> Groups:
        """Source: mamba_ssm 2.3, selective_scan_bwd; B and C in fp32."""
        each, both = heads_of(self.channels), held("projected", heads_of(self.channels, 2))
        state = Dim(role="head_dim", size=self.state)
        inner = (held("b", state, bits=FP32_BITS), held("c", state, bits=FP32_BITS))
        gate, scanned = held("scan.gate", each), held("scan.input", each)
        return {
            "mamba.in_proj": (both, held("normed", plain(hidden))),
            "convolution": (gate, held("convolution", each), both),
            "mamba.x_proj": (gate, scanned, held("scan.step", each), held("convolution", each), *inner),
            "scan": (held("gated_output", each), gate, scanned, held("scan.step", each), *inner),
            "mamba.out_proj": (held("gated_output", each),),
        }
