"""Mamba (selective state space): shapes go in; its projections, its state and its products come out."""

from __future__ import annotations

from dataclasses import dataclass

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
from meshwright.model.mixers.told import Recurrence
from meshwright.model.tensors import Dim, Tensor


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
