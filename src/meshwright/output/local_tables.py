"""The answer of `calibrate local` goes in; its tables come out: figures, overlap, steps and checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from meshwright.base.units import show_seconds
from meshwright.output.amounts import BY_UNIT
from meshwright.output.columns import Column
from meshwright.output.plan_tables import draw_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console


def _shown(name: str) -> Any:
    """A figure in the unit of its row."""

    def value(row: Any) -> str:
        number, show = getattr(row, name), BY_UNIT.get(row.unit)
        return f"{number:.3g} {row.unit}" if show is None else show(number)

    return value


FIGURE_COLUMNS: Final = (
    Column(name="figure", value=lambda row: row.id, side="left"),
    Column(name="value", value=_shown("value")),
    Column(name="low", value=_shown("low")),
    Column(name="high", value=_shown("high")),
    Column(name="rounds", value=lambda row: row.count),
)
OVERLAP_COLUMNS: Final = (
    Column(name="all_reduce", value=lambda row: row.id, side="left"),
    Column(name="exchange", value=lambda row: row.communication_alone_s, show=show_seconds, unit="s"),
    Column(name="products", value=lambda row: row.computation_alone_s, show=show_seconds, unit="s"),
    Column(name="exchange beside", value=lambda row: row.communication_together_s, show=show_seconds, unit="s"),
    Column(name="products beside", value=lambda row: row.computation_together_s, show=show_seconds, unit="s"),
    Column(name="both done", value=lambda row: row.finish_s, show=show_seconds, unit="s"),
    Column(name="slower", value=lambda row: f"{row.communication_slowdown:.2f} and {row.computation_slowdown:.2f}"),
    Column(name="hidden", value=lambda row: f"{row.hidden_share:.0%}"),
)
STEP_COLUMNS: Final = (
    Column(name="probe", value=lambda row: row.id, side="left"),
    Column(name="step", value=lambda row: row.time_s, show=show_seconds, unit="s"),
    Column(name="low", value=lambda row: row.low_s, show=show_seconds, unit="s"),
    Column(name="high", value=lambda row: row.high_s, show=show_seconds, unit="s"),
    Column(name="by its parts", value=lambda row: row.predicted_s, show=show_seconds, unit="s"),
    Column(name="exchanges longer by", value=lambda row: row.factor, show=lambda value: f"{value:.2f}"),
)
CHECK_COLUMNS: Final = (
    Column(name="layout", value=lambda row: row.id, side="left"),
    Column(name="step", value=lambda row: row.time_s, show=show_seconds, unit="s"),
    Column(name="predicted", value=lambda row: row.predicted_s, show=show_seconds, unit="s"),
    Column(name="from", value=lambda row: row.predicted_low_s, show=show_seconds, unit="s"),
    Column(name="to", value=lambda row: row.predicted_high_s, show=show_seconds, unit="s"),
    Column(name="inside", value=lambda row: "yes" if row.inside else "no"),
)


def draw_local(console: Console, body: Mapping[str, Any]) -> None:
    """Every figure; then overlap, the probe's steps, and the steps that were checked."""
    for title, columns, rows in (
        ("", FIGURE_COLUMNS, body["rows"]),
        ("an exchange beside matrix products:", OVERLAP_COLUMNS, body["overlaps"]),
        ("real steps of the probe:", STEP_COLUMNS, body["steps"]),
        ("real steps that were asked about:", CHECK_COLUMNS, body["checks"]),
    ):
        if rows:
            console.print(f"\n{title}" if title else "")
            draw_columns(console, columns, rows)
