"""Curves of seconds over bytes go in; an SVG picture on logarithmic axes comes out, with the points where they cross.

Text of its own, as `output.svg`: no script, no font and no file from anywhere. A curve has its name as a title, which
browsers show, and as a class.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any, Final

from meshwright.base.units import show_seconds

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axes:
    """Ends of both axes, as logarithms: of 2 across, of 10 up."""

    left: float
    right: float
    low: float
    high: float

    def across(self, size: float) -> float:
        """Where a size stands."""
        return _LEFT + (math.log2(size) - self.left) / (self.right - self.left) * (_WIDTH - _LEFT - _RIGHT)

    def up(self, seconds: float) -> float:
        """Where a time stands."""
        share = (math.log10(seconds) - self.low) / (self.high - self.low)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def as_curves(title: str, curves: Mapping[str, Sequence[Any]], crossings: Sequence[Any], mark_bytes: int) -> str:
    """curves: by name, points with `size_bytes` and `time_s`.   crossings: with `size_bytes`, `below` and `above`.

    mark_bytes: the size that was asked about.
    """
    axes = _axes(curves)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" {_FONT}>',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH:g}" height="{_HEIGHT:g}" fill="#ffffff"/>',
        f'<text x="8" y="18" font-size="13">{escape(title)}</text>',
        *_grid(axes),
        *_mark(axes, mark_bytes),
        *_drawn(axes, curves),
        *_crossings(axes, curves, crossings),
    ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _axes(curves: Mapping[str, Sequence[Any]]) -> _Axes:
    points = [point for curve in curves.values() for point in curve]
    times = [math.log10(point.time_s) for point in points]
    widths = [math.log2(point.size_bytes) for point in points]
    low, high = math.floor(min(times)), math.ceil(max(times))
    return _Axes(left=min(widths), right=max(widths), low=low, high=max(high, low + 1))


def _grid(axes: _Axes) -> Iterator[str]:
    """A line every four doublings and every decade, with what it stands for."""
    for power in range(math.ceil(axes.left), math.floor(axes.right) + 1, 4):
        x = axes.across(2.0**power)
        yield f'<line x1="{x:.2f}" y1="{_TOP:g}" x2="{x:.2f}" y2="{_HEIGHT - _BOTTOM:g}" stroke="#e4e4e4"/>'
        yield f'<text x="{x:.2f}" y="{_HEIGHT - _BOTTOM + 16:g}" text-anchor="middle">{_size(2**power)}</text>'
    for power in range(round(axes.low), round(axes.high) + 1):
        y = axes.up(10.0**power)
        yield f'<line x1="{_LEFT:g}" y1="{y:.2f}" x2="{_WIDTH - _RIGHT:g}" y2="{y:.2f}" stroke="#e4e4e4"/>'
        yield f'<text x="{_LEFT - 6:g}" y="{y + 4:.2f}" text-anchor="end">{show_seconds(10.0**power)}</text>'
    yield f'<text x="{_LEFT:g}" y="{_HEIGHT - 12:g}">bytes of the message</text>'


def _mark(axes: _Axes, size: int) -> Iterator[str]:
    if axes.left <= math.log2(size) <= axes.right:
        x = axes.across(size)
        yield f'<g class="asked"><title>{size:,} B</title>'
        yield f'<line x1="{x:.2f}" y1="{_TOP:g}" x2="{x:.2f}" y2="{_HEIGHT - _BOTTOM:g}" stroke="#888888"/></g>'


def _drawn(axes: _Axes, curves: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    for place, (name, curve) in enumerate(curves.items()):
        colour = _COLOURS[place % len(_COLOURS)]
        dash = _DASHES[place // len(_COLOURS) % len(_DASHES)]
        points = " ".join(f"{axes.across(point.size_bytes):.2f},{axes.up(point.time_s):.2f}" for point in curve)
        style = f'fill="none" stroke="{colour}" stroke-width="1.6" stroke-dasharray="{dash}"'
        yield f'<g class="{escape(name)}"><title>{escape(name)}</title><polyline points="{points}" {style}/></g>'
        x, y = _WIDTH - _RIGHT + 16, _TOP + _LINE * place
        yield f'<line x1="{x:g}" y1="{y:g}" x2="{x + 22:g}" y2="{y:g}" stroke="{colour}" stroke-dasharray="{dash}"/>'
        yield f'<text x="{x + 28:g}" y="{y + 4:g}">{escape(name.replace("_", " "))}</text>'


def _crossings(axes: _Axes, curves: Mapping[str, Sequence[Any]], crossings: Sequence[Any]) -> Iterator[str]:
    """A ring on the curve that becomes the fastest, and the size."""
    for item in crossings:
        x, y = axes.across(item.size_bytes), axes.up(_time(curves[item.above], item.size_bytes))
        told = f"{item.size_bytes:,} B: {item.below} to {item.above}"
        yield f'<g class="crossover"><title>{escape(told)}</title>'
        yield f'<circle cx="{x:.2f}" cy="{y:.2f}" r="4" fill="none" stroke="#222222"/>'
        yield f'<text x="{x:.2f}" y="{y - 8:.2f}" text-anchor="middle">{_size(item.size_bytes)}</text></g>'


def _time(curve: Sequence[Any], size: int) -> float:
    """On the drawn line: between two points along the logarithms."""
    for left, right in pairwise(curve):
        if left.size_bytes <= size <= right.size_bytes:
            share = math.log(size / left.size_bytes) / math.log(right.size_bytes / left.size_bytes)
            return float(left.time_s * (right.time_s / left.time_s) ** share)
    return float(curve[-1].time_s)


def _size(size: int) -> str:
    for unit, power in _SIZES:
        if size >= 1 << power:
            return f"{size / (1 << power):.4g} {unit}"
    return f"{size} B"
