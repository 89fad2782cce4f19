"""One level of switch chips, every device on each: `switch:64,ports=6,port=50GB/s,radix=64`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.system.topologies._tree import Level, tree
from meshwright.system.wiring import Wires, checked_counts, checked_radix, checked_wires, devices, far_half

if TYPE_CHECKING:
    from meshwright.system.graph import Fabric

TITLE: Final = "one level of switch chips, every device on each"
EXAMPLE: Final = "switch:64,ports=6,port=50GB/s,radix=64"
HEAD: Final = "devices"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec(Wires):
    """devices: how many.   radix: ports of a chip.   chips: 0 takes the fewest that have the ports.

    A device spreads its ports evenly over the chips, and stripes what it sends evenly over its ports.
    """

    devices: int = 64
    radix: int = 64
    chips: int = 0


def build(spec: Spec) -> Fabric:
    """Non-blocking: what devices can send the chips can forward. Raises SYS022 (ports), SYS023, SYS009.

    Source: chapter "Supernodes", section 6.5.1.
    """
    checked_wires(spec)
    section = devices(spec.devices, 0)
    fix = "take fat-tree or leaf-spine, a larger radix, or fewer devices"
    checked_radix(f"one level for {spec.devices} devices", spec.devices, spec.radix, fix)
    level = Level(
        word="switch",
        above=np.zeros(spec.devices, dtype=np.int64),
        count=1,
        chips=spec.chips or _fewest(spec),
        bandwidth=spec.ports * spec.port,
        latency=spec.latency / 2,
        cables=spec.ports,
        box=0,
    )
    checked_counts(chips=level.chips)
    most = -(-spec.ports // level.chips)
    fix = f"give chips={_fewest(spec)}"
    checked_radix(f"{spec.devices} devices with {most} ports on each chip", spec.devices * most, spec.radix, fix)
    return tree(f"switch of {spec.devices}", far_half(spec.devices), [section], [level])


def _fewest(spec: Spec) -> int:
    """Chips so that a device's ports, spread evenly over them, leave no chip without ports."""
    each = max(1, spec.radix // spec.devices)
    return -(-spec.ports // each)
