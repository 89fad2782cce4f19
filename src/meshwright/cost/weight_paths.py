"""Seconds of weights, of state and of products go in; those of a token come out, by the paths that they share."""

from __future__ import annotations

from typing import Any

from meshwright.base.numbers import N, maximum
from meshwright.base.traced import formula


@formula
def apart_s(weight_s: N, state_s: Any, compute_s: Any) -> N:
    """Weights and state each have a path of their own: the longest counts. Source: chapter "Supernodes", eq. 6-15."""
    return maximum(maximum(weight_s, state_s), compute_s)


@formula
def shared_s(weight_s: N, state_s: Any, compute_s: Any) -> N:
    """Weights and state come from one memory, so their reads add up. Source: chapter "Supernodes", section 6.7.4."""
    return maximum(weight_s + state_s, compute_s)


@formula
def token_s(work_s: N, balance_share: Any, communication_s: Any, fixed_s: Any) -> N:
    """A token of one user: work over the balance of its stages, then what nothing hides.

    Source: chapter "Supernodes", equation 6-15. Leaves out overlap of communication with work.
    """
    return work_s / balance_share + communication_s + fixed_s
