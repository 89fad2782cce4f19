"""A network, and how long a load keeps its links busy, go in; an SVG picture comes out, the busier a link the redder.

A grid is drawn as its layers side by side, a ring or a mesh of devices as a circle, a box as its devices round their
switches, anything else in tiers. The picture is text of its own: no script, no font and no file from anywhere.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from html import escape
from math import cos, pi, sin
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from meshwright.base.units import show_short
from meshwright.system.graph import CPU, DEVICE, KINDS, NIC, PCIE_SWITCH, SWITCH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshwright.base.numbers import Floats
    from meshwright.system.graph import Fabric

Points: TypeAlias = dict[int, tuple[float, float]]
_WIDTH: Final = 1200.0
_TOP: Final = 60.0
_FONT: Final = 'role="img" font-family="sans-serif" font-size="10"'
_FILLS: Final = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#9d755d")
_COLD, _HOT = (190, 200, 210), (214, 39, 40)
_WORDS: Final = ("device", "switch", "NIC", "PCIe switch", "CPU")
_MOST_IN_ROW: Final = 48
_MOST_ROUND: Final = 32
_SPACE: Final = 3
_STUB: Final = 14.0
_LEAST_CELL, _MOST_CELL = 44.0, 70.0


def as_svg(fabric: Fabric, title: str, busy_s: Floats) -> str:
    """The whole network; of a large one what fits, and the picture says how much is left out.

    busy_s: of each link; zeros without a load.
    """
    points, height = _placed(fabric)
    told = title
    left_out = len(fabric.kind) - len(points)
    told += f" ({left_out:,} of {len(fabric.kind):,} vertices are not drawn)" if left_out else ""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {height:g}" {_FONT}>',
        f"<title>{escape(told)}</title>",
        f'<rect width="{_WIDTH:g}" height="{height:g}" fill="#ffffff"/>',
        f'<text x="8" y="18" font-size="13">{escape(told)}</text>',
        *_legend(fabric, busy_s),
        *_links(fabric, points, busy_s),
        *_vertices(fabric, points),
    ]
    return "\n".join([*lines, "</svg>"]) + "\n"


# --------------------------------------------------------------------------------------------------------------- places


def _placed(fabric: Fabric) -> tuple[Points, float]:
    """Where each vertex stands, and how high the picture is."""
    others = int(np.count_nonzero(fabric.kind != DEVICE))
    if len(fabric.extents) > 1 and others == 0:
        return _grid(fabric)
    if len(fabric.devices) <= _MOST_ROUND and others <= 2:  # noqa: PLR2004 - the boards of a box
        return _round(fabric)
    return _tiers(fabric)


def _grid(fabric: Fabric) -> tuple[Points, float]:
    """Layers of the last two dimensions side by side, as many rows of them as needed."""
    *layers, rows, columns = fabric.extents
    count = int(np.prod(layers)) if layers else 1
    across = min(count, max(1, int((_WIDTH - 40.0) / ((columns + 1) * _LEAST_CELL))))
    cell = min(_MOST_CELL, (_WIDTH - 40.0) / across / (columns + 1))
    points: Points = {}
    for device in range(len(fabric.devices)):
        layer, place = divmod(device, rows * columns)
        row, column = divmod(place, columns)
        x = 30.0 + (layer % across) * (columns + 1) * cell + column * cell
        points[device] = x, _TOP + 20.0 + (layer // across) * (rows + 1) * cell + row * cell
    return points, _TOP + 20.0 + -(-count // across) * (rows + 1) * cell


def _round(fabric: Fabric) -> tuple[Points, float]:
    """Devices in a circle, their switches within."""
    middle, radius = (_WIDTH / 2, _TOP + 270.0), 240.0
    count = len(fabric.devices)
    points: Points = {}
    for place in range(count):
        angle = 2 * pi * (place + 0.5) / count - pi / 2
        points[place] = middle[0] + radius * cos(angle), middle[1] + radius * sin(angle)
    inside = np.flatnonzero(fabric.kind != DEVICE).tolist()
    for place, vertex in enumerate(inside):
        points[vertex] = middle[0] + (place - (len(inside) - 1) / 2) * 120.0, middle[1]
    return points, _TOP + 550.0


def _tiers(fabric: Fabric) -> tuple[Points, float]:
    """Rows: switches far from devices on top, then NICs, PCIe switches, devices, their box's switches, CPUs.

    Of a large network the first devices, and what leads from them.
    """
    rows = _rows_of(fabric)
    shown = np.zeros(len(fabric.kind), dtype=np.bool_)
    shown[fabric.devices[:_MOST_IN_ROW]] = True
    for row in sorted(rows, key=lambda item: item.order):
        reached = np.zeros(len(fabric.kind), dtype=np.bool_)
        reached[fabric.receiver[shown[fabric.sender]]] = True
        shown[[vertex for vertex in row.vertices if reached[vertex]][:_MOST_IN_ROW]] = True
    points: Points = {}
    for number, row in enumerate(rows):
        drawn = [vertex for vertex in row.vertices if shown[vertex]]
        for place, vertex in enumerate(drawn):
            points[vertex] = (place + 0.5) * (_WIDTH - 40.0) / len(drawn) + 20.0, _TOP + 40.0 + number * 110.0
    return points, _TOP + len(rows) * 110.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """Vertices that stand side by side. order: when it is reached from the devices."""

    vertices: list[int]
    order: int


def _rows_of(fabric: Fabric) -> list[_Row]:
    """From the top of the picture."""
    kind, number = fabric.kind, np.arange(len(fabric.kind))
    nics = np.flatnonzero(kind == NIC)
    in_box = (kind == SWITCH) & (number < nics[0]) if len(nics) else kind < 0
    above = np.flatnonzero((kind == SWITCH) & ~in_box)
    height = _heights(fabric, NIC if len(nics) else DEVICE)
    levels = sorted({int(value) for value in height[above]}, reverse=True)
    rows = [_Row(vertices=above[height[above] == level].tolist(), order=_SPACE + level) for level in levels]
    rows += [
        _Row(vertices=np.flatnonzero(kind == NIC).tolist(), order=2),
        _Row(vertices=np.flatnonzero(kind == PCIE_SWITCH).tolist(), order=1),
        _Row(vertices=fabric.devices.tolist(), order=0),
        _Row(vertices=np.flatnonzero(in_box).tolist(), order=1),
        _Row(vertices=np.flatnonzero(kind == CPU).tolist(), order=_SPACE + len(KINDS) + 1),
    ]
    return [row for row in rows if row.vertices]


def _heights(fabric: Fabric, ends: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Links between each switch and the nearest end, over switches."""
    height = np.where(fabric.kind == ends, 0, len(fabric.kind))
    way = fabric.kind[fabric.receiver] == SWITCH
    for _ in range(len(KINDS) + _SPACE):
        np.minimum.at(height, fabric.receiver[way], height[fabric.sender[way]] + 1)
    return height


