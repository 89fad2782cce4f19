"""The answer of `experts` goes in; an SVG picture comes out: a heat map, a row a layer, a column an expert.

Beside each row stand the rows of its groups. The picture is text of its own: no script, no font and no file from
anywhere.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meshwright.base.result import Result

_WIDTH, _LEFT, _TOP, _ROW, _GAP = 1200.0, 60.0, 64.0, 9.0, 24.0
_EXPERTS, _GROUPS = 860.0, 220.0
_FONT: Final = 'role="img" font-family="sans-serif" font-size="10"'
_COLD, _HOT = (244, 246, 248), (178, 24, 43)
_MOST_CELLS: Final = 60_000


def as_svg(result: Result) -> str:
    """Every layer; of very many the first, and the picture says how many are left out."""
    layers = result.body["layers"]
    across = len(layers[0].expert_rows) + len(layers[0].group_rows)
    drawn = layers[: max(1, _MOST_CELLS // across)]
    told = result.verdict.text
    told += f" ({len(layers) - len(drawn)} of {len(layers)} layers are not drawn)" if len(drawn) < len(layers) else ""
    most = max(1, *(max(row.expert_rows) for row in drawn))
    height = _TOP + _ROW * len(drawn) + 16.0
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {height:g}" {_FONT}>',
        f"<title>{escape(told)}</title>",
        f'<rect width="{_WIDTH:g}" height="{height:g}" fill="#ffffff"/>',
        f'<text x="8" y="18" font-size="12">{escape(told)}</text>',
        *_legend(most, result.body),
    ]
    for place, row in enumerate(drawn):
        y = _TOP + _ROW * place
        if place % 8 == 0:
            lines.append(f'<text x="{_LEFT - 6:g}" y="{y + 8:g}" text-anchor="end">{row.layer}</text>')
        lines += _cells(row, "expert", row.expert_rows, most, (_LEFT, _EXPERTS, y))
        lines += _cells(row, "group", row.group_rows, max(1, *row.group_rows), (_LEFT + _EXPERTS + _GAP, _GROUPS, y))
    return "\n".join([*lines, "</svg>"]) + "\n"


def _legend(most: int, body: Any) -> Iterator[str]:
    yield f'<text x="{_LEFT:g}" y="40">experts 0 to {body["expert_count"] - 1}, rows chosen; layers downwards</text>'
    right = _LEFT + _EXPERTS + _GAP
    yield (
        f'<text x="{right:g}" y="40">groups 0 to {body["groups"] - 1}, rows chosen; '
        "red is the busiest of its layer</text>"
    )
    for step in range(5):
        x, value = _LEFT + step * 90.0, most * step / 4
        yield f'<rect x="{x:g}" y="46" width="14" height="10" fill="{_colour(value / most)}" stroke="#999999"/>'
        yield f'<text x="{x + 18:g}" y="55">{value:,.0f}</text>'


def _cells(row: Any, kind: str, rows: Sequence[int], most: int, place: tuple[float, float, float]) -> Iterator[str]:
    left, width, y = place
    each = width / len(rows)
    for number, count in enumerate(rows):
        yield (
            f'<rect class="{kind}" x="{left + number * each:.2f}" y="{y:g}" width="{each:.2f}" height="{_ROW:g}" '
            f'fill="{_colour(count / most)}"><title>layer {row.layer}, {kind} {number}: {count:,} rows</title></rect>'
        )


def _colour(share: float) -> str:
    return "#" + "".join(f"{round(cold + (hot - cold) * share):02x}" for cold, hot in zip(_COLD, _HOT, strict=True))
