"""The time of a collective goes in; its algorithms, the links of its groups and the crossovers, as tables, come out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from meshwright.base.units import show_bytes, show_rate, show_short
from meshwright.output.columns import Column
from meshwright.output.plan_tables import draw_columns

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from meshwright.base.result import Candidate, Result


def _measure(name: str) -> Callable[[Any], Any]:
    def of(item: Candidate) -> Any:
        return item.measures[name]

    return of


_OF_AN_AXIS: Final = 3
ALGORITHM_COLUMNS: Final = (
    Column(name="algorithm", value=lambda item: item.id, side="left"),
    Column(name="time", value=_measure("time_s"), show=show_short, unit="s"),
    Column(name="rounds", value=_measure("rounds")),
    Column(name="sent by a rank", value=_measure("bytes_per_rank"), show=show_bytes, unit="B"),
    Column(name="algbw", value=_measure("algbw_bytes_per_s"), show=show_rate, unit="B/s"),
    Column(name="busbw", value=_measure("busbw_bytes_per_s"), show=show_rate, unit="B/s"),
    Column(name="busiest link", value=_measure("busiest_link"), side="left"),
    Column(name="busy", value=_measure("busiest_link_busy"), show=lambda share: f"{share:.0%}"),
    Column(
        name="why not",
        value=lambda item: None if item.excluded is None else f"{item.excluded.code}: {item.excluded.reason}",
        side="left",
    ),
)
PORT_COLUMNS: Final = (
    Column(name="axis", value=lambda row: row[0], side="left"),
    Column(name="links", value=lambda row: row[1].kind, side="left"),
    Column(name="of them", value=lambda row: row[1].links),
    Column(name="bytes", value=lambda row: row[1].total_bytes, show=show_bytes, unit="B"),
    Column(name="the busiest", value=lambda row: row[1].busiest, side="left"),
    Column(name="carries", value=lambda row: row[1].busiest_bytes, show=show_bytes, unit="B"),
    Column(name="used by ranks", value=lambda row: len(row[1].ranks)),
)
CROSSING_COLUMNS: Final = (
    Column(name="axis", value=lambda row: row[0], side="left"),
    Column(name="from", value=lambda row: row[1].sender, side="left"),
    Column(name="to", value=lambda row: row[1].receiver, side="left"),
    Column(name="bytes", value=lambda row: row[1].total_bytes, show=show_bytes, unit="B"),
)


def port_rows(body: Any) -> list[tuple[str, Any]]:
    """Every sort of link of every axis."""
    return [(merge["axis"], use) for merge in body["merges"] for use in merge["ports"] or ()]


def crossing_rows(body: Any) -> list[tuple[str, Any]]:
    """What crosses boxes, by axis."""
    return [(merge["axis"], use) for merge in body["merges"] for use in merge["crossings"] or ()]


def flip_lines(result: Result) -> list[str]:
    """Where the fastest changes with size."""
    return [f"from {flip['value']:,} B on: {flip['to']}, before {flip['from']}" for flip in result.flips]


def _shown(result: Result) -> list[Any]:
    """All algorithms of one group; of several axes the fastest of each."""
    if len(result.body["merges"]) == 1:
        return list(result.candidates)
    found: list[Any] = []
    for merge in result.body["merges"]:
        found += [item for item in result.candidates if item.measures["axis"] == merge["axis"]][:_OF_AN_AXIS]
    return found


def draw_collective(console: Console, result: Result) -> None:
    """Algorithms, and where they were asked for links."""
    console.print(f"\n{result.body['fabric']}")
    shown = _shown(result)
    draw_columns(console, ALGORITHM_COLUMNS, shown)
    if len(shown) < len(result.candidates):
        console.print(f"{len(result.candidates) - len(shown)} more algorithms: --format json lists them all")
    for columns, rows in ((PORT_COLUMNS, port_rows(result.body)), (CROSSING_COLUMNS, crossing_rows(result.body))):
        if rows:
            console.print()
            draw_columns(console, columns, rows)
    for line in flip_lines(result):
        console.print(line)
