"""A fault and service times go in; which replicas it stops, and when each session then finishes, come out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meshwright.base.numbers import Floats, floor, where
from meshwright.base.traced import formula
from meshwright.layout.placement import instance_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshwright.base.numbers import Bools, Ints
    from meshwright.layout.layouts import Layouts


def replica_of(layouts: Layouts, card: int, devices_per_node: int) -> Ints:
    """The replica whose instance holds a card, -1 where no replica does; see `layout.placement` for where ranks lie."""
    size = instance_size(layouts)
    node, place = divmod(card, devices_per_node)
    inside = devices_per_node // np.minimum(size, devices_per_node)
    small = np.where(place // size < inside, node * inside + place // size, -1)
    boxes = -(-size // devices_per_node)
    large = np.where(node % boxes * devices_per_node + place < size, node // boxes, -1)
    found = np.where(size <= devices_per_node, small, large)
    return np.where(found < layouts.degree("replicas"), found, -1)


def stopped(layouts: Layouts, cards: Sequence[int], devices_per_node: int) -> Bools:
    """[rows, replicas]: which replicas lose a card. A fault domain stops every replica with a card in it."""
    most = int(layouts.degree("replicas").max(initial=1))
    hit = np.zeros((len(layouts), most), dtype=np.bool_)
    for card in cards:
        replica = replica_of(layouts, card, devices_per_node)
        held = replica >= 0
        hit[np.flatnonzero(held), replica[held]] = True
    return hit


@formula
def faulted_finish_s(service_s: Floats, turns: Ints, at_s: float, stall_s: float) -> Floats:
    """Finish of a session on a replica that stops at `at_s` and is back after `stall_s`.

    The session then running loses its progress and starts again; those after it shift; those before it stand. Shapes
    broadcast. Source: chapter "Supernodes", section 6.7.2. A part is back once its connections
    are set up again: study connection-setup says how long that takes.
    """
    plain = service_s * turns
    done = floor(at_s / service_s)
    return where(plain <= at_s, plain, at_s + stall_s + (turns - done) * service_s)
