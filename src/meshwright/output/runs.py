"""The answer of `run train` goes in; the columns of its steps, and what it ran on, come out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from meshwright.base.units import show_flops, show_seconds
from meshwright.output.columns import Column

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST: Final = 20


def _rounded(value: float) -> str:
    return f"{value:.4f}"


def _rate(value: float) -> str:
    return f"{value:,.0f}"


STEP_COLUMNS: Final = (
    Column(name="step", value=lambda row: row.step),
    Column(name="loss", value=lambda row: row.loss, show=_rounded),
    Column(name="gradient norm", value=lambda row: row.gradient_norm, show=_rounded),
    Column(name="tokens", value=lambda row: row.tokens, show=lambda value: f"{value:,}"),
    Column(name="took", value=lambda row: row.seconds, show=show_seconds, unit="s"),
    Column(name="tokens/s", value=lambda row: row.tokens_per_s, show=_rate),
)
"""The steps of a run."""


def _apart(value: float) -> str:
    return f"{value:.2g}"


PARITY_COLUMNS: Final = (
    Column(name="layout", value=lambda row: row.layout_id),
    Column(name="ranks", value=lambda row: row.ranks),
    Column(name="loss", value=lambda row: row.loss, show=_apart),
    Column(name="norm", value=lambda row: row.norm, show=_apart),
    Column(name="weight", value=lambda row: row.weight, show=_apart),
    Column(name="agrees", value=lambda row: row.agrees, show=lambda value: "yes" if value else "no"),
    Column(name="first that differs", value=lambda row: row.differs and f"{row.differs} on rank {row.differs_on_rank}"),
)
"""Layouts beside one process."""


def shown_steps(body: Mapping[str, Any]) -> tuple[list[Any], int]:
    """The steps that a terminal has, the first and the last of many, and how many it leaves out."""
    rows = list(body["steps"])
    if len(rows) <= _MOST:
        return rows, 0
    half = _MOST // 2
    return [*rows[:half], *rows[-half:]], len(rows) - _MOST


def run_totals(body: Mapping[str, Any]) -> list[str]:
    """What it ran on, and how fast."""
    processes = "1 process" if body["processes"] == 1 else f"{body['processes']} processes"
    on = f"{processes} over {body['backend']}, {body['device']}, {body['schedule']} of {body['micro_batches']}"
    rate = f"{_rate(body['tokens_per_s'])} tokens a second, {show_seconds(body['step_time_s'])} a step"
    rate += " (medians without the first step)" if len(body["steps"]) > 1 else ""
    if body["mfu"] is None:
        return [f"{on} micro-batches", f"{rate}; --peak-flops gives the MFU"]
    peak = show_flops(body["peak_flops_per_s"], "FLOP/s")
    return [f"{on} micro-batches", f"{rate}; MFU {body['mfu']:.2%} of {peak} a device ({body['peak_of']})"]
