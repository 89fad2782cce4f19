"""The answer of `rack` goes in; an SVG picture comes out: devices, power, racks and switches as staircases.

Each panel has the boxes from left to right; the budget is a red line, and steps beyond it are pale. The picture is text
of its own: no script, no font and no file from anywhere.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, Final

from meshwright.base.units import show_watts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from meshwright.base.result import Result

_WIDTH, _PANEL, _LEFT, _TOP, _GAP = 900.0, 120.0, 110.0, 40.0, 44.0
_LINE: Final = 16.0
_COLOURS: Final = ("#4c78a8", "#f58518", "#54a24b", "#b279a2")
_FONT: Final = 'role="img" font-family="sans-serif" font-size="11"'


def as_svg(result: Result) -> str:
    """Four panels over the boxes of `steps`: devices, power against the budget, racks, and switches."""
    body, budget_w = result.body, result.inputs["options"].power
    rows = body["steps"]
    limit = budget_w / body["node_power_per_device_w"]
    panels: tuple[tuple[str, Callable[[Any], float], float | None, Callable[[float], str]], ...] = (
        ("devices", lambda row: row.devices, limit, _whole),
        ("power", lambda row: row.power_w, budget_w, show_watts),
        ("racks", lambda row: row.racks or 0, None, _whole),
        ("switches", lambda row: row.switches, None, _whole),
    )
    told = escape(result.verdict.text)
    height = _TOP + len(panels) * (_PANEL + _GAP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {height:g}" {_FONT}>',
        f"<title>{told}</title>",
        f'<rect width="{_WIDTH:g}" height="{height:g}" fill="#ffffff"/>',
        f'<text x="8" y="18" font-size="13">{told}</text>',
    ]
    for place, (name, value, line, show) in enumerate(panels):
        top = _TOP + place * (_PANEL + _GAP)
        lines += _panel(rows, name, value, top, _COLOURS[place])
        lines += _scale(max(value(row) for row in rows), line, show, top)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _panel(rows: Any, name: str, value: Callable[[Any], float], top: float, colour: str) -> Iterator[str]:
    """One bar a step, as high as its value, and as wide as the boxes since the last."""
    most = max(value(row) for row in rows) or 1
    scale = (_WIDTH - _LEFT - 20.0) / rows[-1].boxes
    yield f'<text x="8" y="{top + 12:g}" font-size="12">{name}</text>'
    before = 0
    for row in rows:
        high = _PANEL * value(row) / most
        x, width = _LEFT + before * scale, max((row.boxes - before) * scale - 0.5, 0.1)
        title = f"{row.boxes} boxes, {row.devices} devices: {show_watts(row.power_w)}, {row.racks} racks, "
        title += f"{row.switches} switches"
        yield (
            f'<g class="{name}"><title>{escape(title)}</title><rect x="{x:.2f}" y="{top + _PANEL - high:.2f}" '
            f'width="{width:.2f}" height="{high:.2f}" fill="{colour}" opacity="{1 if row.fits else 0.35}"/></g>'
        )
        before = row.boxes
    base = top + _PANEL
    yield f'<line x1="{_LEFT:g}" y1="{base:g}" x2="{_WIDTH - 20:g}" y2="{base:g}" stroke="#444444"/>'
    for row in (rows[0], rows[-1]):
        x = _LEFT + row.boxes * scale
        yield f'<text x="{x:.2f}" y="{base + 14:g}" text-anchor="end">{row.boxes} boxes</text>'


def _scale(most: float, limit: float | None, show: Callable[[float], str], top: float) -> Iterator[str]:
    yield f'<text x="{_LEFT - 6:g}" y="{top + 8:g}" text-anchor="end">{show(most)}</text>'
    if limit is not None and most and limit <= most:
        y = top + _PANEL - _PANEL * limit / most
        yield f'<line class="budget" x1="{_LEFT:g}" y1="{y:.2f}" x2="{_WIDTH - 20:g}" y2="{y:.2f}" stroke="#e45756"/>'
        close = y - top < _LINE  # to the label of the largest step
        x, below, anchor = (_LEFT + 6, -4, "start") if close else (_LEFT - 6, 4, "end")
        yield f'<text x="{x:g}" y="{y + below:.2f}" text-anchor="{anchor}" fill="#e45756">{show(limit)}</text>'
