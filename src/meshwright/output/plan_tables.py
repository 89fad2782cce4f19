"""A plan goes in; its layouts, the Pareto front of batches and what a step takes are drawn on a terminal's console."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from rich.table import Table

from meshwright.base.units import show_seconds
from meshwright.output.amounts import BY_UNIT
from meshwright.output.columns import (
    BATCH_COLUMNS,
    CURVE_COLUMNS,
    FAULT_COLUMNS,
    PARETO_COLUMNS,
    PLAN_COLUMNS,
    curve_rows,
    faulted,
    show_energy,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from meshwright.base.result import Candidate, Result
    from meshwright.output.columns import Column

T = TypeVar("T")
_ROWS: Final = 7
_FLIPS: Final = 6
_POINTS: Final = 10


def draw_plan(console: Console, result: Result) -> None:
    """The layouts of a plan and what follows from them, under its discipline."""
    if "pareto" in result.body:
        _batches(console, result)
    else:
        _candidates(console, result)


def draw_columns(console: Console, columns: Sequence[Column], rows: Sequence[Any]) -> None:
    """Rows as a table, each cell as its column shows it."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.name, justify=column.side, overflow="fold")
    for row in rows:
        table.add_row(*(column.text(row) for column in columns))
    console.print(table)


def _layouts(console: Console, columns: Sequence[Column], candidates: Sequence[Candidate]) -> None:
    shown = first_of_each_limit(candidates)
    console.print()
    draw_columns(console, columns, shown)
    if len(candidates) > len(shown):
        console.print(f"{len(candidates) - len(shown)} more layouts: --format json lists them all")


def _candidates(console: Console, result: Result) -> None:
    _layouts(console, PLAN_COLUMNS, result.candidates)
    best = result.best
    if best is not None:
        _step(console, best)
        draw_levers(console, result)
        draw_flips(console, result)
        if best.measures["energy_j"] is not None:
            console.print(f"energy until the last finish: {show_energy(best.measures['energy_j'])}")
        _fault(console, result)
        _curves(console, result)


def _batches(console: Console, result: Result) -> None:
    """Layouts with their batches, the Pareto front, and what a step of the best takes."""
    _layouts(console, BATCH_COLUMNS, result.candidates)
    points = result.body["pareto"]
    if points:
        shown = _spread(points, _POINTS)
        console.print("\ntokens a second, per user against per GPU (no other batch or layout beats these in both):")
        draw_columns(console, PARETO_COLUMNS, shown)
        if len(points) > len(shown):
            console.print(f"{len(points) - len(shown)} more points: --format json lists them all")
    if result.best is not None:
        _step(console, result.best)
        draw_levers(console, result)
        draw_flips(console, result)


def _spread(items: Sequence[T], most: int) -> list[T]:
    """At most `most` (two or more) of the items, evenly spread, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    return [items[place * (len(items) - 1) // (most - 1)] for place in range(most)]


def first_of_each_limit(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The first rows, and the first row of every limit that they do not show."""
    shown = list(candidates[:_ROWS])
    for item in candidates[_ROWS:]:
        limits = {other.excluded.limit for other in shown if other.excluded is not None}
        if item.excluded is not None and item.excluded.limit not in limits:
            shown.append(item)
    return shown


def _step(console: Console, best: Candidate) -> None:
    measures = best.measures
    local, merged = show_seconds(measures["local_time_s"]), show_seconds(measures["exchange_time_s"])
    console.print(f"\none step: {local} on the device, {merged} exchanging")
    for group in measures["groups"]:
        rounds = f" in {group['rounds']} rounds" if group["rounds"] else ""
        console.print(
            f"  {group['calls_per_step']} x {group['operation']} over {group['ranks']} ranks after {group['after']}: "
            f"{group['algorithm']}{rounds}, {show_seconds(group['time_s'])} each ({group['basis']})"
        )
    if measures["idle_devices"]:
        console.print(f"  {measures['idle_devices']} devices idle")


def draw_flips(console: Console, result: Result) -> None:
    """Where another layout, or none, takes over: the first of each parameter on either side of its present value."""
    if result.flips:
        console.print("the choice changes when:")
    for flip in result.flips[:_FLIPS]:
        shown = BY_UNIT[flip["unit"]](flip["value"])
        console.print(f"  {flip['parameter']} at {shown}: {flip['from'] or 'none'} to {flip['to'] or 'none'}")
    if len(result.flips) > _FLIPS:
        console.print(f"  {len(result.flips) - _FLIPS} more: --format json lists them all")


def _fault(console: Console, result: Result) -> None:
    """Every layout that fits, with the fault replayed, in the order of the plan."""
    rows = faulted(result)
    if rows:
        console.print("\nunder the fault:")
        draw_columns(console, FAULT_COLUMNS, rows[:_ROWS])


def _curves(console: Console, result: Result) -> None:
    """Where the cost of an on-time session steps as the deadline moves."""
    rows = curve_rows(result)
    if rows:
        console.print("\ncost against the deadline:")
        draw_columns(console, CURVE_COLUMNS, rows)


def draw_levers(console: Console, result: Result) -> None:
    """The hardware that shortens the step most, the best of it first."""
    useful = [lever for lever in result.sensitivity if lever.saving_s > 0]
    if useful:
        console.print("what would shorten the step:")
    for lever in useful[:4]:
        console.print(f"  {lever.parameter} {lever.change}: saves {show_seconds(lever.saving_s)}")
