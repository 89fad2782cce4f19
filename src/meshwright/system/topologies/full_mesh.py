"""Every pair of devices joined by cables of its own: `full-mesh:8,lines=1,port=25GB/s`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.base.units import Seconds
from meshwright.system.routing import NONE, by_columns
from meshwright.system.wiring import Edges, Wires, assembled, checked_counts, checked_wires, devices, far_half

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints
    from meshwright.system.graph import Fabric, Routes

TITLE: Final = "every pair joined by cables of its own"
EXAMPLE: Final = "full-mesh:8,port=25GB/s"
HEAD: Final = "devices"
_HOP: Final = Seconds(200e-9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec(Wires):
    """devices: how many.   lines: cables of a pair; 0 spreads `ports` of a device evenly, the rest stays unused."""

    devices: int = 8
    lines: int = 0
    ports: int = 1
    latency: Seconds = _HOP


def build(spec: Spec) -> Fabric:
    """n - 1 neighbours a device, n (n - 1) / 2 bundles of cables. Raises SYS023, SYS009.

    Source: chapter "Supernodes", section 6.5.1.
    """
    checked_wires(spec)
    section = devices(spec.devices, 0)
    count, lines = spec.devices, spec.lines or max(1, spec.ports // max(1, spec.devices - 1))
    checked_counts(lines=lines, links=count * (count - 1))
    one, other = np.triu_indices(count, 1)
    number = np.full((count, count), NONE, dtype=np.int64)
    number[one, other] = 2 * np.arange(len(one))
    number[other, one] = 2 * np.arange(len(one)) + 1
    edges = [Edges(one=one, other=other, bandwidth=lines * spec.port, latency=spec.latency, cables=lines)]

    def route(sender: Ints, receiver: Ints) -> Routes:
        return by_columns(number[sender, receiver])

    return assembled(f"full mesh of {count}", [section], edges, route, far_half(count))
