"""What a physical network is: vertices and directed links as columns, where its devices stand, and how traffic goes.

Topology builders (`system/topologies`, one a file) make a `Fabric`; routing belongs to it, because regular networks are
routed by arithmetic and not by search. Bandwidth is one way, of one directed link.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshwright.base.numbers import Bools, Floats, Ints

KINDS: Final = ("device", "switch", "nic", "pcie_switch", "cpu")
DEVICE, SWITCH, NIC, PCIE_SWITCH, CPU = range(len(KINDS))


def _uncounted() -> Ints:
    return np.zeros(0, dtype=np.int64)


def _no_halves() -> Bools:
    return np.zeros(0, dtype=np.bool_)


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

    Chips between which every sender stripes evenly (planes, or all spines of a sprayed network) are one vertex of
    `chips` chips, and cables side by side one link of `cables` cables: under even striping each of them carries its
    equal part, so loads and times are those of the whole.   A bandwidth that nobody publishes is infinite: it bounds
    nothing, and counts nothing in a cut.

    chips, cables: these counts, of vertices and of links; empty where nobody counts.   halves: True for the vertices on
    the far side of the least cut that the structure knows between two halves of the devices; empty where none is
    known.   extents: of a grid its sizes, the last dimension fastest; empty for others.
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
    chips: Ints = field(default_factory=_uncounted)
    cables: Ints = field(default_factory=_uncounted)
    halves: Bools = field(default_factory=_no_halves)
    extents: tuple[int, ...] = ()
