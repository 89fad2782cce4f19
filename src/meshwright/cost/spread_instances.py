"""Bytes that cards repeat, and bytes spread over them, go in; what one card holds, reads and sends comes out.

An instance whose attention is data parallel: sessions of its own on each card, a copy of all but the routed experts
and tables, which lie spread over all cards.
"""

from __future__ import annotations

from typing import Any

from meshwright.base.numbers import N, floor, maximum
from meshwright.base.traced import formula


@formula
def held_bytes(replicated_bytes: N, spread_bytes: Any, ranks: Any) -> N:
    """Weights of one card: its copy, and an even share of what is spread. Source: chapter "Supernodes", eq. 6-14."""
    return replicated_bytes + spread_bytes / ranks


@formula
def resident_count(capacity_bytes: N, weights_bytes: Any, workspace_bytes: Any, session_bytes: Any) -> N:
    """Sessions that one card keeps beside its weights, whole ones and at least none.

    Source: chapter "Supernodes", equation 6-14.
    """
    return maximum(floor((capacity_bytes - weights_bytes - workspace_bytes) / session_bytes), 0.0)


@formula
def step_read_bytes(copy_bytes: N, layers_count: Any, expert_bytes: Any, experts_count: Any, covered_share: Any) -> N:
    """Weights that one card reads in a step: its copy, and of each layer the experts on it that some row chose.

    experts_count: of a layer on one card.   covered_share: of all experts that the instance's rows chose. At least one
    expert a layer is read, for a row that chose it waits for it. Source: chapter "Supernodes", section 6.7.4. Leaves
    out skew: a card holds as many chosen experts as any other.
    """
    return copy_bytes + maximum(expert_bytes, experts_count * expert_bytes * covered_share) * layers_count


@formula
def routed_bytes(rows: N, copies_count: Any, row_elements_count: Any, element_bytes: Any, leaving_fraction: Any) -> N:
    """What one card sends of its rows to the experts of other cards, or gets back.

    copies_count: of a row that are sent: one an expert, or one a card that holds some.   leaving_fraction: of them that
    leave. Source: chapter "Supernodes", sections 6.2.6 and 6.7.4.
    """
    return element_bytes * rows * copies_count * row_elements_count * leaving_fraction


@formula
def reached_count(chosen_count: int, ranks: Any, experts_count: N) -> N:
    """Cards that hold some of the experts that one row chose, the experts lying evenly over them.

    ranks (1 - C(E - E / ranks, k) / C(E, k)): distinct experts, chosen uniformly. So many copies of a row are sent when
    each card gets one. Source: chapter "Supernodes", section 6.2.6 (one copy a card). Leaves out skew.
    """
    missed: Any = 1.0
    for place in range(chosen_count):
        missed = missed * maximum((experts_count - experts_count / ranks - place) / (experts_count - place), 0.0)
    return ranks * (1.0 - missed)
