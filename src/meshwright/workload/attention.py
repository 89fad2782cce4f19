"""A mixer goes in; what it multiplies comes out: its projections, and the heads that score and mix positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from meshwright.base.numbers import N
from meshwright.base.traced import formula
from meshwright.base.units import MULTIPLY_ADD_FLOPS
from meshwright.model.tensors import Dim, Tensor

if TYPE_CHECKING:
    from meshwright.model.mixers import Mixer


def products(mixer: Mixer) -> tuple[str, ...]:
    """The weight matrices a mixer multiplies every token by, by parameter name."""
    return tuple(
        tensor.name.removesuffix(".weight")
        for tensor in mixer.weights(hidden=1)
        if tensor.part == "attention" and len(tensor.dims) > 1
    )


def scores(mixer: Mixer) -> Tensor:
    """The query heads of one token: each scores every position it sees and mixes the values."""
    heads = Dim(role="heads", size=mixer.heads * mixer.head_dim, grain=mixer.head_dim)
    return Tensor(name="query", part="attention", dims=(heads,))


@formula
def score_flops(head_columns: N, pairs: Any, multiply_add_flops: Any = MULTIPLY_ADD_FLOPS) -> N:
    """FLOPs of QK^T and PV together: 2 multiply-adds a pair and column. Source: chapter "Supernodes", section 6.2.2.

    head_columns: query heads x head_dim.   pairs: (query, key) pairs each head scores.
    """
    return head_columns * (2 * pairs) * multiply_add_flops