# -------------------------------------------------------------------------------------------------------------- drawing


def _legend(fabric: Fabric, busy_s: Floats) -> Iterator[str]:
    kinds: list[int] = np.unique(fabric.kind).tolist()
    for place, kind in enumerate(kinds):
        x = 8.0 + 110.0 * place
        yield f'<rect x="{x:g}" y="28" width="10" height="10" fill="{_FILLS[kind]}"/>'
        yield f'<text x="{x + 14:g}" y="37">{_WORDS[kind]}</text>'
    most_s = float(busy_s.max(initial=0.0))
    if most_s > 0:
        yield f'<text x="620" y="37">the redder a link the busier, at most {show_short(most_s)}</text>'


def _links(fabric: Fabric, points: Points, busy_s: Floats) -> Iterator[str]:
    """One line a cable bundle, as busy as its busier way."""
    most = float(busy_s.max(initial=0.0))
    for link in range(0, len(fabric.sender), 2):
        ends = int(fabric.sender[link]), int(fabric.receiver[link])
        if ends[0] not in points or ends[1] not in points:
            continue
        (x, y), (other_x, other_y) = points[ends[0]], points[ends[1]]
        share = float(busy_s[link : link + 2].max()) / most if most else 0.0
        name = f"{fabric.name(ends[0])} - {fabric.name(ends[1])}"
        if _wraps(fabric, ends):
            yield from _stubs(fabric, ends, points, share, name)
        else:
            yield _line((x, y), (other_x, other_y), share, name)


