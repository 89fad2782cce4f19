"""A training plan goes in; its step, its calendar, its limits and its systems are drawn on a terminal's console."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from meshwright.base.units import show_bytes, show_seconds
from meshwright.output.columns import COMPUTED_PARTS, Column, why_not, yes_or_no
from meshwright.output.plan_tables import draw_columns, draw_flips, draw_levers, first_of_each_limit
from meshwright.output.training_around import around_lines, memory_lines, step_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rich.console import Console

    from meshwright.base.result import Candidate, Result

_BAR: Final = 36
_NAME: Final = 15
_KWH_J: Final = 3.6e6
_STEP_PARTS: Final = (
    ("compute_s", "compute"),
    ("exposed_comm_s", "communication"),
    ("bubble_s", "bubble"),
    ("update_s", "update"),
    ("straggler_s", "stragglers"),
    ("offload_wait_s", "offload"),
    ("input_wait_s", "input"),
    ("total_s", "total"),
)
_CALENDAR_PARTS: Final = (
    ("useful_s", "steps"),
    ("overhead_s", "saves, failures"),
    ("planned_stops_s", "planned stops"),
    ("total_s", "total"),
)


def _of(*path: str) -> Callable[[Candidate], Any]:
    def value(item: Candidate) -> Any:
        found: Any = item.measures
        for name in path:
            found = found[name]
        return found

    return value


def _key(name: str) -> Callable[[Mapping[str, Any]], Any]:
    return lambda row: row[name]


def _percent(value: float) -> str:
    return f"{value:.1%}"


def _whole(value: float) -> str:
    return f"{value:,.0f}"


TRAINING_COLUMNS: Final = (
    Column(name="layout", value=lambda item: item.id, side="left"),
    Column(name="fits", value=lambda item: item.fits, show=yes_or_no, side="left"),
    Column(name="step", value=_of("step", "total_s"), show=show_seconds, unit="s"),
    Column(name="ends after", value=_of("finish_s"), show=show_seconds, unit="s"),
    Column(name="MFU", value=_of("mfu"), show=_percent),
    Column(name="memory", value=lambda item: item.memory["per_rank_bytes"], show=show_bytes, unit="bytes"),
    Column(name="why not", value=why_not, side="left"),
)
"""A training plan's candidates."""
_SEVERAL: Final = (
    Column(name="system", value=_of("system"), side="left"),
    Column(name="layout", value=lambda item: item.id.removeprefix(f"{item.measures['system']}: "), side="left"),
    *TRAINING_COLUMNS[1:],
)
SYSTEM_COLUMNS: Final = (
    Column(name="system", value=_key("id"), side="left"),
    Column(name="devices", value=_key("devices")),
    Column(name="fits", value=_key("fits"), show=yes_or_no, side="left"),
    Column(name="in time", value=_key("on_time"), show=yes_or_no, side="left"),
    Column(name="step", value=_key("step_s"), show=show_seconds, unit="s"),
    Column(name="ends after", value=_key("finish_s"), show=show_seconds, unit="s"),
    Column(name="GPU-hours", value=_key("gpu_hours"), show=_whole),
    Column(name="with stops", value=_key("gpu_hours_with_stops"), show=_whole),
    Column(name="cost", value=_key("cost_without_stops"), show=_whole),
    Column(name="cost with stops", value=_key("cost"), show=_whole),
    Column(name="energy", value=_key("energy_j"), show=lambda value: f"{value / _KWH_J:,.0f} kWh", unit="J"),
    Column(name="limited by", value=lambda row: row["binding"]["limit"], side="left"),
)
"""The systems of a training plan, each with its best layout."""


def step_rows(shown: Candidate) -> list[tuple[str, float]]:
    """Parts of a step in seconds, their sum last."""
    return [(name, shown.measures["step"][key]) for key, name in _STEP_PARTS]


def calendar_rows(shown: Candidate) -> list[tuple[str, float]]:
    """Parts of the run in seconds, their sum last."""
    return [(name, shown.measures["calendar"][key]) for key, name in _CALENDAR_PARTS]


