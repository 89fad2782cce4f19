"""The answer of `pool` goes in; an SVG picture comes out: a node a row, and whose data lies in its memory.

A part has the colour of the job that owns it, so that what lies elsewhere is seen. The picture is text of its own: no
script, no font and no file from anywhere.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, Final

from meshwright.base.units import show_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshwright.base.result import Result

_WIDTH, _LEFT, _ROW, _BOX, _TOP = 900.0, 90.0, 34.0, 24.0, 40.0
_LETTER: Final = 6.2
_FONT: Final = 'role="img" font-family="sans-serif" font-size="11"'
_COLOURS: Final = ("#4c78a8", "#f58518", "#e45756", "#54a24b", "#b279a2", "#72b7b2", "#eeca3b", "#9d755d", "#79706e")


def as_svg(result: Result) -> str:
    """Every node, as long as its memory."""
    body = result.body
    nodes = body["nodes"]
    scale = (_WIDTH - _LEFT - 20.0) / max(row.capacity_bytes for row in nodes)
    told = escape(result.verdict.text)
    height = _TOP + _ROW * len(nodes) + 16.0
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {height:g}" {_FONT}>',
        f"<title>{told}</title>",
        f'<rect width="{_WIDTH:g}" height="{height:g}" fill="#ffffff"/>',
        f'<text x="8" y="18" font-size="13">{told}</text>',
    ]
    for row in nodes:
        lines += _node(row, [part for part in body["regions"] if part.host == row.node], scale)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _node(row: Any, parts: list[Any], scale: float) -> Iterator[str]:
    y = _TOP + _ROW * row.node
    yield f'<text x="8" y="{y + 16:g}">node {row.node}</text>'
    yield (
        f'<rect class="node" x="{_LEFT:g}" y="{y:g}" width="{row.capacity_bytes * scale:.3f}" height="{_BOX:g}" '
        'fill="#eeeeee" stroke="#444444"/>'
    )
    x = _LEFT
    for part in parts:
        width = part.size_bytes * scale
        name = f"job {part.owner}: {show_bytes(part.size_bytes)}"
        title = f"{part.id}, {part.kind}: {show_bytes(part.size_bytes)} of job {part.owner} in node {part.host}"
        yield (
            f'<g class="{part.kind}"><title>{escape(title)}</title><rect x="{x:.3f}" y="{y:g}" width="{width:.3f}" '
            f'height="{_BOX:g}" fill="{_COLOURS[part.owner % len(_COLOURS)]}" stroke="#ffffff"/>'
            + (
                f'<text x="{x + 4:.3f}" y="{y + 16:g}" fill="#ffffff">{name}</text>'
                if width > _LETTER * len(name)
                else ""
            )
            + "</g>"
        )
        x += width
