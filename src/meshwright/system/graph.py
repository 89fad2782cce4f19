"""What a physical network is: vertices and directed links as columns, where its devices stand, and how traffic goes.

Topology builders (`system/topologies`, one a file) make a `Fabric`; routing belongs to it, because regular networks are
routed by arithmetic and not by search. Bandwidth is one way, of one directed link.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshwright.base.numbers import Floats, Ints

KINDS: Final = ("device", "switch", "nic", "pcie_switch", "cpu")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Routes:
    """Paths of flows, flattened: those of flow f are links[first[f] : first[f + 1]], in the order they are taken."""

    first: Ints
    links: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fabric:
    """A network of devices.

    kind: of each vertex its place in KINDS.   box: of each vertex the box it stands in, -1 for none.   sender,
    receiver: vertices of each directed link.   bandwidth_bytes_per_s: of each, one way.   latency_s: of each, what one
    message pays to cross it, the forwarding at its far end included.   devices: vertex of each device, in the order of
    ranks.   route: paths for columns of sending and receiving vertices.   name: of a vertex, for people.
    """

    title: str
    kind: Ints
    box: Ints
    sender: Ints
    receiver: Ints
    bandwidth_bytes_per_s: Floats
    latency_s: Floats
    devices: Ints
    route: Callable[[Ints, Ints], Routes]
    name: Callable[[int], str]
