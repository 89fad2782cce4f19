"""A program at its places and its link bytes go in; which links it uses, and what crosses boxes, come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from meshwright.scenarios._topology_links import link_name
from meshwright.system.graph import CPU, DEVICE, NIC, PCIE_SWITCH

if TYPE_CHECKING:
    from meshwright.base.numbers import Floats, Ints
    from meshwright.scenarios._collective_programs import Placed
    from meshwright.system.graph import Fabric
    from meshwright.system.system import System


@dataclass(frozen=True, slots=True, kw_only=True)
class PortUse:
    """Links of one sort that carry something. links: directed ones.   total_bytes: on all of them.

    busiest, busiest_bytes: the one that carries most.   ranks: whose sends cross them.
    """

    kind: str
    links: int
    total_bytes: float
    busiest: str
    busiest_bytes: float
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """What leaves one box for another."""

    sender: str
    receiver: str
    total_bytes: float
    sends: int


def ports(item: Placed, link_bytes: Floats, system: System | None) -> tuple[PortUse, ...]:
    """Every sort of link that carries bytes, that with the busiest link first."""
    fabric = item.fabric
    used = np.flatnonzero(link_bytes > 0)
    kinds, of_link = _kinds(fabric, system)
    ranks = _users(item, of_link, len(kinds))
    found: list[PortUse] = []
    for number, kind in enumerate(kinds):
        links = used[of_link[used] == number]
        if not len(links):
            continue
        busiest = int(links[np.argmax(link_bytes[links])])
        found.append(
            PortUse(
                kind=kind,
                links=len(links),
                total_bytes=float(link_bytes[links].sum()),
                busiest=link_name(fabric, busiest),
                busiest_bytes=float(link_bytes[busiest]),
                ranks=ranks[number],
            )
        )
    return tuple(sorted(found, key=lambda use: (-use.busiest_bytes, use.kind)))


def _users(item: Placed, of_link: Ints, kinds: int) -> list[tuple[int, ...]]:
    """By sort of link the ranks whose sends cross one."""
    fabric = item.fabric
    rank_of = np.full(len(fabric.kind), -1)
    rank_of[fabric.devices] = np.arange(len(fabric.devices))
    found: list[set[int]] = [set() for _ in range(kinds)]
    for traffic in item.traffic:
        for step in traffic.program.steps:
            senders = traffic.participants[step.sender]
            routes = fabric.route(senders, traffic.participants[step.receiver])
            owner = np.repeat(rank_of[senders], np.diff(routes.first))
            sort = of_link[routes.links]
            for number in np.unique(sort).tolist():
                found[number] |= set(owner[sort == number].tolist())
    return [tuple(sorted(own - {-1})) for own in found]


def crossings(item: Placed) -> tuple[Crossing, ...]:
    """Bytes that sends take from box to box, by pair of boxes; none where all stay in one."""
    boxes: dict[tuple[int, int], list[float]] = {}
    for traffic in item.traffic:
        piece = traffic.message_bytes / traffic.program.message_pieces
        box = item.fabric.box[traffic.participants]
        for step in traffic.program.steps:
            out, back = box[step.sender], box[step.receiver]
            rows = np.flatnonzero(out != back)
            pairs = zip(out[rows].tolist(), back[rows].tolist(), (step.pieces[rows] * piece).tolist(), strict=True)
            for sender, receiver, size in pairs:
                boxes.setdefault((sender, receiver), []).append(size * step.times)
    return tuple(
        Crossing(sender=_box(sender), receiver=_box(receiver), total_bytes=sum(moved), sends=len(moved))
        for (sender, receiver), moved in sorted(boxes.items())
    )


def busiest_link(fabric: Fabric, link_bytes: Floats) -> int | None:
    """The one that its bytes keep busy for longest; the first of equals. None where nothing is carried."""
    if not len(link_bytes) or not link_bytes.any():
        return None
    return int(np.argmax(link_bytes / fabric.bandwidth_bytes_per_s))


def _box(number: int) -> str:
    return "no box" if number < 0 else f"box {number}"


def _kinds(fabric: Fabric, system: System | None) -> tuple[tuple[str, ...], Ints]:
    """Sorts of links, as the system names them or else by what they join, and the number of each link's."""
    up = "links of devices" if system is None else system.scale_up.name
    out = "links of NICs" if system is None or system.scale_out is None else system.scale_out.name
    names = ("links between switches", up, out, "links between CPUs", "host links (PCIe)")
    sender, receiver = fabric.kind[fabric.sender], fabric.kind[fabric.receiver]
    sort = np.zeros(len(sender), np.int64)
    for number, kind in ((1, DEVICE), (2, NIC), (3, CPU), (4, PCIE_SWITCH)):  # the last that an end is decides
        sort[(sender == kind) | (receiver == kind)] = number
    return names, sort
