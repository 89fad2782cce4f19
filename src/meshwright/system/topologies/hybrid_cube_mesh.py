"""Eight GPUs of a DGX-1, six NVLink ports each; pairs without a cable relay over a neighbour: `hybrid-cube-mesh`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.base.errors import SystemSpecError
from meshwright.base.units import BytesPerSecond, Seconds
from meshwright.system.routing import shortest
from meshwright.system.wiring import Edges, Wires, assembled, checked_radix, checked_wires, devices, far_half

if TYPE_CHECKING:
    from meshwright.system.graph import Fabric

TITLE: Final = "eight GPUs of a DGX-1; pairs without a cable relay"
EXAMPLE: Final = "hybrid-cube-mesh:8,port=25GB/s"
HEAD: Final = "devices"
_PORT: Final = BytesPerSecond(25e9)
_NVLINK: Final = Seconds(0.822e-6)
_GPUS: Final = 8
_PORTS: Final = 6
_QUAD: Final = ((0, 1, 1), (0, 2, 1), (0, 3, 2), (1, 2, 2), (1, 3, 1), (2, 3, 2))
_ACROSS: Final = ((0, 4, 2), (1, 5, 2), (2, 6, 1), (3, 7, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec(Wires):
    """devices: eight, as the wiring is that of one machine.

    Cables of each pair as `nvidia-smi topo -m` prints them for a DGX-1 with V100 (general knowledge): two quads, each
    fully joined, and one pair of opposite GPUs a corner. No measured latency: that of NVLink 4.
    """

    devices: int = _GPUS
    port: BytesPerSecond = _PORT
    ports: int = _PORTS
    latency: Seconds = _NVLINK


def build(spec: Spec) -> Fabric:
    """24 cables in 16 bundles. Routed by fewest links, the widest first.

    Source: chapter "Supernodes", section 6.5.3 (what it is); NVIDIA DGX-1 (which pairs).
    Raises SYS022 (ports), SYS025 (not eight), SYS009.
    """
    checked_wires(spec)
    section = devices(spec.devices, 0)
    if spec.devices != _GPUS:
        raise SystemSpecError(25, f"a hybrid cube mesh of {spec.devices}", "it is the wiring of eight; take full-mesh")
    checked_radix("a hybrid cube mesh", _PORTS, spec.ports, f"give ports={_PORTS}")
    second = tuple((one + _GPUS // 2, other + _GPUS // 2, lines) for one, other, lines in _QUAD)
    table = np.array([*_QUAD, *second, *_ACROSS])
    edges = [
        Edges(
            one=table[:, 0],
            other=table[:, 1],
            bandwidth=table[:, 2] * spec.port,
            latency=spec.latency,
            cables=table[:, 2],
        )
    ]
    ends = np.stack([table[:, 0], table[:, 1]], axis=1)
    route = shortest(_GPUS, ends.reshape(-1), ends[:, ::-1].reshape(-1), np.repeat(table[:, 2] * spec.port, 2))
    return assembled("hybrid cube mesh of 8", [section], edges, route, far_half(_GPUS))
