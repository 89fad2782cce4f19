"""What queries and cached rows cost: columns and pairs go in; FLOPs come out. And the heads of plain attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from meshwright.base.numbers import N
from meshwright.base.traced import formula
from meshwright.base.units import MULTIPLY_ADD_FLOPS

if TYPE_CHECKING:
    from meshwright.model.mixers import Attention
    from meshwright.model.tensors import Tensor


def scores(mixer: Attention) -> Tensor:
    """The query heads of one token: each scores every position it sees and mixes the values."""
    return mixer.pair_products("expanded")[0].scores


@formula
def score_flops(score_columns: N, value_columns: Any, pairs: Any, multiply_add_flops: Any = MULTIPLY_ADD_FLOPS) -> N:
    """FLOPs of QK^T and PV together: 1 multiply-add a pair and column. Source: chapter "Supernodes", section 6.2.2.

    score_columns, value_columns: query heads x what each multiplies of a row, and x what it mixes of it; both are heads
    x head_dim in plain attention.   pairs: (query, row) pairs each head scores.
    """
    return (score_columns + value_columns) * pairs * multiply_add_flops
