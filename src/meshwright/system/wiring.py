"""Cables go in, as columns of their ends; a `Fabric` comes out: how builders of topologies put theirs together.

Devices are the vertices 0 .. n - 1 of every builder, in the order of ranks; what else there is follows. Of cable e of
all, the way from its first end to the other is link 2e, the way back 2e + 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.base.errors import SystemSpecError
from meshwright.base.units import BytesPerSecond, Seconds
from meshwright.system.graph import DEVICE, SWITCH, Fabric

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from meshwright.base.numbers import Bools, Floats, Ints
    from meshwright.system.graph import Routes

MOST_DEVICES: Final = 131_072
MOST_LINKS: Final = 8_000_000
SPRAY: Final = "spray"
ECMP: Final = "ecmp"
_PORT: Final = BytesPerSecond(50e9)
_TWO_HOPS: Final = Seconds(400e-9)
_FORWARD: Final = Seconds(200e-9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wires:
    """What the cables of any topology are like.

    port: bytes a second of one port, one way.   ports: of a device; where planes or cables can share them they are
    striped evenly.   latency: of a message between two devices that one chip joins, half on each of its two links (on a
    grid or a mesh: of a link between neighbours).   forward: of a link between chips. The defaults are 50 GB/s, and
    200 ns a link: the forwarding target of UALink 2.0, section 9.9.2 (chapter "Supernodes", footnote 18).
    """

    port: BytesPerSecond = _PORT
    ports: int = 1
    latency: Seconds = _TWO_HOPS
    forward: Seconds = _FORWARD


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Edges:
    """Cables of one sort: their two ends, the bandwidth of each one way, its latency, and how many run side by side."""

    one: Ints
    other: Ints
    bandwidth: float | Floats
    latency: float
    cables: int | Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Vertices of one sort, in a row. word: as in `leaf 3`.   chips: of each.   box: of each, -1 for none."""

    word: str
    count: int
    kind: int
    chips: int = 1
    box: int | Ints = -1


def devices(count: int, box: int | Ints = -1) -> Section:
    """The devices. Raises SYS023 for fewer than two, or too many."""
    checked_counts(devices=count)
    if not 2 <= count <= MOST_DEVICES:  # noqa: PLR2004 - a network joins two
        raise SystemSpecError(23, f"{count} devices", f"give 2 to {MOST_DEVICES}")
    return Section(word="device", count=count, kind=DEVICE, box=box)


def switches(word: str, count: int, chips: int = 1, box: int | Ints = -1) -> Section:
    """Switch chips, `chips` of them a vertex."""
    return Section(word=word, count=count, kind=SWITCH, chips=chips, box=box)


def checked_counts(**counts: int) -> None:
    """Nothing, where every count is at least one. Raises SYS023."""
    for name, count in counts.items():
        if not 1 <= count <= MOST_LINKS:
            raise SystemSpecError(23, f"{name} is {count}", f"give 1 to {MOST_LINKS}")


def checked_wires(wires: Wires) -> None:
    """Nothing, where cables carry something. Raises SYS023 (ports), SYS009 (a rate of zero)."""
    checked_counts(ports=wires.ports)
    if not 0 < wires.port < 1e18:  # noqa: PLR2004 - beyond any port
        raise SystemSpecError(9, f"a port carries {wires.port:g} B/s", "give a rate above zero, as in port=50GB/s")


def checked_radix(what: str, used: int, radix: int, fix: str) -> None:
    """Nothing, where the ports of a chip suffice. Raises SYS022."""
    checked_counts(radix=radix)
    if used > radix:
        raise SystemSpecError(22, f"{what} needs {used} ports, and a chip has {radix}", fix)