def _wraps(fabric: Fabric, ends: tuple[int, int]) -> bool:
    """Whether a cable of a grid leaves its layer, or joins the ends of a dimension: it would cross others."""
    if len(fabric.extents) < 2:  # noqa: PLR2004 - a line has one dimension
        return False
    stride, near = 1, False
    for place, extent in enumerate(reversed(fabric.extents)):
        apart = abs(ends[0] // stride % extent - ends[1] // stride % extent)
        near |= apart == 1 and place < 2  # noqa: PLR2004 - the two dimensions of a layer
        stride *= extent
    return not near


def _stubs(fabric: Fabric, ends: tuple[int, int], points: Points, share: float, name: str) -> Iterator[str]:
    """Two short ends of a cable that is not drawn whole: outwards within a layer, aslant between layers."""
    (x, y), (to_x, to_y) = points[ends[0]], points[ends[1]]
    layer = int(np.prod(fabric.extents[-2:]))
    within = ends[0] // layer == ends[1] // layer
    length = max(1.0, ((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5)
    reach = ((to_x - x) / length * _STUB, (to_y - y) / length * _STUB) if within else (-_STUB / 2, _STUB / 2)
    yield _line((x, y), (x - reach[0], y - reach[1]), share, name)
    yield _line((to_x, to_y), (to_x + reach[0], to_y + reach[1]), share, name)


def _line(one: tuple[float, float], other: tuple[float, float], share: float, name: str) -> str:
    colour = ",".join(str(round(cold + (hot - cold) * share)) for cold, hot in zip(_COLD, _HOT, strict=True))
    return (
        f'<line x1="{one[0]:.1f}" y1="{one[1]:.1f}" x2="{other[0]:.1f}" y2="{other[1]:.1f}" stroke="rgb({colour})" '
        f'stroke-width="{1 + 2 * share:.2f}"><title>{escape(name)}</title></line>'
    )


def _vertices(fabric: Fabric, points: Points) -> Iterator[str]:
    beside = Counter(round(y) for _, y in points.values())
    for vertex, (x, y) in points.items():
        kind, name = int(fabric.kind[vertex]), fabric.name(vertex)
        chips = int(fabric.chips[vertex]) if len(fabric.chips) else 0
        told = f"{name}, {chips} chips" if chips > 1 else name
        size = 5.0 if kind == DEVICE else 8.0
        yield (
            f'<g class="{KINDS[kind]}"><title>{escape(told)}</title><rect x="{x - size:.1f}" y="{y - size:.1f}" '
            f'width="{2 * size:g}" height="{2 * size:g}" rx="2" fill="{_FILLS[kind]}"/>'
            + ("" if beside[round(y)] > _labelled(kind) else _label(told, kind, vertex, x, y + size + 11))
            + "</g>"
        )


def _labelled(kind: int) -> int:
    """Most vertices of a row that have their names, which are longer of switches and CPUs."""
    return _MOST_IN_ROW if kind in {DEVICE, NIC, PCIE_SWITCH} else _MOST_IN_ROW // 3


def _label(told: str, kind: int, vertex: int, x: float, y: float) -> str:
    text = str(vertex) if kind == DEVICE else told.partition(", ")[2] if told.startswith("box ") else told
    if kind in {NIC, PCIE_SWITCH}:
        text = text.rpartition(" ")[2]
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{escape(text)}</text>'
