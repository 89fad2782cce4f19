"""Leaves and spines as chips of their own go in; a network comes out whose flows each take one spine, by their hash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.base.errors import SystemSpecError
from meshwright.system.routing import NONE, by_columns, hashed
from meshwright.system.wiring import Edges, assembled, switches, tree_halves

if TYPE_CHECKING:
    from meshwright.base.numbers import Bools, Ints
    from meshwright.system.graph import Fabric, Routes
    from meshwright.system.wiring import Section, Wires

_MOST_SEED: Final = 2**63


def clos(  # noqa: PLR0917 - what a Clos network is made of
    title: str,
    far: Bools,
    leaf_of: Ints,
    devices: Section,
    wires: Wires,
    leaves: int,
    spines: int,
    lines: int,
    seed: int,
) -> Fabric:
    """Two levels, `lines` cables between each leaf and each spine; each is a vertex of one chip a plane.

    Raises SYS023 for a seed out of range. Source of the routing: equal-cost multipath, RFC 2992; the hash is
    `routing.hashed`.
    """
    if not 0 <= seed < _MOST_SEED:
        raise SystemSpecError(23, f"seed is {seed}", f"give 0 to {_MOST_SEED - 1}")
    count, planes = len(leaf_of), wires.ports
    pairs = np.arange(leaves * spines)
    edges = [
        Edges(
            one=np.arange(count),
            other=count + leaf_of,
            bandwidth=planes * wires.port,
            latency=wires.latency / 2,
            cables=planes,
        ),
        Edges(
            one=count + pairs // spines,
            other=count + leaves + pairs % spines,
            bandwidth=lines * planes * wires.port,
            latency=wires.forward,
            cables=lines * planes,
        ),
    ]

    def route(sender: Ints, receiver: Ints) -> Routes:
        source, target = np.asarray(sender), np.asarray(receiver)
        crosses = leaf_of[source] != leaf_of[target]
        spine = hashed(seed, source, target, spines)
        up, down = (2 * (count + leaf_of[at] * spines + spine) for at in (source, target))
        columns = (
            np.where(source == target, NONE, 2 * source),
            np.where(crosses, up, NONE),
            np.where(crosses, down + 1, NONE),
            np.where(source == target, NONE, 2 * target + 1),
        )
        return by_columns(*columns)

    widths = np.repeat([planes * wires.port, spines * lines * planes * wires.port], [count, leaves])
    above = np.concatenate([count + leaf_of, np.full(leaves, count + leaves)])
    folded = tree_halves(far, above, widths)
    halves = np.concatenate([folded[:-1], np.repeat(folded[-1:], spines)])
    sections = [devices, switches("leaf", leaves, planes), switches("spine", spines, planes)]
    return assembled(title, sections, edges, route, halves)
