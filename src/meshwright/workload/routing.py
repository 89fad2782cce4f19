"""A routing goes in; how likely each expert is among a token's, and the choices of a batch, come out."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.workload.feed_forward import picked

if TYPE_CHECKING:
    from meshwright.base.numbers import Floats, Ints
    from meshwright.job.routing import Routing

_STEP: Final = 0.05
_LEAST, _MOST = -60.0, 6.0
_AT_ONCE: Final = 1 << 22
"""Random numbers that are drawn together."""


def inclusion(routing: Routing, place: int, experts: int, top_k: int) -> Floats:
    """[experts]: the probability that a token chooses each; they add up to `top_k`.

    place: of the layer among those of the routing. Of a trace, how often each was chosen, a token.
    """
    if routing.law in {"uniform", "even"} or (routing.law == "zipf" and routing.exponent == 0.0):
        return np.full(experts, top_k / experts)
    if routing.law == "zipf":
        return np.array(_in_turn(experts, top_k, routing.exponent))
    if routing.law == "counts":
        return picked(routing.counts[min(place, len(routing.counts) - 1)][:experts], top_k)
    own = _recorded(routing, place)
    return np.bincount(own.reshape(-1), minlength=experts) / len(own)


def batch(  # noqa: PLR0917 - a layer of a routing, and what a batch is
    routing: Routing, place: int, experts: int, top_k: int, tokens: int, seed: int
) -> Ints:
    """[tokens, top_k]: the experts of each token, all different; the same for the same seed and place.

    A trace gives its first tokens. `even`, and counts that make whole rows of `tokens` tokens, are dealt: nothing is
    drawn.
    """
    if routing.law == "trace":
        return _recorded(routing, place)[:tokens]
    if routing.law == "even":
        return np.arange(tokens * top_k).reshape(tokens, top_k) % experts
    if routing.law == "counts":
        rows = _whole_rows(routing.counts[min(place, len(routing.counts) - 1)][:experts], tokens * top_k)
        if rows is not None:
            return np.repeat(np.arange(experts), rows).reshape(top_k, tokens).T
    generator = np.random.default_rng((seed, place))
    likely = inclusion(routing, place, experts, top_k)
    weights: Floats = (np.arange(experts, dtype=np.float64) + 1.0) ** -routing.exponent
    rows = max(1, _AT_ONCE // experts)
    parts = [min(rows, tokens - start) for start in range(0, tokens, rows)]
    if routing.law == "counts":
        return np.concatenate([_systematic(likely, top_k, part, generator) for part in parts])
    return np.concatenate([_race(weights, top_k, part, generator) for part in parts])


def is_drawn(routing: Routing, tokens: int, top_k: int) -> bool:
    """Whether a batch of so many tokens comes from random numbers."""
    if routing.law == "counts":
        return any(_whole_rows(row, tokens * top_k) is None for row in routing.counts)
    return routing.law in {"uniform", "zipf"}


def _whole_rows(counts: tuple[float, ...], choices: int) -> Ints | None:
    """The rows of so many choices in these proportions, where they are whole ones; None where they are not."""
    total = sum(map(Fraction, counts))
    rows = [Fraction(count) * choices / total for count in counts]
    return None if any(row.denominator > 1 for row in rows) else np.array([int(row) for row in rows])


def _recorded(routing: Routing, place: int) -> Ints:
    return routing.choices[min(place, len(routing.choices) - 1)]


@cache
def _in_turn(experts: int, top_k: int, exponent: float) -> tuple[float, ...]:
    """Inclusion where a token draws one expert after the other among those left, in proportion to their weights.

    The same as a race of exponential clocks whose first `top_k` are chosen: expert e is, where it rings at t and fewer
    than `top_k` others have. So P(e) is the integral of w t exp(-w t) P(fewer than top_k of the others by t) over
    log t, which falls off at both ends: the trapezoidal rule is exact to rounding. Source: Efraimidis and Spirakis,
    "Weighted random sampling with a reservoir" (2006), for the race.
    """
    weights = (np.arange(experts) + 1.0) ** -exponent
    time = np.exp(np.arange(_LEAST, _MOST - np.log(weights[-1]), _STEP))
    rung = -np.expm1(-np.outer(weights, time))
    before, after = _counts_up_to(rung, top_k), _counts_up_to(rung[::-1], top_k)[::-1]
    fewer: Any = np.zeros_like(rung)
    for own in range(top_k):
        fewer = fewer + before[:, own] * after[:, : top_k - own].sum(axis=1)
    found = (np.outer(weights, time) * np.exp(-np.outer(weights, time)) * fewer).sum(axis=1) * _STEP
    return tuple((found * (top_k / found.sum())).tolist())


def _counts_up_to(rung: Floats, top_k: int) -> Floats:
    """[experts, top_k, times]: the probability that 0 .. top_k - 1 of the experts before each have rung."""
    found = np.zeros((len(rung), top_k, rung.shape[1]))
    now = np.zeros((top_k, rung.shape[1]))
    now[0] = 1.0
    for place, chance in enumerate(rung):
        found[place] = now
        moved = now * chance
        now = now - moved
        now[1:] += moved[:-1]
    return found


def _race(weights: Floats, top_k: int, tokens: int, generator: np.random.Generator) -> Ints:
    """The `top_k` clocks that ring first."""
    clocks = generator.standard_exponential((tokens, len(weights))) / weights
    return np.argpartition(clocks, top_k - 1, axis=1)[:, :top_k].astype(np.int64)


def _systematic(likely: Floats, top_k: int, tokens: int, generator: np.random.Generator) -> Ints:
    """`top_k` different experts a token with exactly these probabilities: marks one apart on their sums, in any order.

    Source: Madow, "On the theory of systematic sampling, II" (1949).
    """
    order = generator.permuted(np.broadcast_to(np.arange(len(likely)), (tokens, len(likely))), axis=1)
    ends = np.cumsum(likely[order], axis=1)
    ends[:, -1] = np.inf  # rounding leaves a mark beyond the last sum, as beyond `top_k` itself
    marks = generator.random((tokens, 1)) + np.arange(top_k)
    place = (ends[:, None, :] <= marks[:, :, None]).sum(axis=2)
    return np.take_along_axis(order, place, axis=1)


def record_bytes(tokens: Any, layers: int, top_k: Any, id_bytes: int) -> Any:
    """Bytes of the numbers of all experts that were chosen: one for every token, layer and choice.

    Source: chapter "Training systems", section 10.5.4.
    """
    return tokens * layers * top_k * id_bytes
