"""The answer of `rack` goes in; its columns, and its lines for a terminal, come out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from meshwright.base.units import show_watts
from meshwright.output.columns import Column, yes_or_no
from meshwright.output.plan_tables import draw_columns, draw_flips

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from meshwright.base.result import Result

_WIDE: Final = 36
_STEPS: Final = 16
_KILO: Final = 1e3


def _percent(value: float) -> str:
    return f"{value:.1%}"


COUNT_COLUMNS: Final = (
    Column(name="devices", value=lambda row: row.devices),
    Column(name="boxes", value=lambda row: row.boxes),
    Column(name="power", value=lambda row: row.power_w, show=show_watts, unit="W"),
    Column(name="of budget", value=lambda row: row.power_share, show=_percent),
    Column(name="fits", value=lambda row: row.fits, show=yes_or_no, side="left"),
    Column(name="racks", value=lambda row: row.racks),
    Column(name="end points", value=lambda row: row.end_points),
    Column(name="tiers", value=lambda row: row.tiers),
    Column(name="switches", value=lambda row: row.switches),
    Column(name="price", value=lambda row: row.price, show=lambda value: f"{value:,.0f}"),
)
"""An installation a row."""
MEDIUM_COLUMNS: Final = (
    Column(name="medium", value=lambda row: row.name, side="left"),
    Column(name="reach", value=lambda row: row.reach_m, show=lambda value: f"{value:g} m", unit="m"),
    Column(name="reaches", value=lambda row: row.reaches, show=yes_or_no, side="left"),
    Column(name="what it asks for", value=lambda row: row.note, side="left"),
)


def draw_rack(console: Console, result: Result) -> None:
    """The staircase as bars and rows near the answer, what was asked about, one rack, the media and the flips."""
    body = result.body
    rows = _near(body)
    for line in _bars(rows, result.inputs["options"].power):
        console.print(line)
    console.print()
    draw_columns(console, _stated(rows), rows)
    if len(body["steps"]) > len(rows):
        console.print(f"{len(body['steps']) - len(rows)} more steps: --format json lists them all")
    if body["asked"]:
        console.print("\nasked about:")
        draw_columns(console, _stated(body["asked"]), body["asked"])
    for line in rack_totals(body):
        console.print(line)
    console.print()
    columns = MEDIUM_COLUMNS if body["media"][0].reaches is not None else (*MEDIUM_COLUMNS[:2], MEDIUM_COLUMNS[3])
    draw_columns(console, columns, body["media"])
    draw_flips(console, result)


def rack_totals(body: Mapping[str, Any]) -> list[str]:
    """One rack, one device, and what the cooling's source says."""
    one, cooling = body["rack"], body["cooling"]
    held = f"{one.boxes} boxes, {one.devices} devices, {show_watts(one.power_w)} of {show_watts(one.limit_w)}"
    lines = [f"one rack: {held}; one box more {show_watts(one.next_power_w)}"]
    share = f"one device: {body['node_power_per_device_w'] / _KILO:.3f} kW of its box"
    card = body["device_power_w"]
    lines.append(share if card is None else f"{share}, {show_watts(card)} by itself")
    if cooling.airflow_cfm is not None:
        racks = f"a rack of {show_watts(cooling.rack_from_w)} to {show_watts(cooling.rack_to_w)}"
        lines.append(
            f"{cooling.name}: {racks} needs up to {cooling.airflow_cfm:,.0f} cfm, the best floor tile gives "
            f"{cooling.tile_cfm:,.0f}, and the fans take {show_watts(cooling.fan_power_w)} or more"
        )
    return lines


def _stated(rows: Any) -> tuple[Column, ...]:
    """Without the price where there is none."""
    return COUNT_COLUMNS if any(row.price is not None for row in rows) else COUNT_COLUMNS[:-1]


def _near(body: Mapping[str, Any]) -> Any:
    """The last steps up to those beyond the budget."""
    return body["steps"][-_STEPS:]


def _bars(rows: Any, budget_w: float) -> list[str]:
    """Power by devices; the budget is a mark on every line."""
    most = max(budget_w, *(row.power_w for row in rows))
    mark = min(_WIDE - 1, round(_WIDE * budget_w / most))
    lines = [f"\npower by devices; | is the budget, {show_watts(budget_w)}"]
    for row in rows:
        filled = round(_WIDE * row.power_w / most)
        bar = list("█" * filled + "·" * (_WIDE - filled))
        bar[mark] = "|"
        lines.append(f"  {row.devices:>8,} {''.join(bar)} {show_watts(row.power_w):>10}{'' if row.fits else '  no'}")
    return lines