def assembled(  # noqa: PLR0917 - what a network is made of
    title: str,
    sections: Sequence[Section],
    edges: Sequence[Edges],
    route: Callable[[Ints, Ints], Routes],
    halves: Bools,
    extents: tuple[int, ...] = (),
) -> Fabric:
    """The whole network. Raises SYS023 for one with too many links."""
    one = np.concatenate([np.asarray(item.one, dtype=np.int64) for item in edges])
    other = np.concatenate([np.asarray(item.other, dtype=np.int64) for item in edges])
    if 2 * len(one) > MOST_LINKS:
        raise SystemSpecError(23, f"{2 * len(one)} links", f"give a network of at most {MOST_LINKS}")
    return Fabric(
        title=title,
        kind=_column([(item.kind, item.count) for item in sections]),
        box=_column([(item.box, item.count) for item in sections]),
        sender=_both(one, other),
        receiver=_both(other, one),
        bandwidth_bytes_per_s=np.repeat(_rates([(item.bandwidth, len(item.one)) for item in edges]), 2),
        latency_s=np.repeat(_rates([(item.latency, len(item.one)) for item in edges]), 2),
        devices=np.arange(sum(item.count for item in sections if item.kind == DEVICE)),
        route=route,
        name=_names(sections),
        chips=_column([(item.chips if item.kind == SWITCH else 0, item.count) for item in sections]),
        cables=np.repeat(_column([(item.cables, len(item.one)) for item in edges]), 2),
        halves=halves,
        extents=extents,
    )


def far_half(count: int) -> Bools:
    """The later half of `count` things in a row; of an odd number the smaller part."""
    return np.arange(count) >= count - count // 2


def tree_halves(far: Bools, parent: Ints, bandwidth: Floats, roots: int = 1) -> Bools:
    """Both sides of the least cut of a tree between devices that are given: `far` of them, True on the far side.

    parent: of each vertex but the last `roots`, which have none; a parent stands behind all its children.   bandwidth:
    of each vertex's link to its parent, one way. Exact: each switch takes the side that costs its subtree least.
    """
    total = len(parent) + roots
    cost = np.zeros((total, 2))  # of a vertex's subtree, with it on the near side, on the far side
    cost[: len(far), 0] = np.where(far, np.inf, 0.0)
    cost[: len(far), 1] = np.where(far, 0.0, np.inf)
    for vertices in _levels(parent):
        up = bandwidth[vertices]
        for side in (0, 1):
            least = np.minimum(cost[vertices, side], cost[vertices, 1 - side] + up)
            np.add.at(cost[:, side], parent[vertices], least)
    sides = np.zeros(total, dtype=np.bool_)
    sides[len(parent) :] = cost[len(parent) :, 1] < cost[len(parent) :, 0]
    for vertices in reversed(_levels(parent)):
        above = sides[parent[vertices]].astype(np.int64)
        stay = cost[vertices, above]
        leave = cost[vertices, 1 - above] + bandwidth[vertices]
        sides[vertices] = np.where(leave < stay, 1 - above, above) == 1
    return sides


def _levels(parent: Ints) -> list[Ints]:
    """Vertices by their height above the leaves, lowest first, so that children come before their parents."""
    height = np.zeros(int(parent.max(initial=0)) + 1, dtype=np.int64)
    below = np.arange(len(parent))
    while len(below):
        raised = np.zeros_like(height)
        np.maximum.at(raised, parent[below], height[below] + 1)
        grown = np.flatnonzero(raised > height)
        height = np.maximum(height, raised)
        below = grown[grown < len(parent)]
    own = height[: len(parent)]
    return [np.flatnonzero(own == level) for level in range(int(own.max(initial=0)) + 1)]


def _both(one: Ints, other: Ints) -> Ints:
    return np.stack([one, other], axis=1).reshape(-1)


def _column(parts: Sequence[tuple[int | Ints, int]]) -> Ints:
    return np.concatenate([np.broadcast_to(np.asarray(value, dtype=np.int64), count) for value, count in parts])


def _rates(parts: Sequence[tuple[float | Floats, int]]) -> Floats:
    return np.concatenate([np.broadcast_to(np.asarray(value, dtype=np.float64), count) for value, count in parts])


def _names(sections: Sequence[Section]) -> Callable[[int], str]:
    ends = np.cumsum([item.count for item in sections])

    def name(vertex: int) -> str:
        place = int(np.searchsorted(ends, vertex, side="right"))
        item = sections[place]
        number = vertex - (int(ends[place]) - item.count)
        return item.word if item.count == 1 and item.kind != DEVICE else f"{item.word} {number}"

    return name
