"""A feed-forward goes in; its matrix products come out, and for a mixture the experts that a step reads and visits."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

from meshwright.base.numbers import minimum
from meshwright.base.result import Basis
from meshwright.base.traced import formula, opaque, stated, values
from meshwright.job.expert_load import RoutedReads
from meshwright.model.feed_forwards import Experts, FeedForward

if TYPE_CHECKING:
    from meshwright.base.numbers import Floats, Ints
    from meshwright.job.expert_load import ExpertReads
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
    if not isinstance(layer, Experts):
        return tuple(Product(name=_name(tensor)) for tensor in matrices)
    return tuple(
        Product(name=_name(tensor), routed=True, experts=layer.experts, top_k=layer.top_k)
        if tensor.dims[0].role == "experts"
        else Product(name=_name(tensor))
        for tensor in matrices
    )


def expert_load(experts: int, top_k: int, groups: Ints, rows: Floats, reads: ExpertReads) -> tuple[Floats, Floats]:
    """Experts that one step of `rows` rows reads, and its (row, expert) visits, on the busiest of `groups` of experts.

    groups, rows: columns, or of length one.   Uniform routing: one row finds b of its experts on its busiest group
    (`busiest_share`, exact). What the other rows, which do not know of it, are expected to add there is exact too: the
    share `covered_share` of what the first row leaves of that group, and top_k / groups visits each. The group that is
    busiest in the end has at least that: exact for one row or one group, above the even share otherwise.
    """
    if isinstance(reads, tuple):
        return chosen_load(picked(reads, top_k)[None], int(top_k), groups, rows)
    assert not isinstance(reads, RoutedReads), "a routing has layers: `routed_load` knows them"
    busiest = _busiest(experts, top_k, groups)
    held = experts / groups
    read = minimum(busiest + (held - busiest) * covered_share(experts, top_k, rows, reads), held)
    return read, busiest + (rows - 1) * (top_k / groups)


def covered_share(experts: int, top_k: int, rows: Any, reads: ExpertReads) -> Any:
    """Of the experts that one row leaves alone, the share that the other rows of its step read.

    Nothing for one row, unless `reads` says `full`. A given number of experts stands for the share that leads to it.
    """
    if reads == "full" or top_k == experts:
        return 1.0
    if reads == "expected":
        return distinct_experts(experts, top_k, rows - 1) / experts
    return (minimum(rows * top_k, reads) - top_k) / (experts - top_k)


@formula
def distinct_experts(experts: int, top_k: int, rows: Any) -> Any:
    """Expected experts that at least one of `rows` rows (a number, or a column) chose, each `top_k` of them uniformly.

    experts * (1 - (1 - top_k / experts)^rows). Source: chapter "Supernodes", equation 6-8. Leaves out skew.
    """
    return experts * (1.0 - (1.0 - top_k / experts) ** rows)


def _busiest(experts: int, top_k: int, groups: Ints) -> Floats:
    """`busiest_share` of each number of groups."""
    distinct, place = np.unique(groups, return_inverse=True)
    return np.array([busiest_share(experts, top_k, count) for count in distinct.tolist()])[place]


def chosen_load(likely: Floats, top_k: int, groups: Ints, rows: Floats) -> tuple[Floats, Floats]:
    """`expert_load` when a row chooses each expert so `likely`, [layers, experts]: the fullest group's expectation.

    A group holds neighbouring experts. One row always finds ceil(top_k / groups) of its experts on some group. Of
    several layers the mean: of each one's fullest group.
    """
    columns = np.broadcast_arrays(values(groups), values(rows))
    pairs, place = np.unique(np.stack(columns), axis=1, return_inverse=True)
    read = np.zeros(pairs.shape[1])
    visits = np.zeros(pairs.shape[1])
    for column, (count, tokens) in enumerate(pairs.T.tolist()):
        found = by_group(found_by(likely, tokens), int(count)).max(axis=1)
        most = by_group(likely, int(count)).max(axis=1) * tokens
        read[column] = np.maximum(found, -(-top_k // count)).mean()
        visits[column] = np.maximum(most, np.maximum(found, -(-top_k // count))).mean()
    return _told(read, visits, place.reshape(-1), groups)


def dealt_load(experts: int, top_k: int, groups: Ints, rows: Floats) -> tuple[Floats, Floats]:
    """`expert_load` when rows are dealt to experts in turn: on the first group, which has as many as any."""
    columns = np.broadcast_arrays(values(groups), values(rows))
    pairs, place = np.unique(np.stack(columns), axis=1, return_inverse=True)
    held, (each, more) = experts // pairs[0], np.divmod(pairs[1] * top_k, experts)
    visits = each * held + np.minimum(more, held)
    return _told(np.minimum(visits, held) * 1.0, visits * 1.0, place.reshape(-1), groups)


def _told(read: Floats, visits: Floats, place: Ints, groups: Ints) -> tuple[Floats, Floats]:
    told = {"basis": Basis.FORMULA.value, "source": "expected from the given choices of each expert"}
    return (
        stated(read[place], groups, "experts_read", **told),
        stated(visits[place], groups, "expert_visits", **told),
    )


def by_group(each: Floats, groups: int) -> Floats:
    """[layers, groups]: sums over neighbouring experts, as many in every group."""
    layers, experts = each.shape
    size = -(-experts // groups)
    found = np.zeros((layers, groups * size))
    found[:, :experts] = each
    return found.reshape(layers, groups, size).sum(axis=2)


def picked(choices: tuple[float, ...], top_k: int) -> Floats:
    """[experts]: how likely each is among a row's `top_k`, where it was chosen so often."""
    return np.array([float(choice) for choice in choices]) * (int(top_k) / float(sum(choices)))


def found_by(likely: Floats, rows: Any) -> Floats:
    """[experts]: the probability that at least one of `rows` rows chose each, rows not knowing of each other.

    Added up, of uniform choices, this is `distinct_experts`.
    """
    return 1.0 - (1.0 - np.minimum(likely, 1.0)) ** rows


@opaque
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
