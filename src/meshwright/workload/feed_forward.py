"""A feed-forward goes in; its matrix products come out, and for a mixture how many experts a step reads."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import comb
from typing import TYPE_CHECKING

from meshwright.model.feed_forwards import Dense, FeedForward

if TYPE_CHECKING:
    from meshwright.model.tensors import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """One matrix product. routed: only over the rows that chose the expert."""

    name: str
    routed: bool = False
    experts: int = 0
    top_k: int = 0


def products(layer: FeedForward) -> tuple[Product, ...]:
    """The products of a layer, by parameter name; every token goes through all that are not routed."""
    matrices = [tensor for tensor in layer.weights(hidden=1) if tensor.name.endswith(".weight")]
    if isinstance(layer, Dense):
        return tuple(Product(name=_name(tensor)) for tensor in matrices)
    return tuple(
        Product(name=_name(tensor), routed=True, experts=layer.experts, top_k=layer.top_k)
        if tensor.dims[0].role == "experts"
        else Product(name=_name(tensor))
        for tensor in matrices
    )


def distinct_experts(experts: int, top_k: int, rows: int) -> float:
    """Expected experts that at least one of `rows` tokens chose, each choosing `top_k` of them uniformly.

    experts * (1 - (1 - top_k / experts)^rows). Source: chapter "Supernodes", equation 6-8. Leaves out skew.
    """
    return experts * (1.0 - (1.0 - top_k / experts) ** rows)


@cache
def busiest_share(experts: int, top_k: int, groups: int) -> float:
    """Expected number of its `top_k` experts that one token finds on the group that holds most of them.

    The experts are laid evenly over `groups`, and the token chooses `top_k` distinct ones uniformly: exact, from the
    count of choices whose largest group holds at most c, which is the coefficient of x^top_k in
    (sum_j<=c C(experts/groups, j) x^j)^groups.
    """
    if groups == 1:
        return float(top_k)
    size = experts // groups
    total = comb(experts, top_k)
    expected = Fraction(0)
    for most in range(top_k):
        within = _choices(size, most, groups, top_k)
        expected += 1 - Fraction(within, total)
    return float(expected)


def _choices(size: int, most: int, groups: int, chosen: int) -> int:
    """Ways to choose `chosen` items from `groups` groups of `size`, at most `most` from each."""
    ways = [1] + [0] * chosen
    each = [comb(size, count) for count in range(min(most, size) + 1)]
    for _ in range(groups):
        ways = [
            sum(each[count] * ways[total - count] for count in range(min(len(each) - 1, total) + 1))
            for total in range(chosen + 1)
        ]
    return ways[chosen]


def _name(tensor: Tensor) -> str:
    return tensor.name.removesuffix(".weight")
