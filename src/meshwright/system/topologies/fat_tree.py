"""A non-blocking tree of equal chips, of as few levels as hold the devices: `fat-tree:512,ports=6,radix=64`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from meshwright.base.errors import SystemSpecError
from meshwright.system.levels import even_chips, level_chips, reached_count
from meshwright.system.topologies import switch
from meshwright.system.topologies._clos import clos
from meshwright.system.topologies._tree import Level, tree
from meshwright.system.wiring import ECMP, Wires, checked_radix, checked_wires, devices, far_half

if TYPE_CHECKING:
    from meshwright.system.graph import Fabric

TITLE: Final = "a non-blocking tree of equal chips, of as few levels as hold the devices"
EXAMPLE: Final = "fat-tree:512,ports=6,radix=64"
HEAD: Final = "devices"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec(Wires):
    """devices: how many; 0 fills the tree of three levels, radix^3 / 4.   radix: ports of a chip, even.

    ports: of a device, each on a plane of its own.   routing: `spray` shares every flow evenly over all paths; `ecmp`,
    of two levels, takes one spine by the hash of the flow and `seed`.
    """

    devices: int = 0
    radix: int = 64
    routing: Literal["spray", "ecmp"] = "spray"
    seed: int = 0


def build(spec: Spec) -> Fabric:
    """One level up to `radix` devices, two up to radix^2 / 2, three up to radix^3 / 4; half of a chip's ports lead up.

    Raises SYS022 (more devices than three levels have ports), SYS023, SYS025 (an odd radix), SYS009.
    Source: M. Al-Fares et al., A Scalable, Commodity Data Center Network Architecture, SIGCOMM 2008; chapter
    "Supernodes", section 6.5.1 (P / (R / 2) leaves, half as many spines).
    """
    checked_wires(spec)
    if spec.radix % 2:
        raise SystemSpecError(25, f"radix={spec.radix}", "give an even radix: half of the ports lead up")
    half = spec.radix // 2
    most: int = reached_count(3, spec.radix)
    count = spec.devices or most
    devices(count)
    checked_radix(f"a tree of three levels for {count} devices", count, most, "give a larger radix")
    if count <= spec.radix:
        return switch.build(
            switch.Spec(
                devices=count,
                radix=spec.radix,
                port=spec.port,
                ports=spec.ports,
                latency=spec.latency,
                chips=spec.ports,
            )
        )
    return _two(spec, count, half) if count <= reached_count(2, spec.radix) else _three(spec, count, half)


def _two(spec: Spec, count: int, half: int) -> Fabric:
    leaves, spines = level_chips(count, spec.radix, 2)
    leaf_of = np.arange(count) // half
    title = f"fat tree of {count}, two levels"
    if spec.routing == ECMP:
        spines = even_chips(leaves, half, spec.radix)
        return clos(title, far_half(count), leaf_of, devices(count), spec, leaves, spines, half // spines, spec.seed)
    top = _level(spec, "spines", np.zeros(leaves, dtype=np.int64), spines, half)
    return tree(title, far_half(count), [devices(count)], [_leaves(spec, leaf_of), top])


def _three(spec: Spec, count: int, half: int) -> Fabric:
    if spec.routing == ECMP:
        raise SystemSpecError(25, "ecmp over three levels", "take routing=spray, a larger radix, or fewer devices")
    leaf_of = np.arange(count) // half
    pod_of = np.arange(int(leaf_of[-1]) + 1) // half
    _, above, cores = level_chips(count, spec.radix, 3)
    pods = int(pod_of[-1]) + 1
    middle = _level(spec, "pod", pod_of, above // pods, half)
    top = _level(spec, "cores", np.zeros(pods, dtype=np.int64), cores, half * half)
    title = f"fat tree of {count}, three levels"
    return tree(title, far_half(count), [devices(count)], [_leaves(spec, leaf_of), middle, top])


def _leaves(spec: Spec, leaf_of: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Level:
    return Level(
        word="leaf",
        above=leaf_of,
        count=int(leaf_of[-1]) + 1,
        chips=spec.ports,
        bandwidth=spec.ports * spec.port,
        latency=spec.latency / 2,
        cables=spec.ports,
    )


def _level(
    spec: Spec, word: str, above: np.ndarray[tuple[int, ...], np.dtype[np.int64]], chips: int, cables: int
) -> Level:
    """Switches above: `chips` a vertex and plane, `cables` of each vertex below and plane."""
    return Level(
        word=word,
        above=above,
        count=int(above[-1]) + 1,
        chips=chips * spec.ports,
        bandwidth=cables * spec.ports * spec.port,
        latency=spec.forward,
        cables=cables * spec.ports,
    )
