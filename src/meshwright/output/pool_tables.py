"""The answer of `pool` goes in; its columns, and its lines for a terminal, come out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from meshwright.base.units import show_bytes, show_rate, show_seconds
from meshwright.output.columns import Column, yes_or_no
from meshwright.output.plan_tables import draw_columns, draw_flips

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from meshwright.base.result import Result

_WIDE: Final = 40
_ROWS: Final = 16
_OWN, _LENT, _FREE = "█", "▒", "·"

REGION_COLUMNS: Final = (
    Column(name="region", value=lambda row: row.id, side="left"),
    Column(name="owner", value=lambda row: row.owner),
    Column(name="host", value=lambda row: row.host),
    Column(name="size", value=lambda row: row.size_bytes, show=show_bytes, unit="B"),
    Column(name="kind", value=lambda row: row.kind, side="left"),
)
"""A part of a job's data a row."""
NODE_COLUMNS: Final = (
    Column(name="node", value=lambda row: row.node),
    Column(name="capacity", value=lambda row: row.capacity_bytes, show=show_bytes, unit="B"),
    Column(name="demand", value=lambda row: row.demand_bytes, show=show_bytes, unit="B"),
    Column(name="own", value=lambda row: row.own_bytes, show=show_bytes, unit="B"),
    Column(name="lent", value=lambda row: row.lent_bytes, show=show_bytes, unit="B"),
    Column(name="used", value=lambda row: row.used_bytes, show=show_bytes, unit="B"),
    Column(name="borrowed", value=lambda row: row.borrowed_bytes, show=show_bytes, unit="B"),
    Column(name="free before", value=lambda row: row.free_before_bytes, show=show_bytes, unit="B"),
    Column(name="free after", value=lambda row: row.free_bytes, show=show_bytes, unit="B"),
)
PERIOD_COLUMNS: Final = (
    Column(name="each", value=lambda row: row.period_s, show=show_seconds, unit="s"),
    Column(name="average", value=lambda row: row.average_bytes_per_s, show=show_rate, unit="B/s"),
    Column(name="idle", value=lambda row: row.idle_s, show=show_seconds, unit="s"),
    Column(name="keeps up", value=lambda row: row.keeps_up, show=yes_or_no, side="left"),
    Column(name="last read late by", value=lambda row: row.behind_s, show=show_seconds, unit="s"),
)
TRACE_COLUMNS: Final = (
    Column(name="number", value=lambda row: row.number),
    Column(name="operation", value=lambda row: row.do, side="left"),
    Column(name="node", value=lambda row: row.node),
    Column(name="region", value=lambda row: row.region, side="left"),
    Column(name="then", value=lambda row: row.state.replace("_", " "), side="left"),
    Column(name="refused", value=lambda row: row.refused, side="left"),
    Column(name="why", value=lambda row: row.reason, side="left"),
)


def draw_pool(console: Console, result: Result) -> None:
    """Nodes as bars and rows, the loans, reads over the path, the trace, and what changes the answer."""
    body = result.body
    for line in _bars(body["nodes"][:_ROWS]):
        console.print(line)
    console.print()
    draw_columns(console, NODE_COLUMNS, body["nodes"][:_ROWS])
    loans = [row for row in body["regions"] if row.kind == "borrowed"]
    if loans:
        console.print(f"\nloans ({body['search']} search for the fewest):")
        draw_columns(console, REGION_COLUMNS, loans[:_ROWS])
    if max(len(body["nodes"]), len(loans)) > _ROWS:
        console.print(f"{len(body['nodes'])} nodes and {len(loans)} loans: --format json lists them all")
    for line in (*window_lines(body), *read_lines(body)):
        console.print(line)
    if body["reads"] is not None and body["reads"].periods:
        draw_columns(console, PERIOD_COLUMNS, body["reads"].periods)
    if body["trace"]:
        console.print("\noperations:")
        draw_columns(console, TRACE_COLUMNS, body["trace"])
    draw_flips(console, result)


def window_lines(body: Mapping[str, Any]) -> list[str]:
    """What is under way, what that carries, and how much would fill the path."""
    found = body["window"]
    if found is None:
        return []
    told = f"\npath {show_rate(found.path_bytes_per_s)}, round trip {show_seconds(found.round_trip_s)}: "
    if found.requests is None:
        return [f"{told}{found.least_requests:,} requests of {found.item_bytes} B under way fill it"]
    under = f"{found.requests:,} requests of {found.item_bytes} B under way, {show_bytes(found.in_flight_bytes)}"
    return [f"{told}{under}, carry {show_rate(found.window_bytes_per_s)}; {found.least_requests:,} fill it"]


def read_lines(body: Mapping[str, Any]) -> list[str]:
    """One read, and many of them over the path or after one fetch."""
    found = body["reads"]
    if found is None:
        return []
    lines = [f"one read of {show_bytes(found.data_bytes)}: {show_seconds(found.read_s)}"]
    even = "never pays" if found.even_reads is None else f"pays from {found.even_reads} reads on"
    lines.append(
        f"{found.reads:,} reads: {show_seconds(found.remote_s)} over the path, {show_seconds(found.fetched_s)} after "
        f"one fetch, which takes {show_bytes(found.local_bytes)} of its own memory and {even}"
    )
    return lines


def _bars(rows: Any) -> list[str]:
    """A node a line: what its own job holds, what it lends, what is free; the longest is the largest node."""
    most = max(row.capacity_bytes for row in rows)
    lines = [f"\nmemory by node; {_OWN} its own job, {_LENT} lent, {_FREE} free"]
    for row in rows:
        own = round(_WIDE * row.own_bytes / most)
        used = round(_WIDE * row.used_bytes / most)
        bar = _OWN * own + _LENT * (used - own) + _FREE * (round(_WIDE * row.capacity_bytes / most) - used)
        lines.append(f"  {row.node:>4} {bar:<{_WIDE}} {show_bytes(row.used_bytes):>10}")
    return lines
