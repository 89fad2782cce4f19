"""What mixers with a state of fixed size share: their small tensors, their states, and the pieces of a recurrence."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from meshwright.model.formats import FP32
from meshwright.model.mixers.told import MatrixProduct, Recurrence, SessionState
from meshwright.model.tensors import Dim, Tensor

if TYPE_CHECKING:
    from meshwright.model.mixers.saving import AttentionKernel, Elementwise, Training
    from meshwright.model.mixers.told import Form, PairProduct, PositionState
    from meshwright.model.tensors import Part

_MATRIX: Final = 2


class FixedState(ABC):
    """A mixer that keeps nothing of single positions; what `TokenMixer` asks and such a mixer answers alike."""

    __slots__ = ()

    @property
    def kv_head_counts(self) -> tuple[int, ...]:
        """None, unless a mixer has heads that tp may repeat."""
        return ()

    def mismatch(self) -> str:
        """Nothing, unless a mixer has sizes that must go together."""
        return ""

    @abstractmethod
    def weights(self, hidden: int) -> tuple[Tensor, ...]:
        """Those of the mixer."""

    def token_state(self) -> tuple[PositionState, ...]:
        """None: nothing grows with the length."""
        return ()

    def session_state(self) -> tuple[SessionState, ...]:
        """What its recurrences turn."""
        return tuple(state for item in self.recurrences() for state in item.state)

    def matrix_products(self, form: Form) -> tuple[MatrixProduct, ...]:  # noqa: ARG002 - it has one form
        """All its matrices; the filters of a convolution are none."""
        return tuple(
            MatrixProduct(name=tensor.name.removesuffix(".weight"))
            for tensor in self.weights(1)
            if tensor.name.endswith(".weight") and len(tensor.dims) == _MATRIX
        )

    def pair_products(self, form: Form) -> tuple[PairProduct, ...]:  # noqa: ARG002 - it has one form
        """None."""
        return ()

    def recurrences(self) -> tuple[Recurrence, ...]:
        """None, unless a mixer has a state."""
        return ()

    @abstractmethod
    def training(self, hidden: int, kernel: AttentionKernel, elementwise: Elementwise) -> Training:
        """Of the mixer."""


def matrix(name: str, out: Dim, inner: Dim) -> Tensor:
    """A projection [out, in]."""
    return Tensor(name=f"{name}.weight", part="attention", dims=(out, inner), quantized=True)


def narrow(name: str, out: Dim, inner: Dim) -> Tensor:
    """A projection [out, in] to a number or two a head, which checkpoints store plain beside quantized ones."""
    return Tensor(name=f"{name}.weight", part="attention", dims=(out, inner))


def vector(name: str, dim: Dim, part: Part = "attention") -> Tensor:
    """A bias, a norm, or one number a head."""
    return Tensor(name=name, part=part, dims=(dim,))


def filters(name: str, channels: Dim, kernel: int, *, bias: bool = False) -> tuple[Tensor, ...]:
    """A causal convolution of each channel alone: [channels, 1, kernel], and its bias; never quantized."""
    dims = (channels, Dim(role="kernel", size=1), Dim(role="kernel", size=kernel))
    found = (Tensor(name=f"{name}.weight", part="attention", dims=dims),)
    return (*found, vector(f"{name}.bias", channels)) if bias else found


def plain(size: int) -> Dim:
    """A dim of the model's width."""
    return Dim(role="hidden", size=size)


def heads_of(count: int, each: int = 1) -> Dim:
    """`count` heads of `each` elements, never parted."""
    return Dim(role="heads", size=count * each, grain=each)


def recurrence(name: str, units: Dim, *, step: int, chunked: int, state: tuple[SessionState, ...] = ()) -> Recurrence:
    """`step` multiply-adds a unit and token one after another, `chunked` where a prompt is worked on in chunks."""
    return Recurrence(name=name, multiply_adds=_work(units, step), chunked=_work(units, chunked), state=state)


def convolution(channels: Dim, kernel: int, name: str = "convolution") -> Recurrence:
    """A causal convolution of each channel alone; it keeps its last `kernel` inputs in the model's plain format.

    Source: transformers 5.24, cache_utils.LinearAttentionLayer. Engines that leave out the newest keep kernel - 1.
    """
    kept = Tensor(name=f"{name}_state", part="kv_cache", dims=(channels, Dim(role="kernel", size=kernel)))
    work = kernel * channels.grain
    return recurrence(name, channels, step=work, chunked=work, state=(SessionState(tensor=kept),))


def matrix_state(heads: Dim, *sizes: int) -> tuple[SessionState, ...]:
    """[heads, *sizes] in fp32: small differences of many tokens are summed in it. Source: as `convolution`."""
    dims = (heads, *(Dim(role="head_dim", size=size) for size in sizes))
    return (SessionState(tensor=Tensor(name="recurrent_state", part="kv_cache", dims=dims), format=FP32),)


def _work(units: Dim, each: int) -> Tensor:
    """As many elements as multiply-adds: `each` for every unit (a head, a channel, a group)."""
    dims = (Dim(role=units.role, size=units.units), Dim(role="head_dim", size=each))
    return Tensor(name="multiply_adds", part="attention", dims=dims)
