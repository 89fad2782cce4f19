"""A program at its places and its link bytes go in; which links it uses, and what crosses boxes, come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from meshwright.system.graph import CPU, DEVICE, NIC, PCIE_SWITCH

if TYPE_CHECKING:
    from meshwright.base.numbers import Floats, Ints
    from meshwright.scenarios._collective_programs import Placed
    from meshwright.system.graph import Fabric
    from meshwright.system.system import System


@dataclass(frozen=True, slots=True, kw_only=True)
class PortUse:
    """Links of one sort that carry something. links: directed ones.   total_bytes: on all of them.

    busiest, busiest_bytes: the one that carries most.   ranks: whose own links these are, if any's.
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
    kinds = _kinds(fabric, used, system)
    rank_of = {int(vertex): rank for rank, vertex in enumerate(fabric.devices.tolist())}
    found: list[PortUse] = []
    for kind in sorted(set(kinds)):
        links = used[[place for place, own in enumerate(kinds) if own == kind]]
        busiest = int(links[np.argmax(link_bytes[links])])
        ends = {*fabric.sender[links].tolist(), *fabric.receiver[links].tolist()}
        found.append(
            PortUse(
                kind=kind,
                links=len(links),
                total_bytes=float(link_bytes[links].sum()),
                busiest=link_name(fabric, busiest),
                busiest_bytes=float(link_bytes[busiest]),
                ranks=tuple(sorted(rank_of[end] for end in ends if end in rank_of)),
            )
        )
    return tuple(sorted(found, key=lambda use: (-use.busiest_bytes, use.kind)))


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


def link_name(fabric: Fabric, link: int) -> str:
    """Its two ends."""
    return f"{fabric.name(int(fabric.sender[link]))} > {fabric.name(int(fabric.receiver[link]))}"


def busiest_link(fabric: Fabric, link_bytes: Floats) -> int | None:
    """The one that its bytes keep busy for longest; the first of equals. None where nothing is carried."""
    if not len(link_bytes) or not link_bytes.any():
        return None
    return int(np.argmax(link_bytes / fabric.bandwidth_bytes_per_s))


def _box(number: int) -> str:
    return "no box" if number < 0 else f"box {number}"


def _kinds(fabric: Fabric, links: Ints, system: System | None) -> list[str]:
    """What each link is called: as the system names its links, else by what it joins."""
    up = "links of devices" if system is None else system.scale_up.name
    out = "links of NICs" if system is None or system.scale_out is None else system.scale_out.name
    found: list[str] = []
    for sender, receiver in zip(fabric.kind[fabric.sender[links]], fabric.kind[fabric.receiver[links]], strict=True):
        ends = {int(sender), int(receiver)}
        if ends & {PCIE_SWITCH, CPU}:
            found.append("host links (PCIe)" if PCIE_SWITCH in ends else "links between CPUs")
        elif NIC in ends:
            found.append(out)
        else:
            found.append(up if DEVICE in ends else "links between switches")
    return found
