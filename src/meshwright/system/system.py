"""`hgx-h100 x2`, or a TOML file of one's own, goes in; a `System` comes out: accelerators, links, boxes, power."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, cast

from meshwright.base.errors import SystemSpecError, suggest
from meshwright.base.parse import build, read_text, read_toml
from meshwright.base.registry import Registry
from meshwright.base.units import Bytes, BytesPerSecond, Seconds, Watts
from meshwright.system.accelerator import ACCELERATORS, Accelerator, read_accelerator
from meshwright.system.facts import Facts, split
from meshwright.system.link import LINKS, Link, build_link, read_link

SYSTEMS: Final = Registry(
    kind="systems", package="meshwright.system", folder="data/systems", suffix=".toml", error=SystemSpecError, number=1
)
_TIMES: Final = re.compile(r"^(?P<name>.*?)\s*x\s*(?P<count>\d{1,9})$")
_LINKS: Final = ("scale_up", "scale_out")
AUTO_ALL_REDUCE: Final = ("ring", "tree")
"""What a library chooses among, where nobody says otherwise."""
_MOST_DEVICES: Final = 1_000_000
_MOST_PRICE: Final = 1e12
_MOST_MEMORY: Final = 2**60


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What is known of a box's host; None where it is not.

    memory, memory_bandwidth: of the whole box, shared by its devices; offloading is bound by them.   link_bandwidth:
    of each device to the host, one way.   pcie_switches: that its devices and NICs share evenly.
    cpu_links: between two CPUs at most; their bandwidth is seldom published.
    """

    cpus: int | None = None
    numa_nodes: int | None = None
    memory: Bytes | None = None
    memory_bandwidth: BytesPerSecond | None = None
    link_bandwidth: BytesPerSecond | None = None
    pcie_switches: int | None = None
    cpu_links: int | None = None
    cpu: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """How a system is wired, as specs of registered topologies (`meshwright list topologies`).

    scale_up: the devices of a box.   scale_out: the NICs of all boxes. A plain `switch` is one non-blocking switch,
    whose chips nobody counts.   rails: between boxes a device sends from its own NIC (`own`), or hands over within its
    box so that the message stays on the receiver's rail (`relay`).
    """

    scale_up: str = "switch"
    scale_out: str = "switch"
    rails: Literal["own", "relay"] = "own"


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """`nodes` equal boxes of `devices_per_node` accelerators.

    id: what `--on` takes.   scale_up: the link between devices of one box.   scale_out: the NIC between boxes.
    nics_per_node: how many there are; devices share them evenly.   peer_to_peer: False when devices of a box exchange
    through host memory.   all_reduce_algorithms: those that `auto` chooses among, by name.   node_power: watts of a
    whole box at most.   device_price: of a device for an hour, in any one currency.
    """

    id: str
    name: str
    accelerator: Accelerator
    nodes: int
    devices_per_node: int
    scale_up: Link
    scale_out: Link | None = None
    nics_per_node: int = 0
    peer_to_peer: bool = True
    all_reduce_algorithms: tuple[str, ...] = AUTO_ALL_REDUCE
    fault_domains: Mapping[str, tuple[tuple[int, ...], ...]] = field(
        default_factory=dict[str, tuple[tuple[int, ...], ...]]
    )
    node_power: Watts | None = None
    device_price: float | None = None
    host: Host | None = None
    topology: Topology = Topology()
    note: str = ""
    facts: Facts = field(default_factory=Facts)

    @property
    def devices(self) -> int:
        """Accelerators of all boxes."""
        return self.nodes * self.devices_per_node

    @property
    def nic_bandwidth(self) -> BytesPerSecond:
        """One-way bytes a second between boxes that one device gets when all send."""
        if self.scale_out is None:
            return BytesPerSecond(0.0)
        share = min(1.0, self.nics_per_node / self.devices_per_node)
        return BytesPerSecond(self.scale_out.bandwidth * share)

    @property
    def nic_latency(self) -> Seconds:
        """Seconds one way between boxes."""
        return Seconds(0.0) if self.scale_out is None else self.scale_out.latency


