"""Leaves with ports down and up, joined by spines: `leaf-spine:leaves=4,down=32,up=32,port=25GB/s`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from meshwright.base.errors import SystemSpecError
from meshwright.system.topologies._clos import clos
from meshwright.system.topologies._tree import Level, tree
from meshwright.system.wiring import ECMP, Wires, checked_counts, checked_radix, checked_wires, devices, far_half

if TYPE_CHECKING:
    from meshwright.system.graph import Fabric

TITLE: Final = "two levels of switches with any taper"
EXAMPLE: Final = "leaf-spine:leaves=4,down=32,up=32,port=25GB/s"
HEAD: Final = "leaves"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec(Wires):
    """leaves: leaf chips a plane.   down, up: ports of a leaf to devices and to spines.

    lines: cables of a leaf to each spine.   radix: ports of a chip.   devices: 0 fills every port down.   ports: of a
    device, each on a plane of its own.
    routing: `spray` shares every flow evenly over the spines, `ecmp` takes one by the hash of the flow and `seed`.
    """

    leaves: int = 4
    down: int = 32
    up: int = 32
    lines: int = 1
    radix: int = 64
    devices: int = 0
    routing: Literal["spray", "ecmp"] = "spray"
    seed: int = 0


def build(spec: Spec) -> Fabric:
    """up / lines spines a plane. Raises SYS022 (ports), SYS023 (counts), SYS025 (ports up that spines do not share).

    Source: chapter "Supernodes", section 6.5.1.
    """
    checked_wires(spec)
    checked_counts(leaves=spec.leaves, down=spec.down, up=spec.up, lines=spec.lines)
    count = spec.devices or spec.leaves * spec.down
    section = devices(count)
    checked_radix("a leaf", spec.down + spec.up, spec.radix, f"give radix={spec.down + spec.up}, or fewer ports")
    fix = "give more lines, fewer leaves or a larger radix"
    checked_radix(f"a spine for {spec.leaves} leaves", spec.leaves * spec.lines, spec.radix, fix)
    if count > spec.leaves * spec.down:
        cause = f"{count} devices, and the leaves have {spec.leaves * spec.down} ports down"
        raise SystemSpecError(22, cause, "give more leaves, or fewer devices")
    if spec.up % spec.lines:
        raise SystemSpecError(25, f"{spec.up} ports up, {spec.lines} to each spine", "give lines that divide up")
    spines, leaf_of = spec.up // spec.lines, np.arange(count) // spec.down
    title = f"{spec.leaves} leaves, {spines} spines, {count} devices"
    if spec.routing == ECMP:
        return clos(title, far_half(count), leaf_of, section, spec, spec.leaves, spines, spec.lines, spec.seed)
    planes, width = spec.ports, spec.ports * spec.port
    levels = [
        Level(
            word="leaf",
            above=leaf_of,
            count=spec.leaves,
            chips=planes,
            bandwidth=width,
            latency=spec.latency / 2,
            cables=planes,
        ),
        Level(
            word="spines",
            above=np.zeros(spec.leaves, dtype=np.int64),
            count=1,
            chips=spines * planes,
            bandwidth=spec.up * width,
            latency=spec.forward,
            cables=spec.up * planes,
        ),
    ]
    return tree(title, far_half(count), [section], levels)
