"""A catalog system, or a spec such as `torus:8x8x8`, goes in; its `Fabric` comes out, routed.

A spec is the name of a registered topology, after a colon the word that it is mostly told by, and options by comma, as
in `leaf-spine:leaves=4,down=32,up=32,port=25GB/s`. Names are written with `-` or `_`.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.errors import SystemSpecError
from meshwright.base.parse import build
from meshwright.base.registry import Registry
from meshwright.base.units import BytesPerSecond
from meshwright.system.boxes import HostWires, boxed
from meshwright.system.graph import CPU

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from meshwright.system.graph import Fabric
    from meshwright.system.link import Link
    from meshwright.system.system import Host, System

TOPOLOGIES: Final = Registry(
    kind="topologies", package="meshwright.system", folder="topologies", error=SystemSpecError, number=20
)
SWITCH: Final = "switch"
_UNSTATED_RADIX: Final = 1_000_000


def is_topology(text: str) -> bool:
    """Whether the text is a spec: the name of a registered topology, or any name before a colon."""
    return _name(text) in TOPOLOGIES.names() or (":" in text and not text.endswith(".toml"))


def read_topology(text: str, given: Mapping[str, Any] | None = None) -> Fabric:
    """The network of a spec. given: fields that stand where the spec says nothing, as far as the topology has them.

    Raises SYS020 (a name that is not registered), SYS021 (an option that is none), and what the topology raises.
    """
    module = TOPOLOGIES.module(_name(text))
    return module.build(_spec(module, text, {} if given is None else given))


def system_fabric(system: System, seed: int = 0) -> Fabric:
    """The boxes of a system, with their PCIe switches, NICs and CPUs, and the network between them.

    seed: of a network that takes paths by a hash, where its spec does not say.

    A message between two devices of a box pays the latency of `scale_up`, one between boxes that of `scale_out`, over
    the topologies that `system.topology` names; a network with more levels adds its forwards. Raises SYS020..SYS028.
    """
    box = _box(system)
    host = _host(system, box)
    network = _network(system, seed) if system.nodes > 1 else None
    rails = system.topology.rails == "relay"
    return boxed(system.name, box, system.nodes, host, network, relay=rails)


def staged_box(system: System, cards: int, order: tuple[int, ...]) -> Fabric:
    """One box of so many cards, with its CPUs. Raises SYS028 for an order that is none of theirs, or without CPUs."""
    if cards < 2 or cards > system.devices_per_node or sorted(order) != list(range(cards)):  # noqa: PLR2004 - a pair
        cause = f"cards {order} of {cards}, and a box has {system.devices_per_node}"
        raise SystemSpecError(28, cause, "give each card of 0 to cards - 1 once, at least two, at most a box")
    topology = replace(system.topology, scale_up=SWITCH)
    fabric = system_fabric(replace(system, nodes=1, devices_per_node=cards, topology=topology))
    if not np.any(fabric.kind == CPU):
        raise SystemSpecError(28, f"{system.id} says nothing of its CPUs", "give host.numa_nodes or host.cpus")
    return fabric


def _name(text: str) -> str:
    return text.partition(":")[0].partition(",")[0].strip().replace("-", "_")


def _spec(module: ModuleType, text: str, given: Mapping[str, Any]) -> Any:
    known = {item.name for item in fields(module.Spec)}
    values: dict[str, Any] = {name: value for name, value in given.items() if name in known}
    own: dict[str, str] = {}
    rest = text.partition(":")[2] if ":" in text else text.partition(",")[2]
    for place, part in enumerate(item.strip() for item in rest.split(",")):
        if not part and place == 0:
            continue
        name, equals, value = part.partition("=")
        if not equals and place == 0:
            name, value = module.HEAD, part
        elif not equals or not name.strip() or not value.strip():
            raise SystemSpecError(21, f"{text}: {part!r} is not an option", f"write as in {module.EXAMPLE}")
        if name.strip() in own:
            raise SystemSpecError(21, f"{text}: {name.strip()} is given twice", f"write as in {module.EXAMPLE}")
        own[name.strip()] = value.strip()
    spec = build(module.Spec, own, _name(text))
    return replace(spec, **{name: value for name, value in values.items() if name not in own})


def _wires(link: Link) -> dict[str, Any]:
    """What a link says of cables: one port of all its bandwidth where it does not say how many it has."""
    ports = link.ports if link.ports is not None and link.port_bandwidth is not None else 1
    return {"ports": ports, "port": BytesPerSecond(link.bandwidth / ports), "latency": link.latency}


def _box(system: System) -> Fabric:
    """The network of one box; of a single device nothing but itself."""
    count = system.devices_per_node
    given = {**_wires(system.scale_up), "devices": max(2, count)}
    text = system.topology.scale_up
    built = _read(text, given)
    if count == 1:
        return _one_device(built)
    if len(built.devices) != count:
        cause = f"{system.id}: topology.scale_up is {text}, of {len(built.devices)} devices, and a box has {count}"
        raise SystemSpecError(27, cause, "give the topology as many devices as devices_per_node")
    return built


def _read(text: str, given: Mapping[str, Any]) -> Fabric:
    """The network of a spec; a plain `switch` is one whose build is not known, with ports for all, and no chips."""
    if text.strip() != SWITCH:
        return read_topology(text, given)
    built = read_topology(text, {**given, "radix": _UNSTATED_RADIX, "chips": 1})
    return replace(built, chips=np.zeros_like(built.chips))


def _one_device(built: Fabric) -> Fabric:
    """A box of one device: no links."""
    none = np.zeros(0, dtype=np.int64)
    return replace(
        built,
        kind=built.kind[:1],
        box=built.box[:1],
        sender=none,
        receiver=none,
        bandwidth_bytes_per_s=none.astype(np.float64),
        latency_s=none.astype(np.float64),
        devices=built.devices[:1],
        chips=built.chips[:1],
        cables=none,
        halves=built.halves[:1],
    )


def _host(system: System, box: Fabric) -> HostWires:
    """PCIe switches: as the host states, else one for every NIC (every device of a box without). CPUs: NUMA nodes.

    A box whose own network holds CPUs has no others.
    """
    host, count = system.host, system.devices_per_node
    nics = min(system.nics_per_node, count) if system.nodes > 1 else 0
    cpus = 0 if np.any(box.kind == CPU) else _cpus(host)
    if not system.peer_to_peer:
        cpus = max(1, cpus)
    rate = None if host is None else host.link_bandwidth
    link = system.scale_up.bandwidth if not system.peer_to_peer else rate
    switches = (None if host is None else host.pcie_switches) or nics or count
    return HostWires(
        switches=min(switches, count),
        nics=nics,
        cpus=cpus,
        link=float("inf") if link is None else float(link),
        stage_s=float(system.scale_up.latency),
        staged=not system.peer_to_peer,
        cpu_links=(None if host is None else host.cpu_links) or 1,
    )


def _cpus(host: Host | None) -> int:
    return 0 if host is None else host.numa_nodes or host.cpus or 0


def _network(system: System, seed: int) -> Fabric:
    """Between the NICs of all boxes."""
    link = system.scale_out
    assert link is not None, "boxes are joined by NICs"
    nics = min(system.nics_per_node, system.devices_per_node)
    text = system.topology.scale_out
    given = {**_wires(link), "devices": system.nodes * nics, "boxes": system.nodes, "rails": nics, "seed": seed}
    built = _read(text, given)
    if len(built.devices) != system.nodes * nics:
        found, wanted = len(built.devices), system.nodes * nics
        cause = f"{system.id}: topology.scale_out is {text}, of {found} endpoints, for {wanted} NICs"
        raise SystemSpecError(27, cause, "give it as many devices as there are NICs")
    return built
