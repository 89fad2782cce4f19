"""The network of one box, how many, and a network between their NICs go in; one `Fabric` of the whole comes out.

A device reaches its NIC through the PCIe switch that both hang on, and its CPU (NUMA node) through the same switch.
Latency of a message between boxes is all on the two links of NICs, that of one staged through host memory on the links
between PCIe switches and CPUs; what other PCIe links add is in these figures, and never counted twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.base.errors import SystemSpecError
from meshwright.system.graph import CPU, DEVICE, NIC, PCIE_SWITCH, Fabric
from meshwright.system.routing import NONE, by_columns, chained, moved, scattered
from meshwright.system.wiring import far_half

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshwright.base.numbers import Bools, Floats, Ints
    from meshwright.system.graph import Routes

_MOST_JOINED: Final = 8
"""CPUs of a box beyond this many are not joined to each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostWires:
    """What lies between the devices of a box and its NICs and CPUs.

    switches, nics, cpus: of a box; devices, NICs and CPUs share the switches evenly, in order.   link: bytes a second
    of each device and NIC to its switch, one way; infinite where it is not known.   stage_s: latency of a message
    through host memory.   staged: devices of a box have no network of their own, and exchange through host memory.
    cpu_links: between two CPUs.
    """

    switches: int
    nics: int
    cpus: int
    link: float
    stage_s: float
    staged: bool
    cpu_links: int = 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Boxes:
    """Everything that vertices and links are numbered by. Attributes are first numbers, of all boxes in a row."""

    box: Fabric
    boxes: int
    host: HostWires
    network: Fabric | None
    relay: bool

    @property
    def inner(self) -> int:
        """Devices of a box."""
        return len(self.box.devices)

    @property
    def box_others(self) -> int:
        """Vertices of a box's own network beside its devices."""
        return 0 if self.host.staged else len(self.box.kind) - self.inner

    @property
    def pcie(self) -> int:
        return self.boxes * (self.inner + self.box_others)

    @property
    def nic(self) -> int:
        return self.pcie + self.boxes * self.host.switches

    @property
    def cpu(self) -> int:
        return self.nic + self.boxes * self.host.nics

    @property
    def above(self) -> int:
        return self.cpu + self.boxes * self.host.cpus

    @property
    def box_links(self) -> int:
        return 0 if self.host.staged else len(self.box.sender)

    def device_switch(self, device: Ints) -> Ints:
        """The PCIe switch of a device, over all boxes."""
        where, own = device // self.inner, device % self.inner
        return where * self.host.switches + own * self.host.switches // self.inner

    def device_nic(self, device: Ints) -> Ints:
        """The NIC of a device, over all boxes."""
        where, own = device // self.inner, device % self.inner
        return where * self.host.nics + own * self.host.nics // self.inner

    def nic_switch(self, nic: Ints) -> Ints:
        """The PCIe switch of a NIC, over all boxes."""
        where, own = nic // self.host.nics, nic % self.host.nics
        return where * self.host.switches + own * self.host.switches // self.host.nics

    def switch_cpu(self, switch: Ints) -> Ints:
        """The CPU of a PCIe switch, over all boxes."""
        where, own = switch // self.host.switches, switch % self.host.switches
        return where * self.host.cpus + own * self.host.cpus // self.host.switches

    def nic_owner(self, nic: Ints) -> Ints:
        """The first device of a NIC, over all boxes."""
        where, own = nic // self.host.nics, nic % self.host.nics
        return where * self.inner + -(-own * self.inner // self.host.nics)


def boxed(title: str, box: Fabric, boxes: int, host: HostWires, network: Fabric | None, *, relay: bool) -> Fabric:
    """`boxes` of them, and `network` between their NICs, whose devices are the NICs of the first box, then the next.

    relay: between boxes a device first hands what it sends to the one of its own box that owns the receiver's NIC
    number, so that it stays on one rail. Raises SYS028 on routes through host memory that cross boxes, or CPUs that are
    not joined.
    """
    of = _Boxes(box=box, boxes=boxes, host=host, network=network, relay=relay)
    parts = _links(of)
    first = np.cumsum([0, *(len(part.sender) for part in parts)])
    number = np.arange(boxes)
    counts = [of.box_others, host.switches, host.nics, host.cpus]
    beside = _beside(of)
    owners = [np.repeat(number, count) for count in (of.inner, *counts)]
    above = (np.zeros(0, dtype=np.int64),) * 2 if network is None else _above(network)
    return Fabric(
        title=title,
        kind=np.concatenate([np.full(boxes * of.inner, DEVICE), *beside[0], above[0]]),
        box=np.concatenate([*owners, np.full(len(above[0]), -1)]),
        sender=np.concatenate([part.sender for part in parts]),
        receiver=np.concatenate([part.receiver for part in parts]),
        bandwidth_bytes_per_s=np.concatenate([part.bandwidth for part in parts]),
        latency_s=np.concatenate([part.latency for part in parts]),
        devices=np.arange(boxes * of.inner),
        route=_router(of, first),
        name=_names(of),
        chips=np.concatenate([np.zeros(boxes * of.inner, dtype=np.int64), *beside[1], above[1]]),
        cables=np.concatenate([part.cables for part in parts]),
        halves=_halves(of),
        extents=box.extents if boxes == 1 else (),
    )


# ------------------------------------------------------------------------------------------------------ vertices, links


def _beside(of: _Boxes) -> tuple[list[Ints], list[Ints]]:
    """Kinds and chips of what boxes hold beside devices, in the order of vertices."""
    own = slice(of.inner, of.inner + of.box_others)
    kinds = [np.tile(of.box.kind[own], of.boxes)]
    chips = [np.tile(of.box.chips[own], of.boxes)]
    for kind, count in ((PCIE_SWITCH, of.host.switches), (NIC, of.host.nics), (CPU, of.host.cpus)):
        kinds.append(np.full(of.boxes * count, kind))
        chips.append(np.zeros(of.boxes * count, dtype=np.int64))
    return kinds, chips


def _above(network: Fabric) -> tuple[Ints, Ints]:
    """Kinds and chips of the vertices of the network between boxes."""
    beside = slice(len(network.devices), len(network.kind))
    return network.kind[beside], network.chips[beside]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Part:
    """Links of one sort, the two ways of a cable side by side."""

    sender: Ints
    receiver: Ints
    bandwidth: Floats
    latency: Floats
    cables: Ints


def _links(of: _Boxes) -> list[_Part]:
    """Of boxes' own networks, device to PCIe switch, switch to NIC, switch to CPU, CPU to CPU, network above."""
    host, boxes = of.host, of.boxes
    device, switch = np.arange(boxes * of.inner), np.arange(boxes * host.switches)
    nic = np.arange(boxes * host.nics)
    share = -(-of.inner // host.switches) * host.link
    staged = host.stage_s / 2 if host.staged else 0.0
    joined = _joined(of)
    parts = [
        _box_links(of),
        _cables(device, of.pcie + of.device_switch(device), host.link, 0.0),
        _cables(of.pcie + of.nic_switch(nic), of.nic + nic, host.link, 0.0),
        _cables(of.pcie + switch, of.cpu + of.switch_cpu(switch), share, staged)
        if host.cpus
        else _cables(nic[:0], nic[:0], 1.0, 0.0),
        _cables(of.cpu + joined[0], of.cpu + joined[1], np.inf, 0.0, host.cpu_links),
    ]
    network = of.network
    if network is not None:
        ends = [
            of.nic + np.where(end < len(nic), end, end + of.above - of.nic - len(nic))
            for end in (network.sender, network.receiver)
        ]
        parts.append(
            _Part(
                sender=ends[0],
                receiver=ends[1],
                bandwidth=network.bandwidth_bytes_per_s,
                latency=network.latency_s,
                cables=network.cables,
            )
        )
    return parts


def _box_links(of: _Boxes) -> _Part:
    """The network of each box, box by box; none where devices exchange through host memory."""
    box, count = of.box, of.box_links
    offset = np.repeat(np.arange(of.boxes), count)
    ends = [np.tile(end[:count], of.boxes) for end in (box.sender, box.receiver)]
    inner, others = of.inner, of.box_others
    sender, receiver = (
        np.where(end < inner, offset * inner + end, of.boxes * inner + offset * others + end - inner) for end in ends
    )
    return _Part(
        sender=sender,
        receiver=receiver,
        bandwidth=np.tile(box.bandwidth_bytes_per_s[:count], of.boxes),
        latency=np.tile(box.latency_s[:count], of.boxes),
        cables=np.tile(box.cables[:count], of.boxes),
    )


def _cables(one: Ints, other: Ints, bandwidth: float, latency: float, cables: int = 1) -> _Part:
    count = 2 * len(one)
    return _Part(
        sender=np.stack([one, other], axis=1).reshape(-1),
        receiver=np.stack([other, one], axis=1).reshape(-1),
        bandwidth=np.full(count, float(bandwidth)),
        latency=np.full(count, latency),
        cables=np.full(count, cables),
    )


def _joined(of: _Boxes) -> tuple[Ints, Ints]:
    """Pairs of CPUs of a box that have a link, over all boxes."""
    cpus = of.host.cpus if of.host.cpus <= _MOST_JOINED else 0
    one, other = np.triu_indices(cpus, 1)
    offset = np.repeat(np.arange(of.boxes) * cpus, len(one))
    return np.tile(one, of.boxes) + offset, np.tile(other, of.boxes) + offset


def _names(of: _Boxes) -> Callable[[int], str]:
    rows = (
        ("device", 0, of.inner),
        ("switch", of.boxes * of.inner, of.box_others),
        ("PCIe switch", of.pcie, of.host.switches),
        ("NIC", of.nic, of.host.nics),
        ("CPU", of.cpu, of.host.cpus),
    )

    def name(vertex: int) -> str:
        if vertex >= of.above:
            assert of.network is not None
            return of.network.name(vertex - of.above + len(of.network.devices))
        word, start, each = next(row for row in reversed(rows) if vertex >= row[1] and row[2])
        where, own = divmod(vertex - start, each)
        if word == "switch":
            word, own_name = "", of.box.name(of.inner + own)
        else:
            own_name = f"{word} {own}"
        return own_name if of.boxes == 1 else f"box {where}, {own_name}"

    return name


# --------------------------------------------------------------------------------------------------------------- routes


def _router(of: _Boxes, first: Ints) -> Callable[[Ints, Ints], Routes]:
    """first: number of the first link of each part of `_links`."""

    def route(sender: Ints, receiver: Ints) -> Routes:
        source, target = np.asarray(sender), np.asarray(receiver)
        where = [_box_of(of, end) for end in (source, target)]
        inside = (where[0] == where[1]) & (where[0] >= 0)
        hosted = _is_cpu(of, source) | _is_cpu(of, target)
        if of.host.staged:
            hosted |= inside & (source != target)
        far = ~inside & ~hosted
        ends = np.concatenate([source[far], target[far]])
        refused = hosted & ~inside
        if np.any(refused) or np.any((ends >= of.boxes * of.inner) & (ends < of.above)):
            raise SystemSpecError(28, "a route that leaves a box from a CPU or a switch of it", "stage within a box")
        parts: list[tuple[Ints, Routes]] = []
        for taken, way in ((hosted, _through_host), (inside & ~hosted, _within), (far, _between)):
            rows = np.flatnonzero(taken)
            if len(rows):
                parts.append((rows, way(of, first, source[rows], target[rows])))
        return scattered(len(source), parts)

    return route


def _is_cpu(of: _Boxes, end: Ints) -> Bools:
    return (end >= of.cpu) & (end < of.above)


def _box_of(of: _Boxes, end: Ints) -> Ints:
    """The box of devices, of switches of their own network, and of CPUs; -1 of what stands between boxes."""
    switch = (end - of.boxes * of.inner) // max(1, of.box_others)
    found = np.where(end < of.boxes * of.inner, end // of.inner, np.where(end < of.pcie, switch, -1))
    return np.where(_is_cpu(of, end), (end - of.cpu) // max(1, of.host.cpus), found)


def _within(of: _Boxes, first: Ints, source: Ints, target: Ints) -> Routes:
    """Over the box's own network."""
    if of.host.staged:  # to itself
        return by_columns(np.full(len(source), NONE, dtype=np.int64))
    last = of.boxes * of.inner
    ends = [
        np.where(end < last, end % of.inner, of.inner + (end - last) % max(1, of.box_others))
        for end in (source, target)
    ]
    return moved(of.box.route(*ends), int(first[0]) + _box_of(of, source) * of.box_links)


def _between(of: _Boxes, first: Ints, source: Ints, target: Ints) -> Routes:
    """From NIC to NIC, or a switch between boxes; where devices relay, from the one with the receiver's NIC number."""
    network = of.network
    assert network is not None, "boxes are joined by a network"
    nics = of.boxes * of.host.nics
    start = source
    parts: list[Routes] = []
    if of.relay:
        start = _relay(of, source, target)
        rows = np.flatnonzero(start != source)
        parts.append(scattered(len(source), [(rows, _near(of, first, source[rows], start[rows]))]))
    inner = [end < of.above for end in (start, target)]
    device = [np.where(own, end, 0) for own, end in zip(inner, (start, target), strict=True)]
    nic = [of.device_nic(own) for own in device]
    ends = [
        np.where(own, card, nics + end - of.above) for own, card, end in zip(inner, nic, (start, target), strict=True)
    ]
    out = [np.where(inner[0], first[1] + 2 * device[0], NONE), np.where(inner[0], first[2] + 2 * nic[0], NONE)]
    back = [np.where(inner[1], first[2] + 2 * nic[1] + 1, NONE), np.where(inner[1], first[1] + 2 * device[1] + 1, NONE)]
    across = moved(network.route(*ends), np.full(len(source), int(first[5])))
    return chained(*parts, by_columns(*out), across, by_columns(*back))


def _relay(of: _Boxes, source: Ints, target: Ints) -> Ints:
    """The device that sends instead; the sender itself where it has the NIC number, or an end is no device."""
    last = of.boxes * of.inner - 1
    own, other = np.minimum(source, last), np.minimum(target, last)
    card = of.device_nic(other) % of.host.nics + own // of.inner * of.host.nics
    stays = (of.device_nic(own) == card) | (source > last) | (target > last)
    return np.where(stays, source, of.nic_owner(card))


def _near(of: _Boxes, first: Ints, source: Ints, target: Ints) -> Routes:
    return (_through_host if of.host.staged else _within)(of, first, source, target)


def _through_host(of: _Boxes, first: Ints, source: Ints, target: Ints) -> Routes:
    """By way of CPUs: down from a device to its own, across to that of the other end, up. A CPU is an end itself."""
    last = of.boxes * of.inner
    devices = [end < last for end in (source, target)]
    switch = [
        np.where(is_device, of.device_switch(np.minimum(end, last - 1)), 0)
        for end, is_device in zip((source, target), devices, strict=True)
    ]
    cpu = [
        np.where(is_device, of.switch_cpu(own), end - of.cpu)
        for end, own, is_device in zip((source, target), switch, devices, strict=True)
    ]
    columns = (
        np.where(devices[0], first[1] + 2 * source, NONE),
        np.where(devices[0], first[3] + 2 * switch[0], NONE),
        _across(of, int(first[4]), cpu[0], cpu[1]),
        np.where(devices[1], first[3] + 2 * switch[1] + 1, NONE),
        np.where(devices[1], first[1] + 2 * target + 1, NONE),
    )
    return by_columns(*columns)


def _across(of: _Boxes, first: int, source: Ints, target: Ints) -> Ints:
    """The link between two CPUs of a box; -1 for the same. Raises SYS028 where they are not joined."""
    cpus = of.host.cpus
    if np.any(source != target) and cpus > _MOST_JOINED:
        raise SystemSpecError(28, "two CPUs that are not joined", "stage at the CPU of one of the devices")
    one, other = np.triu_indices(cpus, 1)
    number = np.full((cpus, cpus), 0, dtype=np.int64)
    number[one, other] = 2 * np.arange(len(one))
    number[other, one] = 2 * np.arange(len(one)) + 1
    own = first + source // cpus * 2 * len(one) + number[source % cpus, target % cpus]
    return np.where(source == target, NONE, own)


# ----------------------------------------------------------------------------------------------------------------- cuts


def _halves(of: _Boxes) -> Bools:
    """The later boxes on the far side; of an odd number the middle one is cut as its own network is.

    What hangs on a device stands with the first device of its switch; CPUs of staged boxes stay near.
    """
    boxes, box = of.boxes, of.box
    far_boxes = far_half(boxes)
    middle = boxes // 2 if boxes % 2 else -1
    cut = box.halves if len(box.halves) else far_half(len(box.kind))
    where = np.repeat(np.arange(boxes), of.inner)
    far = np.where(where == middle, np.tile(cut[: of.inner], boxes), far_boxes[where])
    beside = slice(of.inner, of.inner + of.box_others)
    where = np.repeat(np.arange(boxes), of.box_others)
    others = np.where(where == middle, np.tile(cut[beside], boxes), far_boxes[where])
    switch = np.zeros(boxes * of.host.switches, dtype=np.bool_)
    switch[of.device_switch(np.arange(len(far)))[::-1]] = far[::-1]
    nics = far[of.nic_owner(np.arange(boxes * of.host.nics))] if of.host.nics else far[:0]
    cpus = np.zeros(boxes * of.host.cpus, dtype=np.bool_)
    if of.host.cpus:
        cpus[of.switch_cpu(np.arange(len(switch)))[::-1]] = switch[::-1]
        if of.host.staged:
            cpus &= far_boxes[np.arange(len(cpus)) // of.host.cpus]
    above = of.network.halves[len(of.network.devices) :] if of.network is not None else far[:0]
    return np.concatenate([far, others, switch, nics, cpus, above])
