"""The body of `verify run` goes in; its tables for a terminal come out: numbers, then why they differ from the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from meshwright.base.units import show_bytes, show_flops, show_seconds
from meshwright.output.columns import Column
from meshwright.output.plan_tables import draw_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from meshwright.base.result import Result


def _exact(value: int) -> str:
    return f"{value:,}"


def _error(value: float) -> str:
    return f"{value:+.1%}"


def _share(value: float) -> str:
    return f"{value:.1%}"


ROW_COLUMNS: Final = (
    Column(name="rank", value=lambda row: row.rank),
    Column(name="number", value=lambda row: f"{row.quantity} {row.name}", side="left"),
    Column(name="planned", value=lambda row: row.planned, show=_exact),
    Column(name="predicted", value=lambda row: row.predicted, show=_exact),
    Column(name="measured", value=lambda row: row.measured, show=_exact),
    Column(name="error", value=lambda row: row.error, show=_error),
    Column(name="", value=lambda row: "" if row.holds else "differs", side="left"),
)
TERM_COLUMNS: Final = (
    Column(name="of", value=lambda pair: f"{pair[0].quantity} {pair[0].name}", side="left"),
    Column(name="term", value=lambda pair: pair[1].name, side="left"),
    Column(name="value", value=lambda pair: pair[1].value, show=_exact),
    Column(name="why", value=lambda pair: pair[1].reason, side="left"),
)
BUBBLE_COLUMNS: Final = (
    Column(name="schedule", value=lambda row: row.schedule, side="left"),
    Column(name="simulated", value=lambda row: row.simulated_s, show=show_seconds),
    Column(name="measured", value=lambda row: row.measured_s, show=show_seconds),
    Column(name="allowed apart", value=lambda row: row.allowed_s, show=show_seconds),
    Column(name="waits, simulated", value=lambda row: row.simulated_bubble, show=_share),
    Column(name="waits, measured", value=lambda row: row.measured_bubble, show=_share),
    Column(name="", value=lambda row: "" if row.within else "beyond", side="left"),
)


def draw_verify(console: Console, result: Result) -> None:
    """What was measured, in the form that was asked for: a run, its calls, or stages that sleep."""
    for part, draw in (("faults", _faults), ("bubbles", _bubbles), ("rows", _run)):
        if part in result.body:
            draw(console, result.body)


def _faults(console: Console, body: Mapping[str, Any]) -> None:
    """What is wrong with the calls of a run, one a line."""
    for fault in body["faults"]:
        console.print(f"  {fault.text}")


def _bubbles(console: Console, body: Mapping[str, Any]) -> None:
    """Schedules whose stages sleep, and those that do not take the shape."""
    console.print()
    draw_columns(console, BUBBLE_COLUMNS, [row for row in body["bubbles"] if row.excluded is None])
    for row in body["bubbles"]:
        if row.excluded is not None:
            console.print(f"{row.schedule}: {row.excluded.reason}")


def _run(console: Console, body: Mapping[str, Any]) -> None:
    """Every number, the terms of the first rank, what was alive at its peak, and times."""
    console.print("\nplanned, predicted (with what a run has by design), measured; bytes and FLOPs of a step:")
    draw_columns(console, ROW_COLUMNS, body["rows"])
    first = body["rows"][0].rank
    terms = [(row, term) for row in body["rows"] if row.rank == first for term in row.terms if term.reason]
    if terms:
        console.print(f"\nwhat the run of rank {first} has by design, and the plan has not, or at another time:")
        draw_columns(console, TERM_COLUMNS, terms)
    alive = [item for item in body["peak_alive"] if item["rank"] == first]
    told = ", ".join(f"{item['category'].replace('_', ' ')} {show_bytes(item['bytes'])}" for item in alive)
    console.print(f"\nalive at the peak of rank {first}, in {alive[0]['phase'].replace('_', ' ')}: {told}")
    times, flops = body["times"], sum(body["model_flops"])
    idle = ", ".join(f"{share:.0%}" for share in times["idle_fraction"])
    console.print(f"a step took {show_seconds(times['step_s'])}; no slot ran for {idle} of it, by stage")
    console.print(f"model FLOPs of one rank of every stage: {show_flops(flops)}")
    if times["reason"] is not None:
        console.print(f"step time: {times['reason']}")
        return
    low, high = show_seconds(times["predicted_low_s"]), show_seconds(times["predicted_high_s"])
    share = times["predicted_bubble_fraction"]
    console.print(f"predicted: {show_seconds(times['predicted_step_s'])} ({low} to {high}), a bubble of {share:.0%}")
