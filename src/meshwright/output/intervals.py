"""The answer of `checkpoint interval` goes in; its columns, and its curve as bars, come out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from meshwright.base.units import show_bytes, show_seconds
from meshwright.output.amounts import pair
from meshwright.output.columns import Column

if TYPE_CHECKING:
    from collections.abc import Mapping

_WIDE: Final = 36
_AROUND: Final = 8
_EVERY: Final = 2


def _percent(value: float) -> str:
    return f"{value:.2%}"


INTERVAL_COLUMNS: Final = (
    Column(name="interval", value=lambda row: row.id, side="left"),
    Column(name="seconds", value=lambda row: row.interval_s, show=show_seconds, unit="s"),
    Column(name="save", value=lambda row: row.save_fraction, show=_percent),
    Column(name="rework", value=lambda row: row.rework_fraction, show=_percent),
    Column(name="recovery", value=lambda row: row.recovery_fraction, show=_percent),
    Column(name="total", value=lambda row: row.overhead_fraction, show=_percent),
    Column(name="Poisson retry", value=lambda row: row.retry_overhead_fraction, show=_percent),
    Column(name="of spikes", value=lambda row: row.spikes_fraction or None, show=_percent),
    Column(name="run ends after", value=lambda row: row.finish_s, show=show_seconds, unit="s"),
)
"""Intervals; save, rework and recovery add up to the total of first order."""
DRAWN_COLUMNS: Final = (
    Column(name="interval", value=lambda row: row.id, side="left"),
    Column(name="runs", value=lambda row: row.runs),
    Column(name="mean", value=lambda row: row.mean_s, show=show_seconds, unit="s"),
    Column(name="standard error", value=lambda row: row.standard_error_s, show=show_seconds, unit="s"),
    Column(name="5 %", value=lambda row: row.p05_s, show=show_seconds, unit="s"),
    Column(name="median", value=lambda row: row.p50_s, show=show_seconds, unit="s"),
    Column(name="95 %", value=lambda row: row.p95_s, show=show_seconds, unit="s"),
    Column(name="overhead", value=lambda row: row.overhead_fraction, show=_percent),
    Column(name="failures", value=lambda row: row.failures, show=lambda value: f"{value:,.1f}"),
    Column(name="done again", value=lambda row: row.redone_s, show=show_seconds, unit="s"),
)
"""Runs that were drawn, an interval a row."""


def curve_bars(body: Mapping[str, Any]) -> list[str]:
    """The overhead (Poisson retry) of intervals up to four times shorter and longer than the best, a line each."""
    points = body["curve"]
    place = min(range(len(points)), key=lambda number: points[number].retry_overhead_fraction)
    shown = [point for number, point in enumerate(points) if abs(number - place) in range(0, _AROUND + 1, _EVERY)]
    most = max(point.retry_overhead_fraction for point in shown)
    lines = ["\noverhead by interval (Poisson retry)"]
    for point in shown:
        filled = round(_WIDE * point.retry_overhead_fraction / most) if most else 0
        mark = "  best" if point is points[place] else ""
        bar = "█" * filled + "·" * (_WIDE - filled)
        share = _percent(point.retry_overhead_fraction)
        lines.append(f"  {show_seconds(point.interval_s):>10} {bar} {share:>8}{mark}")
    return lines


def interval_totals(body: Mapping[str, Any]) -> list[str]:
    """What a save is and what fails."""
    save = f"one save: {show_bytes(body['size_bytes'])}, written in {show_seconds(body['save_s'])}, holds training "
    save += show_seconds(body["stall_s"])
    if body["lag_s"]:
        save += f" and counts {show_seconds(body['lag_s'])} later"
    if body["size_parts"] is not None:
        parts = [pair(name, size).replace("_", " ") for name, size in body["size_parts"].items()]
        save += f" ({', '.join(parts)})"
    told = [f"one failure every {show_seconds(1 / body['failures_per_s'])}"]
    for name, word in (("job_mtbf_s", "hardware of the job"), ("card_mtbf_s", "one device")):
        if body[name] is not None:
            told.append(f"{word} {show_seconds(body[name])}")
    if body["spikes_per_s"]:
        told.append(f"loss spikes {show_seconds(1 / body['spikes_per_s'])}")
    return [save, "; ".join(told)]
