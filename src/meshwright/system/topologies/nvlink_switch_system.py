"""Boxes of H100 joined over NVLink by a second level of switches: `nvlink-switch-system:32`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.base.units import BytesPerSecond, Seconds
from meshwright.system.topologies._tree import Level, tree
from meshwright.system.wiring import Wires, checked_counts, checked_radix, checked_wires, devices, far_half

if TYPE_CHECKING:
    from meshwright.system.graph import Fabric

TITLE: Final = "boxes of eight H100, one NVLink domain over two levels with a taper"
EXAMPLE: Final = "nvlink-switch-system:32"
HEAD: Final = "boxes"
_PORT: Final = BytesPerSecond(25e9)
_NVLINK: Final = Seconds(0.822e-6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec(Wires):
    """boxes: of `per_box` GPUs each.   up: NVLink ports that leave a box.   chips: NVSwitch chips of a box.

    The defaults are the NVLink Switch System of up to 256 H100, two to one outside a box (chapter "Supernodes",
    footnotes 19 and 38): 8 GPUs of 18 ports, 72 ports up. Chips of a box from general knowledge.
    """

    boxes: int = 32
    per_box: int = 8
    up: int = 72
    chips: int = 4
    radix: int = 64
    port: BytesPerSecond = _PORT
    ports: int = 18
    latency: Seconds = _NVLINK


def build(spec: Spec) -> Fabric:
    """As many chips above as the ports up need. Raises SYS022 (ports), SYS023, SYS009."""
    checked_wires(spec)
    checked_counts(boxes=spec.boxes, per_box=spec.per_box, up=spec.up, chips=spec.chips, radix=spec.radix)
    count = spec.boxes * spec.per_box
    box = np.arange(count) // spec.per_box
    section = devices(count, box)
    used = spec.per_box * spec.ports + spec.up
    checked_radix("the chips of a box", used, spec.chips * spec.radix, "give more chips or fewer ports up")
    above = -(-spec.boxes * spec.up // spec.radix)
    checked_radix(f"a chip above {spec.boxes} boxes", spec.boxes, spec.radix, "give fewer boxes or a larger radix")
    levels = [
        Level(
            word="NVSwitch",
            above=box,
            count=spec.boxes,
            chips=spec.chips,
            bandwidth=spec.ports * spec.port,
            latency=spec.latency / 2,
            cables=spec.ports,
            box=np.arange(spec.boxes),
        ),
        Level(
            word="NVLink switches",
            above=np.zeros(spec.boxes, dtype=np.int64),
            count=1,
            chips=above,
            bandwidth=spec.up * spec.port,
            latency=spec.forward,
            cables=spec.up,
        ),
    ]
    return tree(f"NVLink Switch System of {count}", far_half(count), [section], levels)
