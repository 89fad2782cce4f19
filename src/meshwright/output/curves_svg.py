"""Curves of seconds go in, over bytes or ranks; a picture (SVG) on logarithmic axes comes out, with marks.

Text of its own, as `output.svg`: no script, no font and no file from anywhere. A curve has its name as a title, which
browsers show, and as a class.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Final, Literal, TypeAlias

from meshwright.base.units import show_short

_WIDTH: Final = 960.0
_HEIGHT: Final = 560.0
_LEFT: Final = 84.0
_RIGHT: Final = 190.0
_TOP: Final = 44.0
_BOTTOM: Final = 52.0
_FONT: Final = 'role="img" font-family="sans-serif" font-size="11"'
_COLOURS: Final = ("#4c78a8", "#f58518", "#e45756", "#54a24b", "#b279a2", "#72b7b2", "#9d755d", "#79706e")
_DASHES: Final = ("", "6 3", "2 3")
_SIZES: Final = (("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0))
_LINE: Final = 16.0
_MANY: Final = 12
_LABELS: Final = {"bytes": "bytes of the message", "ranks": "ranks"}
Across: TypeAlias = Literal["bytes", "ranks"]
Curve: TypeAlias = Sequence[tuple[int, float]]
"""Points from left to right: what stands across, and seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axes:
    """Ends of both axes, as logarithms: of 2 across, of 10 up."""

    across: Across
    left: float
    right: float
    low: float
    high: float

    def right_of(self, size: float) -> float:
        """Where a size stands."""
        return _LEFT + (math.log2(size) - self.left) / (self.right - self.left) * (_WIDTH - _LEFT - _RIGHT)

    def up(self, seconds: float) -> float:
        """Where a time stands."""
        share = (math.log10(seconds) - self.low) / (self.high - self.low)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A point of note. curve: the curve on which it stands, "" for a line over the whole height.   told: its title."""

    at: int
    told: str
    curve: str = ""


def as_curves(title: str, across: Across, curves: Mapping[str, Curve], marks: Sequence[Mark] = ()) -> str:
    """Every curve by its name, and marks with what they say."""
    axes = _axes(across, curves)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" {_FONT}>',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH:g}" height="{_HEIGHT:g}" fill="#ffffff"/>',
        f'<text x="8" y="18" font-size="13">{escape(title)}</text>',
        *_grid(axes),
        *_drawn(axes, curves),
        *(line for mark in marks for line in _mark(axes, curves, mark)),
    ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _axes(across: Across, curves: Mapping[str, Curve]) -> _Axes:
    points = [point for curve in curves.values() for point in curve]
    times = [math.log10(seconds) for _, seconds in points]
    widths = [math.log2(size) for size, _ in points]
    low, high = math.floor(min(times)), math.ceil(max(times))
    return _Axes(across=across, left=min(widths), right=max(widths), low=low, high=max(high, low + 1))


def _grid(axes: _Axes) -> Iterator[str]:
    """A line every doubling (of many, every fourth) and every decade, with what it stands for."""
    first, last = math.ceil(axes.left), math.floor(axes.right)
    for power in range(first, last + 1, 4 if last - first > _MANY else 1):
        x = axes.right_of(2.0**power)
        yield f'<line x1="{x:.2f}" y1="{_TOP:g}" x2="{x:.2f}" y2="{_HEIGHT - _BOTTOM:g}" stroke="#e4e4e4"/>'
        told = _size(axes.across, 2**power)
        yield f'<text x="{x:.2f}" y="{_HEIGHT - _BOTTOM + 16:g}" text-anchor="middle">{told}</text>'
    for power in range(round(axes.low), round(axes.high) + 1):
        y = axes.up(10.0**power)
        yield f'<line x1="{_LEFT:g}" y1="{y:.2f}" x2="{_WIDTH - _RIGHT:g}" y2="{y:.2f}" stroke="#e4e4e4"/>'
        yield f'<text x="{_LEFT - 6:g}" y="{y + 4:.2f}" text-anchor="end">{show_short(10.0**power)}</text>'
    yield f'<text x="{_LEFT:g}" y="{_HEIGHT - 12:g}">{_LABELS[axes.across]}</text>'


def _drawn(axes: _Axes, curves: Mapping[str, Curve]) -> Iterator[str]:
    for place, (name, curve) in enumerate(curves.items()):
        colour = _COLOURS[place % len(_COLOURS)]
        dash = _DASHES[place // len(_COLOURS) % len(_DASHES)]
        points = " ".join(f"{axes.right_of(size):.2f},{axes.up(seconds):.2f}" for size, seconds in curve)
        style = f'fill="none" stroke="{colour}" stroke-width="1.6" stroke-dasharray="{dash}"'
        yield f'<g class="{escape(name)}"><title>{escape(name)}</title><polyline points="{points}" {style}/></g>'
        x, y = _WIDTH - _RIGHT + 16, _TOP + _LINE * place
        yield f'<line x1="{x:g}" y1="{y:g}" x2="{x + 22:g}" y2="{y:g}" stroke="{colour}" stroke-dasharray="{dash}"/>'
        yield f'<text x="{x + 28:g}" y="{y + 4:g}">{escape(name.replace("_", " "))}</text>'


def _mark(axes: _Axes, curves: Mapping[str, Curve], mark: Mark) -> Iterator[str]:
    """A ring on its curve, and where it stands; or a line."""
    if not axes.left <= math.log2(mark.at) <= axes.right:
        return
    x = axes.right_of(mark.at)
    yield f'<g class="{"mark" if mark.curve else "line"}"><title>{escape(mark.told)}</title>'
    if mark.curve:
        y = axes.up(_time(curves[mark.curve], mark.at))
        yield f'<circle cx="{x:.2f}" cy="{y:.2f}" r="4" fill="none" stroke="#222222"/>'
        yield f'<text x="{x:.2f}" y="{y - 8:.2f}" text-anchor="middle">{_size(axes.across, mark.at)}</text></g>'
    else:
        yield f'<line x1="{x:.2f}" y1="{_TOP:g}" x2="{x:.2f}" y2="{_HEIGHT - _BOTTOM:g}" stroke="#888888"/></g>'


def _time(curve: Curve, size: int) -> float:
    """On the drawn line: between two points along the logarithms."""
    for (left, low), (right, high) in pairwise(curve):
        if left <= size <= right:
            return float(low * (high / low) ** (math.log(size / left) / math.log(right / left)))
    return curve[-1][1]


def _size(across: Across, size: int) -> str:
    if across == "ranks":
        return f"{size:,}"
    unit, power = next(item for item in _SIZES if size >= 1 << item[1])
    return f"{size / (1 << power):.4g} {unit}"
