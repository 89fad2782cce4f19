"""Devices in a ring, both ways: `ring:16,port=50GB/s`. Ties at half the ring go as on a torus: even senders up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshwright.base.units import Seconds
from meshwright.system.topologies import torus
from meshwright.system.wiring import Wires, devices

if TYPE_CHECKING:
    from meshwright.system.graph import Fabric

TITLE: Final = "each device joined to the next, the last to the first"
EXAMPLE: Final = "ring:16,port=50GB/s"
HEAD: Final = "devices"
_HOP: Final = Seconds(200e-9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec(Wires):
    """devices: how many.   lines: cables between neighbours; 0 spreads `ports` of a device evenly."""

    devices: int = 8
    lines: int = 0
    latency: Seconds = _HOP


def build(spec: Spec) -> Fabric:
    """A torus of one dimension. Raises SYS023, SYS009. Source: chapter "Supernodes", section 6.5.1."""
    devices(spec.devices)
    given = {name: getattr(spec, name) for name in ("port", "ports", "latency", "forward", "lines")}
    return torus.build(torus.Spec(extents=str(spec.devices), **given))
