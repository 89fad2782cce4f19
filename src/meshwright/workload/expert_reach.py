"""How tokens choose goes in; how likely the ranks that hold experts have some of a token's come out, group by group.

A group holds neighbouring experts, as many as any other. Of a routing with layers of its own every number is the mean
over the layers of a kind: of each layer's busiest group, not the busiest of a mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import gcd
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.traced import held
from meshwright.job.expert_load import RoutedReads
from meshwright.job.routing import Routing
from meshwright.model.feed_forwards import Experts
from meshwright.workload.expert_batches import rows_sent
from meshwright.workload.feed_forward import by_group, chosen_load, dealt_load, expert_load, picked
from meshwright.workload.routing import batch, inclusion

if TYPE_CHECKING:
    from meshwright.base.numbers import Floats, Ints
    from meshwright.job.expert_load import ExpertReads
    from meshwright.model.model import Model
    from meshwright.workload.operators import Operator

_SURE: Final = 1.0 - 1e-9
"""An expert that every token chooses counts as this likely, so that its odds are a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Of one token and the experts of a layer over some groups.

    busiest: the probability that it has any expert on the group that most tokens reach.   reached: groups that it
    reaches.   busiest_choices: of its choices, those that fall on the group with most.
    """

    busiest: float
    reached: float
    busiest_choices: float


def routed_load(model: Model, operator: Operator, groups: Ints, rows: Any, reads: ExpertReads) -> tuple[Floats, Floats]:
    """`expert_load` of a routed operator, whatever says what is read."""
    if not isinstance(reads, RoutedReads):
        return expert_load(operator.experts, operator.top_k, groups, rows, reads)
    experts, top_k = int(held(operator.experts)), int(held(operator.top_k))
    if reads.law == "even":
        return dealt_load(experts, top_k, groups, rows)
    assert operator.kind is not None, "experts are of a layer"
    return chosen_load(likelihoods(model, operator.kind, reads), top_k, groups, rows)


@cache
def reach(model: Model, kind: int, reads: ExpertReads, groups: int) -> Reach:
    """The reach of a token in the layers of a block kind.

    What is known of a routing is how likely a token chooses each expert; how its choices depend on each other beyond
    that is not, so all sets with the odds of these probabilities are taken (uniform choices: exact). Rows that are
    dealt in turn are counted.
    """
    likely = likelihoods(model, kind, reads)
    layer = model.kinds[kind].feed_forward
    assert isinstance(layer, Experts)
    experts = likely.shape[1]
    owners: Ints = np.repeat(np.arange(groups), -(-experts // groups))[:experts]
    choices = by_group(likely, groups)
    top_k = int(held(layer.top_k))
    dealt = isinstance(reads, RoutedReads) and reads.law == "even"
    found = _dealt(experts, top_k, owners, groups) if dealt else _any(likely, owners, groups, top_k)
    return Reach(
        busiest=float(found.max(axis=1).mean()),
        reached=float(found.sum(axis=1).mean()),
        busiest_choices=float(choices.max(axis=1).mean()),
    )


@cache
def likelihoods(model: Model, kind: int, reads: ExpertReads) -> Floats:
    """[layers, experts]: how likely a token chooses each, a row for every layer of a kind that is unlike the others."""
    layer = model.kinds[kind].feed_forward
    assert isinstance(layer, Experts)
    experts, top_k = int(held(layer.experts)), int(held(layer.top_k))
    if isinstance(reads, tuple):
        return picked(reads, top_k)[None]
    if not isinstance(reads, RoutedReads) or reads.law == "even":
        return np.full((1, experts), top_k / experts)
    if reads.law == "zipf":
        return inclusion(Routing(law="zipf", exponent=float(held(reads.exponent))), 0, experts, top_k)[None]
    places = [place for place, own in enumerate(reads.layers) if model.kind_of_layer[int(own)] == kind]
    rows = [reads.counts[place] for place in places] or list(reads.counts)
    return np.stack([picked(row[:experts], top_k) for row in rows])


def _dealt(experts: int, top_k: int, owners: Ints, groups: int) -> Floats:
    """[1, groups]: as `_any`, of rows that are dealt to experts in turn: those until the turns repeat."""
    tokens = experts // gcd(experts, top_k)
    target = owners[batch(Routing(law="even"), 0, experts, top_k, tokens, 0)]
    return rows_sent(np.zeros(tokens, dtype=np.int64), target, 1, groups, once=True) / tokens


def _any(likely: Floats, owners: Any, groups: int, top_k: int) -> Floats:
    """[layers, groups]: the probability that some of the `top_k` experts lie on each.

    1 less the weight of all sets of `top_k` experts that avoid the group over that of all sets, where a set weighs the
    product of its odds: elementary symmetric polynomials.
    """
    sure = np.minimum(likely, _SURE)
    odds = sure / (1.0 - sure)
    odds = odds / odds.mean(axis=1, keepdims=True)
    own = np.zeros((groups, len(likely), top_k + 1))
    own[:, :, 0] = 1.0
    for expert, owner in enumerate(owners.tolist()):
        own[owner, :, 1:] += own[owner, :, :-1] * odds[:, expert, None]
    before, after = _products(own), _products(own[::-1])[::-1]
    every = _times(before[-1], own[-1])[:, top_k]
    avoiding = np.stack([_times(*pair)[:, top_k] for pair in zip(before, after, strict=True)], axis=1)
    return np.clip(1.0 - avoiding / every[:, None], 0.0, 1.0)


def _products(own: Floats) -> Floats:
    """Of each group the product of all before it."""
    found = np.zeros_like(own)
    found[0, :, 0] = 1.0
    for place in range(1, len(own)):
        found[place] = _times(found[place - 1], own[place - 1])
    return found


def _times(one: Floats, other: Floats) -> Floats:
    """Polynomials multiplied, as far as they are kept."""
    found = np.zeros_like(one)
    for place in range(one.shape[1]):
        found[:, place:] += other[:, place, None] * one[:, : one.shape[1] - place]
    return found