def draw_training(console: Console, result: Result) -> None:
    """Where memory, a step and the calendar go, what limits them, the systems and the layouts."""
    shown = result.best or result.candidates[0]
    _budget(console, shown)
    _lines(console, memory_lines(result, shown))
    if result.best is not None:
        _bars(console, f"a step of {show_seconds(shown.measures['step']['total_s'])}", step_rows(shown))
        _lines(console, step_lines(shown))
        _bars(console, f"the run, {result.body['steps']:,} steps", calendar_rows(shown))
        _lines(console, around_lines(result.body))
    limits, binding = result.body["limits"], result.body["binding"]
    console.print(f"\nlimited by {binding['limit']}: {binding['text']}")
    if limits is not None:
        _limits(console, limits)
    draw_levers(console, result)
    draw_flips(console, result)
    if len(result.body["systems"]) > 1 or result.best is not None:
        console.print()
        draw_columns(console, _said(SYSTEM_COLUMNS, result.body["systems"]), result.body["systems"])
    _layouts(console, result)


def _lines(console: Console, lines: Iterable[str]) -> None:
    for line in lines:
        console.print(line)


def _budget(console: Console, shown: Candidate) -> None:
    """What a budget stands for, as it is computed."""
    memory = shown.memory
    if memory["activation_budget_bytes"] is not None:
        parts = ", ".join(f"{name} {show_bytes(memory[key])}" for key, name in COMPUTED_PARTS)
        console.print(f"the budget stands for {parts}; with these the total is {show_bytes(memory['computed_bytes'])}")


def _bars(console: Console, title: str, rows: list[tuple[str, float]]) -> None:
    """Parts as bars of the whole, those of nothing left out; the whole as a number."""
    *parts, (_, whole) = rows
    console.print(f"\n{title}")
    for name, seconds in parts:
        if seconds > 0 and whole > 0:
            filled = min(_BAR, round(_BAR * seconds / whole))
            bar = "█" * filled + "·" * (_BAR - filled)
            console.print(f"  {name:<{_NAME}} {bar} {show_seconds(seconds):>10} {seconds / whole:>6.1%}")
    console.print(f"  {'total':<{_NAME}} {' ' * _BAR} {show_seconds(whole):>10}")


def _limits(console: Console, limits: Mapping[str, Any]) -> None:
    """What the deadline leaves a step."""
    slack = limits["slack_s"]
    word = "more" if slack >= 0 else "less"
    limit = show_seconds(limits["step_limit_s"])
    console.print(f"a step may take {limit}, {show_seconds(abs(slack))} {word} than it does")
    told = [f"computation {show_seconds(limits['compute_limit_s'])}" if limits["compute_limit_s"] > 0 else ""]
    if limits["efficiency_needed"] is not None:
        beyond = ", more than the peak" if limits["efficiency_needed"] > 1 else ""
        told[0] += f" (an efficiency of {limits['efficiency_needed']:.1%}{beyond})"
    if limits["most_comm_wait_s"] > 0:
        told.append(f"communication {show_seconds(limits['most_comm_wait_s'])} exposed")
    if any(told):
        console.print(f"at most, all else as it is: {'; '.join(filter(None, told))}")
    without = "in time" if limits["fits_without_overlap"] else "late"
    console.print(f"without overlap a step takes {show_seconds(limits['step_without_overlap_s'])}: {without}")


def _said(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """The columns in which some row says something."""
    return [column for column in columns if any(column.value(row) is not None for row in rows)]


def _layouts(console: Console, result: Result) -> None:
    shown = first_of_each_limit(result.candidates)
    console.print()
    several = len(result.body["systems"]) > 1
    draw_columns(console, _SEVERAL if several else TRAINING_COLUMNS, shown)
    if len(result.candidates) > len(shown):
        console.print(f"{len(result.candidates) - len(shown)} more layouts: --format json lists them all")
    seen = result.body["searched"]
    judged = "" if seen.evaluated == seen.looked_at else f" ({seen.evaluated:,} evaluated, the others ruled out)"
    console.print(
        f"searched {seen.looked_at:,} layouts{judged}: {seen.fitting:,} fit, {seen.on_time:,} of them in time"
    )
