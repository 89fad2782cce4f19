"""A timeline goes in; an SVG picture comes out: one row a resource, one box a run, time from left to right.

The picture is text of its own: no script, no font and no file from anywhere. A box has its name, start and end as a
title, which browsers show, and its kind as a class.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from meshwright.base.units import show_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from meshwright.sim.timeline import Timeline

Rows: TypeAlias = "NDArray[np.int64]"
_WIDTH: Final = 1200.0
_ROW: Final = 22.0
_FONT: Final = 'role="img" font-family="sans-serif" font-size="11"'
_BOX: Final = 16.0
_LEFT: Final = 130.0
_TOP: Final = 46.0
_TICKS: Final = 8
_NAME_FROM: Final = 22.0
MOST_BOXES: Final = 50_000
"""Runs that a picture holds at most; of more the longest are drawn, and the picture says so."""
_COLOURS: Final = ("#4c78a8", "#f58518", "#e45756", "#54a24b", "#b279a2", "#72b7b2", "#eeca3b", "#9d755d", "#79706e")


def as_svg(timeline: Timeline, title: str) -> str:
    """The whole timeline; resources that run nothing have no row."""
    drawn = _rows(timeline)
    resources: Rows = np.unique(timeline.resource[drawn])
    height = _TOP + _ROW * len(resources) + 30.0
    left_out = int(np.count_nonzero(_shown(timeline))) - len(drawn)
    told = f"{title}, {show_seconds(timeline.makespan_s)}"
    told += f" ({left_out} shorter runs are not drawn)" if left_out else ""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {height:g}" {_FONT}>',
        f"<title>{escape(told)}</title>",
        f'<rect width="{_WIDTH:g}" height="{height:g}" fill="#ffffff"/>',
        f'<text x="8" y="16" font-size="13">{escape(told)}</text>',
        *_legend(timeline, drawn),
        *_axis(timeline, height),
    ]
    numbers: list[int] = resources.tolist()
    for place, resource in enumerate(numbers):
        name = timeline.resources[resource] if resource >= 0 else "at once"
        lines.append(f'<text x="8" y="{_TOP + _ROW * place + 12:g}">{escape(name)}</text>')
    lines += _boxes(timeline, drawn, np.searchsorted(resources, timeline.resource[drawn]))
    return "\n".join([*lines, "</svg>"]) + "\n"


def _shown(timeline: Timeline) -> NDArray[np.bool_]:
    """Runs that take time; those of no length have no box."""
    return timeline.end_s > timeline.start_s


def _rows(timeline: Timeline) -> Rows:
    rows = np.flatnonzero(_shown(timeline))
    if len(rows) > MOST_BOXES:
        length = (timeline.end_s - timeline.start_s)[rows]
        rows = np.sort(rows[np.argsort(-length, kind="stable")[:MOST_BOXES]])
    return rows


def _scale(timeline: Timeline) -> float:
    return (_WIDTH - _LEFT - 20.0) / timeline.makespan_s if timeline.makespan_s else 0.0


def _legend(timeline: Timeline, drawn: Rows) -> Iterator[str]:
    kinds: list[int] = np.unique(timeline.kind[drawn]).tolist()
    for place, kind in enumerate(kinds):
        x = _LEFT + 130.0 * place
        yield f'<rect x="{x:g}" y="24" width="10" height="10" fill="{_colour(kind)}"/>'
        yield f'<text x="{x + 14:g}" y="33">{escape(timeline.kinds[kind].replace("_", " "))}</text>'


def _axis(timeline: Timeline, height: float) -> Iterator[str]:
    for tick in range(_TICKS + 1):
        x = _LEFT + (_WIDTH - _LEFT - 20.0) * tick / _TICKS
        yield f'<line x1="{x:g}" y1="{_TOP - 4:g}" x2="{x:g}" y2="{height - 22:g}" stroke="#dddddd"/>'
        told = show_seconds(timeline.makespan_s * tick / _TICKS)
        yield f'<text x="{x:g}" y="{height - 8:g}" text-anchor="middle">{told}</text>'


def _boxes(
    timeline: Timeline,
    drawn: Rows,
    places: Rows,
) -> Iterator[str]:
    scale = _scale(timeline)
    for row, place in zip(drawn.tolist(), places.tolist(), strict=True):
        start, end = float(timeline.start_s[row]), float(timeline.end_s[row])
        x, width, y = _LEFT + start * scale, max((end - start) * scale, 0.1), _TOP + _ROW * place
        kind = int(timeline.kind[row])
        name = timeline.label(int(timeline.task[row]))
        yield (
            f'<g class="{escape(timeline.kinds[kind])}"><title>{escape(name)}: {show_seconds(start)} to '
            f'{show_seconds(end)}</title><rect x="{x:.3f}" y="{y:g}" width="{width:.3f}" height="{_BOX:g}" '
            f'fill="{_colour(kind)}" stroke="#ffffff" stroke-width="0.4"/>'
            + (
                f'<text x="{x + 3:.3f}" y="{y + 12:g}" fill="#ffffff">{escape(name)}</text>'
                if _fits(name, width)
                else ""
            )
            + "</g>"
        )


def _fits(name: str, width: float) -> bool:
    return width >= _NAME_FROM and 6.2 * len(name) + 6 <= width


def _colour(kind: int) -> str:
    return _COLOURS[kind % len(_COLOURS)]
