"""Blocks whose mixer was taken out, or replaced by one matrix: shapes go in; its weights come out, and no state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from meshwright.model.mixers._recurrent import FixedState, matrix, plain, vector
from meshwright.model.mixers.saving import NOTHING, Training, held

if TYPE_CHECKING:
    from meshwright.model.mixers.saving import AttentionKernel, Elementwise
    from meshwright.model.tensors import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class NoMixer(FixedState):
    """A block without a mixer: no weights, no state, no norm of its own."""

    no_mixer: Literal[True] = True

    @property
    def kind(self) -> str:
        """The word of `kv_bytes_per_token_by_kind`."""
        return "none"

    @property
    def head_counts(self) -> tuple[int, ...]:
        """None."""
        return ()

    @property
    def head_names(self) -> tuple[str, ...]:
        """What each of `head_counts` is a count of."""
        return ()

    def weights(self, hidden: int) -> tuple[Tensor, ...]:
        """None."""
        del hidden
        return ()

    def training(self, hidden: int, kernel: AttentionKernel, elementwise: Elementwise) -> Training:
        """Nothing."""
        del hidden, kernel, elementwise
        return NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearMixer(FixedState):
    """One matrix of the model's width in a mixer's place: each token alone, held whole on every rank.

    linear_bias: whether it has a bias. Source: the configs of Puzzle models (`replace_with_linear`; arXiv 2411.19146,
    section 2).
    """

    linear_bias: bool

    @property
    def kind(self) -> str:
        """The word of `kv_bytes_per_token_by_kind`."""
        return "none"

    @property
    def head_counts(self) -> tuple[int, ...]:
        """None."""
        return ()

    @property
    def head_names(self) -> tuple[str, ...]:
        """What each of `head_counts` is a count of."""
        return ()

    def weights(self, hidden: int) -> tuple[Tensor, ...]:
        """[hidden, hidden], and its bias."""
        wide = plain(hidden)
        found = (matrix("self_attn.linear_attn", wide, wide),)
        return (*found, vector("self_attn.linear_attn.bias", wide)) if self.linear_bias else found

    def training(self, hidden: int, kernel: AttentionKernel, elementwise: Elementwise) -> Training:
        """Its input alone."""
        del kernel, elementwise
        return Training(kept=(), gradients={"self_attn.linear_attn": (held("normed", plain(hidden)),)})
