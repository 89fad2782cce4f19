"""Boxes with one NIC a rail, a leaf for each rail of a group of boxes: `rail-optimised:32,rails=8,port=50GB/s`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from meshwright.base.errors import SystemSpecError
from meshwright.system.levels import even_chips, top_chips
from meshwright.system.topologies._clos import clos
from meshwright.system.topologies._tree import Level, tree
from meshwright.system.wiring import ECMP, Wires, checked_counts, checked_radix, checked_wires, devices, far_half

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints
    from meshwright.system.graph import Fabric

TITLE: Final = "endpoint r of every box of a group on leaf r: a rail crosses one chip"
EXAMPLE: Final = "rail-optimised:32,rails=8,port=50GB/s"
HEAD: Final = "boxes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec(Wires):
    """boxes, rails: endpoints are those of box 0 first.   group: boxes of a leaf; 0 takes half of its ports.

    up: ports of a leaf to spines; 0 takes as many as the group.   radix: ports of a chip.   routing, seed: as of
    leaf-spine.
    """

    boxes: int = 32
    rails: int = 8
    group: int = 0
    up: int = 0
    radix: int = 64
    routing: Literal["spray", "ecmp"] = "spray"
    seed: int = 0


def build(spec: Spec) -> Fabric:
    """rails x groups of boxes leaves; two levels, or three of pods where a spine has not a port for every leaf.

    A pod is as many groups as half of a spine's ports reach. Raises SYS022, SYS023, SYS025 (ecmp over three levels).
    Source: NVIDIA DGX H100 SuperPOD reference architecture (general knowledge): one leaf a rail and scalable unit.
    """
    checked_wires(spec)
    checked_counts(boxes=spec.boxes, rails=spec.rails, radix=spec.radix)
    group = min(spec.group or max(1, spec.radix // 2), spec.boxes)
    up = spec.up or group
    checked_counts(group=group, up=up)
    checked_radix(f"a leaf of {group} boxes", group + up, spec.radix, "give a smaller group, or a larger radix")
    number = np.arange(spec.boxes * spec.rails)
    section = devices(len(number), number // spec.rails)
    leaf_of = number // spec.rails // group * spec.rails + number % spec.rails
    leaves = int(leaf_of.max()) + 1
    title, far = f"{spec.rails} rails of {spec.boxes} boxes", far_half(len(number))
    deep = leaves > spec.radix
    if spec.routing == ECMP:
        if deep:
            raise SystemSpecError(25, "ecmp over three levels", "take routing=spray, a larger radix, or fewer boxes")
        spines = even_chips(leaves, up, spec.radix)
        return clos(title, far, leaf_of, section, spec, leaves, spines, up // spines, spec.seed)
    first = Level(
        word="leaf",
        above=leaf_of,
        count=leaves,
        chips=spec.ports,
        bandwidth=spec.ports * spec.port,
        latency=spec.latency / 2,
        cables=spec.ports,
    )
    return tree(
        title, far, [section], [first, *(_pods(spec, leaves, up) if deep else _top(spec, leaves, up, "spines"))]
    )


def _top(spec: Spec, below: int, up: int, word: str) -> list[Level]:
    """The highest level: all ports of its chips lead down."""
    return [_level(spec, word, np.zeros(below, dtype=np.int64), top_chips(below, up, spec.radix), up)]


def _pods(spec: Spec, leaves: int, up: int) -> list[Level]:
    half = spec.radix // 2
    groups = half // spec.rails
    fix = "give a larger radix, a larger group or fewer rails"
    checked_radix(f"half of a spine for {spec.rails} rails", spec.rails, half, fix)
    pod_of = np.arange(leaves) // (groups * spec.rails)
    pods = int(pod_of[-1]) + 1
    checked_radix(f"a core for {pods} pods", pods, spec.radix, fix)
    spines = -(-groups * spec.rails * up // half)
    return [_level(spec, "pod", pod_of, spines, up), *_top(spec, pods, spines * half, "cores")]


def _level(spec: Spec, word: str, above: Ints, chips: int, cables: int) -> Level:
    return Level(
        word=word,
        above=above,
        count=int(above[-1]) + 1,
        chips=chips * spec.ports,
        bandwidth=cables * spec.ports * spec.port,
        latency=spec.forward,
        cables=cables * spec.ports,
    )