def read_systems(text: str) -> tuple[System, ...]:
    """Every system of a comma list. Raises the codes of `read_system`."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise SystemSpecError(1, f"{text!r} has an empty system in its list", "write as in 'hgx-h100 x2,hgx-h200'")
    return tuple(read_system(part) for part in parts)


def read_system(text: str) -> System:
    """`ID`, `IDxN`, `ID xN` (N boxes) or a path to a TOML file.

    Raises SYS001 (unknown), SYS002..SYS004 and SYS008 (parts and facts), and the codes of `checked_system`.
    """
    if text.endswith(".toml"):
        path = Path(text)
        return replace(_from_toml(read_text(path), path.stem), id=text)
    if text in SYSTEMS.names():
        return _from_toml(SYSTEMS.text(text), text)
    match = _TIMES.match(text)
    name = match.group("name") if match else text
    if match is None or name not in SYSTEMS.names():
        raise SystemSpecError(1, f"{text!r} is not a known system", suggest(name, SYSTEMS.names()))
    return _times(_from_toml(SYSTEMS.text(name), name), int(match.group("count")), text)


def _times(system: System, count: int, text: str) -> System:
    if not 1 <= count * system.devices <= _MOST_DEVICES:
        cause = f"{text!r} has {count * system.devices} devices"
        raise SystemSpecError(6, cause, f"give 1 to {_MOST_DEVICES // system.devices} boxes")
    name = f"{system.name} x{count}" if count > 1 else system.name
    return checked_system(replace(system, nodes=count * system.nodes, id=text, name=name), text)


def _from_toml(text: str, what: str) -> System:
    values, facts = split(read_toml(text, what), what)
    accelerator = _accelerator(_part(values, "accelerator", what, ACCELERATORS), what)
    named = [name for name in _LINKS if name in values or name == "scale_up"]
    links = {name: _link(_part(values, name, what, LINKS), f"{what}.{name}") for name in named}
    parts = {"accelerator": accelerator.facts, **{name: link.facts for name, link in links.items()}}
    joined = facts.joined(*(item.under(name) for name, item in parts.items()))
    fields = {"id": what, "name": what, **values, "accelerator": accelerator, **links, "facts": joined}
    return checked_system(build(System, fields, what), what)


def _accelerator(given: str | Mapping[str, Any], what: str) -> Accelerator:
    if isinstance(given, str):
        return read_accelerator(given)
    return build(Accelerator, {"id": what, **given}, f"{what}.accelerator")


def _link(given: str | Mapping[str, Any], what: str) -> Link:
    return read_link(given) if isinstance(given, str) else build_link(given, what)


def _part(values: Mapping[str, Any], name: str, what: str, registry: Registry) -> str | Mapping[str, Any]:
    """A part named by its registry name, or written out as a table in the system's own file. Raises SYS008."""
    value = values.get(name)
    if isinstance(value, (str, Mapping)):
        return cast("str | Mapping[str, Any]", value)
    known = ", ".join(registry.names())
    raise SystemSpecError(8, f"{what}: {name} is missing", f"name one of {known}, or write it out as a table")


def checked_system(system: System, what: str) -> System:
    """The system itself, once its sizes and rates make sense.

    Raises SYS006 (counts), SYS007 (boxes without a NIC between them), SYS009 (a rate or a memory of zero, or a
    memory beyond any device's), SYS012 (a price below zero).
    """
    sizes = (system.nodes, system.devices_per_node)
    if min(sizes) < 1 or system.nics_per_node < 0 or system.devices > _MOST_DEVICES:
        cause = f"{what}: {sizes[0]} nodes of {sizes[1]} devices and {system.nics_per_node} NICs"
        raise SystemSpecError(6, cause, f"give 1 to {_MOST_DEVICES} devices, and no negative count")
    if system.nodes > 1 and (system.scale_out is None or system.nics_per_node < 1):
        cause = f"{what}: {system.nodes} boxes are to be joined, and the system has no NIC (scale_out, nics_per_node)"
        raise SystemSpecError(7, cause, "add scale_out and nics_per_node, or use one box")
    rates = [system.accelerator.memory_bandwidth, system.scale_up.bandwidth, *system.accelerator.peak.values()]
    rates += [system.scale_out.bandwidth] if system.scale_out else []
    own = system.host
    host = [] if own is None else [own.memory, own.memory_bandwidth, own.link_bandwidth]
    rates += [rate for rate in host if rate is not None]
    if min(rates) <= 0 or not 0 < system.accelerator.memory <= _MOST_MEMORY:
        cause = f"{what}: a rate or the memory is zero, or the memory beyond any device's"
        raise SystemSpecError(9, cause, f"give every rate and the memory above zero, and at most {_MOST_MEMORY} bytes")
    if system.device_price is not None and not 0 <= system.device_price <= _MOST_PRICE:
        raise SystemSpecError(12, f"{what}: device_price is {system.device_price}", "give a price of 0 or more an hour")
    return system
