"""A torus of any extents: `torus:8x8x8,port=50GB/s`; dimensions named in `open` are not joined at their ends."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.base.errors import SystemSpecError
from meshwright.base.units import Seconds
from meshwright.system.routing import NONE, Grid, dimension_ordered
from meshwright.system.wiring import Edges, Wires, assembled, checked_counts, checked_wires, devices

if TYPE_CHECKING:
    from meshwright.base.numbers import Bools, Ints
    from meshwright.system.graph import Fabric, Routes

TITLE: Final = "a grid whose opposite ends are joined"
EXAMPLE: Final = "torus:8x8x8,port=50GB/s"
HEAD: Final = "extents"
_HOP: Final = Seconds(200e-9)
_LETTERS: Final = "xyzw"
_PAIR: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec(Wires):
    """extents: as in 8x8x8, at most four.   lines: cables between neighbours; 0 spreads `ports` of a device evenly.

    open: letters of the dimensions (x, y, z, w) without a wraparound.
    """

    extents: str = "4x4x4"
    lines: int = 0
    open: str = ""
    latency: Seconds = _HOP


def build(spec: Spec) -> Fabric:
    """Neighbours in each dimension; an extent of 2 has one cable bundle, not two. Raises SYS021, SYS023, SYS009.

    Routed by dimension order; see `routing.dimension_ordered` for ties. Source: chapter "Supernodes", section 6.5.1.
    """
    checked_wires(spec)
    extents = extents_of(spec.extents)
    section = devices(prod(extents))
    if set(spec.open) - set(_LETTERS[: len(extents)]):
        raise SystemSpecError(21, f"open={spec.open}", f"name dimensions by {', '.join(_LETTERS[: len(extents)])}")
    wraps = tuple(extent > _PAIR and letter not in spec.open for extent, letter in zip(extents, _LETTERS, strict=False))
    ways = sum(2 if wrap else 1 for extent, wrap in zip(extents, wraps, strict=True) if extent > 1)
    lines = spec.lines or max(1, spec.ports // ways)
    grid, one, other = _wired(extents, wraps)
    edges = [Edges(one=one, other=other, bandwidth=lines * spec.port, latency=spec.latency, cables=lines)]

    def route(sender: Ints, receiver: Ints) -> Routes:
        return dimension_ordered(grid, np.asarray(sender), np.asarray(receiver))

    sort = "torus" if all(wraps) else "grid"
    title = f"{spec.extents} {sort}" if len(extents) > 1 else f"{'ring' if all(wraps) else 'line'} of {prod(extents)}"
    return assembled(title, [section], edges, route, _halves(extents, wraps), extents)


def extents_of(text: str) -> tuple[int, ...]:
    """The sizes of a grid. Raises SYS021 for text that is none, SYS023 for sizes out of range."""
    parts = text.lower().split("x")
    if not 1 <= len(parts) <= len(_LETTERS) or not all(part.isdecimal() for part in parts):
        raise SystemSpecError(21, f"{text!r} are no extents", "write at most four sizes, as in 8x8x8")
    extents = tuple(int(part) for part in parts)
    checked_counts(**dict(zip(_LETTERS, extents, strict=False)))
    return extents


def _wired(extents: tuple[int, ...], wraps: tuple[bool, ...]) -> tuple[Grid, Ints, Ints]:
    """The grid with its links, and both ends of every cable: those of the first dimension first."""
    count = prod(extents)
    number = np.arange(count)
    links = np.full((len(extents), 2, count), NONE, dtype=np.int64)
    ones: list[Ints] = []
    others: list[Ints] = []
    made = 0
    for place, extent in enumerate(extents):
        stride = prod(extents[place + 1 :])
        coordinate = number // stride % extent
        one = number if wraps[place] else number[coordinate < extent - 1]
        ahead = (coordinate[one] + 1) % extent
        other = one + (ahead - coordinate[one]) * stride
        links[place, 1, one] = 2 * (made + np.arange(len(one)))
        links[place, 0, other] = links[place, 1, one] + 1
        made += len(one)
        ones.append(one)
        others.append(other)
    grid = Grid(extents=extents, wraps=wraps, links=links)
    return grid, np.concatenate(ones), np.concatenate(others)


def _halves(extents: tuple[int, ...], wraps: tuple[bool, ...]) -> Bools:
    """The cut across the even dimension that severs the fewest cables; where all are odd, across the longest.

    Between halves of an even torus 2 n / extent cables are severed, the middle and the wraparound; for odd extents the
    middle plane is shared out along the next dimension. Source: chapter "Supernodes", section 6.5.4.
    """
    count = prod(extents)
    severed = [(2 if wrap else 1) * count // extent for extent, wrap in zip(extents, wraps, strict=True)]
    even = [place for place, extent in enumerate(extents) if extent % 2 == 0]
    places = even or list(range(len(extents)))
    first = min(places, key=lambda place: (severed[place], place))
    order = [first, *(place for place in np.argsort([-extent for extent in extents], kind="stable") if place != first)]
    number = np.arange(count)
    rank = np.zeros(count, dtype=np.int64)
    for place in order:
        stride = prod(extents[place + 1 :])
        rank = rank * extents[place] + number // stride % extents[place]
    return rank >= count - count // 2
