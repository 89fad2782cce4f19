"""Fault domains: the name and number of a part go in; the cards that stop with it come out.

A card stops alone, a node with all its cards; what else cards share (a power supply, a switch) the system's file names
under `fault_domains`, as groups of card numbers within a node. A fault of a shared part stops every card in its group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from meshwright.system.system import System


def domain_names(system: System) -> tuple[str, ...]:
    """Every domain that a fault may name."""
    return ("card", "node", *system.fault_domains)


def domain_count(system: System, domain: str) -> int:
    """How many parts of a domain the system has."""
    if domain == "card":
        return system.devices
    return system.nodes * len(_groups(system, domain))


def cards_of(system: System, domain: str, index: int) -> tuple[int, ...]:
    """The cards, numbered over the whole system, that stop with part `index` of a domain."""
    if domain == "card":
        return (index,)
    groups = _groups(system, domain)
    node, group = divmod(index, len(groups))
    return tuple(node * system.devices_per_node + card for card in groups[group])


def _groups(system: System, domain: str) -> tuple[tuple[int, ...], ...]:
    if domain == "node":
        return (tuple(range(system.devices_per_node)),)
    return system.fault_domains[domain]
