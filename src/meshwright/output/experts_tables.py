"""The answer of `experts` goes in; its columns, its heat map, and its lines for a terminal, come out."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any, Final

from meshwright.base.units import show_bytes, show_seconds, show_short
from meshwright.output.columns import Column, yes_or_no
from meshwright.output.plan_tables import draw_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from meshwright.base.result import Result

_SHOWN: Final = 12
_WIDE: Final = 64
_SHADES: Final = " ░▒▓█"


def _times(value: float) -> str:
    return f"{value:.2f}x"


def _percent(value: float) -> str:
    return f"{value:.1%}"


def _at_least(value: float) -> str:
    """Three decimals, rounded up: less would not do."""
    return f"{ceil(value * 1000) / 1000:.3f}"


def _one(value: float) -> str:
    return f"{value:.1f}"


LAYER_COLUMNS: Final = (
    Column(name="layer", value=lambda row: row.layer),
    Column(name="experts chosen", value=lambda row: row.distinct_experts),
    Column(name="expected", value=lambda row: row.expected_distinct_experts, show=_one),
    Column(name="weights read", value=lambda row: row.weight_bytes, show=show_bytes, unit="B"),
    Column(name="hottest", value=lambda row: row.hottest_expert),
    Column(name="most rows", value=lambda row: row.max_expert_rows),
    Column(name="busiest group", value=lambda row: row.busiest_group),
    Column(name="group rows", value=lambda row: row.busiest_rows),
    Column(name="over mean", value=lambda row: row.busiest_over_mean, show=_times),
    Column(name="bound", value=lambda row: row.bound_rows),
    Column(name="proven", value=lambda row: row.proven, show=yes_or_no, side="left"),
    Column(name="time", value=lambda row: row.time_s, show=show_seconds, unit="s"),
)
"""A layer a row."""
CAPACITY_COLUMNS: Final = (
    Column(name="layer", value=lambda row: row.layer),
    Column(name="capacity", value=lambda row: row.capacity_rows),
    Column(name="dropped", value=lambda row: row.dropped),
    Column(name="of choices", value=lambda row: row.dropped_fraction, show=_percent),
    Column(name="padding", value=lambda row: row.padding),
    Column(name="of rows run", value=lambda row: row.padding_fraction, show=_percent),
    Column(name="factor that drops none", value=lambda row: row.least_capacity_factor, show=_at_least),
)
EXCHANGE_COLUMNS: Final = (
    Column(name="one row a token", value=lambda row: _WAYS[row.id], side="left"),
    Column(name="rows", value=lambda row: row.dispatch_rows, show=lambda value: f"{value:,}"),
    Column(name="dispatch", value=lambda row: row.dispatch_bytes, show=show_bytes, unit="B"),
    Column(name="combine", value=lambda row: row.combine_bytes, show=show_bytes, unit="B"),
    Column(name="between boxes", value=lambda row: row.between_bytes, show=show_bytes, unit="B"),
    Column(name="dispatch time", value=lambda row: row.dispatch_s, show=show_short, unit="s"),
    Column(name="combine time", value=lambda row: row.combine_s, show=show_short, unit="s"),
    Column(name="busiest link", value=lambda row: row.busiest_link, side="left"),
)
_WAYS: Final = {"none": "to every choice", "rank": "to every rank", "node": "to every box, then on"}
MERGE_COLUMNS: Final = (
    Column(name="sum after", value=lambda row: row.after, side="left"),
    Column(name="over", value=lambda row: row.axis, side="left"),
    Column(name="ranks", value=lambda row: row.ranks),
    Column(name="message", value=lambda row: row.message_bytes, show=show_bytes, unit="B"),
    Column(name="sent a rank", value=lambda row: row.sent_bytes, show=show_bytes, unit="B"),
    Column(name="time", value=lambda row: row.time_s, show=show_short, unit="s"),
)


def draw_experts(console: Console, result: Result) -> None:
    """The heat map, layers as rows, drops, and what is sent."""
    body = result.body
    for line in heat_map(body["layers"]):
        console.print(line)
    console.print()
    shown = body["layers"][:_SHOWN]
    draw_columns(console, LAYER_COLUMNS, shown)
    if shown[0].capacity_rows is not None:
        console.print("\ncapacity:")
        draw_columns(console, CAPACITY_COLUMNS, shown)
    if len(body["layers"]) > len(shown):
        console.print(f"{len(body['layers']) - len(shown)} more layers: --format json lists them all")
    for line in totals(body):
        console.print(line)
    for title, columns, name in (
        ("exchange", EXCHANGE_COLUMNS, "exchange"),
        ("sums of a layer", MERGE_COLUMNS, "merges"),
    ):
        if body[name]:
            console.print(f"\n{title}:")
            draw_columns(console, columns, body[name])


def totals(body: Mapping[str, Any]) -> list[str]:
    """Where the time goes, and what a placement gains."""
    layers = body["layers"]
    parts = {"dispatch": "dispatch_s", "inside groups": "etp_s", "experts": "experts_s", "combine": "combine_s"}
    spent = ", ".join(f"{name} {show_seconds(sum(getattr(row, key) for row in layers))}" for name, key in parts.items())
    busiest, plain, turn, bound = (
        sum(getattr(row, key) for row in layers)
        for key in ("busiest_rows", "contiguous_rows", "round_robin_rows", "bound_rows")
    )
    placed = f"{plain:,} in order, {turn:,} round robin, {bound:,} at least"
    record = f"{show_bytes(body['record_uint16_bytes'])} as uint16, {show_bytes(body['record_int32_bytes'])} as int32"
    return [
        f"\ntime of all layers: {spent}",
        f"rows of the busiest group, all layers: {busiest:,} as placed; {placed}",
        f"recording the choices: {record}",
    ]


def heat_map(layers: Sequence[Any]) -> list[str]:
    """A line a layer, at most so many, evenly spread; a column the busiest of neighbouring experts."""
    count = len(layers[0].expert_rows)
    step = -(-count // _WIDE)
    places = sorted({round(item * (len(layers) - 1) / max(1, _SHOWN - 1)) for item in range(_SHOWN)})
    drawn = [layers[place] for place in places if place < len(layers)]
    most = max(1, *(max(row.expert_rows) for row in drawn))
    width = f", each column the busiest of {step}" if step > 1 else ""
    lines = [f"\nrows by expert, from 0 to {count - 1}{width}; █ is {most:,}"]
    for row in drawn:
        cells = [max(row.expert_rows[start : start + step]) for start in range(0, count, step)]
        bar = "".join(_SHADES[-(-cell * (len(_SHADES) - 1) // most)] for cell in cells)
        lines.append(f"  layer {row.layer:>4} |{bar}|")
    return lines
