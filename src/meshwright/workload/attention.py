"""A mixer goes in; the matrix products it runs come out: its projections, and the heads that score and mix positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshwright.model.tensors import Dim, Tensor

if TYPE_CHECKING:
    from meshwright.model.mixers import Mixer


def products(mixer: Mixer) -> tuple[str, ...]:
    """The weight matrices a mixer multiplies every token by, by parameter name."""
    return tuple(
        tensor.name.removesuffix(".weight") for tensor in mixer.weights(hidden=1) if tensor.part == "attention" and len(tensor.dims) > 1
    )


def scores(mixer: Mixer) -> Tensor:
    """The query heads of one token: each scores every position it sees and mixes the values."""
    heads = Dim(role="heads", size=mixer.heads * mixer.head_dim, grain=mixer.head_dim)
    return Tensor(name="query", part="attention", dims=(heads,))


def score_flops(head_columns: int, pairs: int) -> int:
    """FLOPs of QK^T and PV together: 2 multiply-adds a pair and column. Source: chapter "Supernodes", section 6.2.2."""
    return 4 * head_columns * pairs
