"""Nodes of eight NPUs on two levels of UB switches: `cloudmatrix:48` is CloudMatrix384."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.base.units import BytesPerSecond, Seconds
from meshwright.system.graph import CPU
from meshwright.system.topologies._tree import Level, tree
from meshwright.system.wiring import Section, Wires, checked_counts, checked_radix, checked_wires, devices, far_half

if TYPE_CHECKING:
    from meshwright.system.graph import Fabric

TITLE: Final = "nodes of eight NPUs and four CPUs on two levels of UB switches"
EXAMPLE: Final = "cloudmatrix:48"
HEAD: Final = "nodes"
_PORT: Final = BytesPerSecond(28e9)
_CPU: Final = BytesPerSecond(160e9)
_NEAR: Final = Seconds(1.2e-6)
_STEP: Final = Seconds(0.35e-6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec(Wires):
    """nodes: of `per_node` NPUs and `cpus` CPUs.   planes: sub-planes, one L1 chip of a node on each.

    l2: L2 chips of a sub-plane, each joined to every node by one port, so that a node has planes x l2 ports up.
    l2_ports: ports of an L2 chip.   cpu_port: of a CPU, one way.

    The counts are of CloudMatrix384 (chapter "Supernodes", section 6.5.5, footnotes 18 and 22). Rates and latencies are
    from general knowledge of P. Zuo et al., Serving Large Language Models on Huawei CloudMatrix384 (2025): 392 GB/s of
    an NPU one way (two dies, seven ports of 28 GB/s each), 160 GB/s of a CPU; 1.2 us within a node, 1.9 us across.
    """

    nodes: int = 48
    per_node: int = 8
    cpus: int = 4
    planes: int = 7
    l2: int = 16
    l2_ports: int = 48
    cpu_port: BytesPerSecond = _CPU
    port: BytesPerSecond = _PORT
    ports: int = 14
    latency: Seconds = _NEAR
    forward: Seconds = _STEP


def build(spec: Spec) -> Fabric:
    """nodes x planes + planes x l2 chips. Raises SYS022 (ports of an L2 chip), SYS023, SYS009."""
    checked_wires(spec)
    checked_counts(nodes=spec.nodes, per_node=spec.per_node, planes=spec.planes, l2=spec.l2, cpus=spec.cpus)
    checked_radix(f"an L2 chip for {spec.nodes} nodes", spec.nodes, spec.l2_ports, "give fewer nodes")
    count, hosts = spec.nodes * spec.per_node, spec.nodes * spec.cpus
    node, host_node = np.arange(count) // spec.per_node, np.arange(hosts) // spec.cpus
    leaves = [devices(count, node), Section(word="CPU", count=hosts, kind=CPU, box=host_node)]
    sizes = [count, hosts]
    levels = [
        Level(
            word="L1",
            above=np.concatenate([node, host_node]),
            count=spec.nodes,
            chips=spec.planes,
            bandwidth=np.repeat([spec.ports * spec.port, spec.cpu_port], sizes),
            latency=spec.latency / 2,
            cables=np.repeat([spec.ports, spec.planes], sizes),
            box=np.arange(spec.nodes),
        ),
        Level(
            word="L2",
            above=np.zeros(spec.nodes, dtype=np.int64),
            count=1,
            chips=spec.planes * spec.l2,
            bandwidth=spec.planes * spec.l2 * spec.port,
            latency=spec.forward,
            cables=spec.planes * spec.l2,
        ),
    ]
    return tree(f"CloudMatrix of {count}", far_half(count), leaves, levels)
