"""A save timeline goes in; its rows for a table, and its saves as bars against the clock, come out."""

from __future__ import annotations

import math
from typing import Any, Final

from meshwright.base.units import show_bytes, show_seconds
from meshwright.output.columns import Column

SAVE_COLUMNS: Final = (
    Column(name="save", value=lambda save: save.id, side="left"),
    Column(name="captured", value=lambda save: save.captured_s, show=show_seconds, unit="s"),
    Column(name="resumed", value=lambda save: save.resumed_s, show=show_seconds, unit="s"),
    Column(name="upload", value=lambda save: save.upload_start_s, show=show_seconds, unit="s"),
    Column(name="written", value=lambda save: save.upload_end_s, show=show_seconds, unit="s"),
    Column(name="committed", value=lambda save: save.committed_s, show=show_seconds, unit="s"),
    Column(name="stands", value=lambda save: save.stall_s, show=show_seconds, unit="s"),
    Column(name="state", value=lambda save: save.state.replace("_", " "), side="left"),
)
"""One save a row; empty where it never came to that."""
_WIDE: Final = 60
_BARS: Final = 12
_COPY, _UPLOAD, _NOTHING, _FAIL = "c", "█", "·", "x"


def save_bars(body: Any) -> list[str]:
    """The first saves, a line each, from 0 to the last commit or the failure: copies, uploads, and the failure."""
    taken = [save for save in body["saves"] if save.captured_s is not None][:_BARS]
    failed = None if body["failure"] is None else body["failure"].at_s
    end = max([save.committed_s for save in taken] + ([] if failed is None else [failed]))
    if not end:
        return []
    lines = [f"\n{_COPY} copy, {_UPLOAD} upload, {_FAIL} failure; 0 s to {show_seconds(end)}"]
    for save in taken:
        line = [_NOTHING] * _WIDE
        _fill(line, save.upload_start_s, save.upload_end_s, end, _UPLOAD)
        _fill(
            line,
            save.captured_s,
            save.resumed_s if save.resumed_s <= save.upload_start_s else save.captured_s,
            end,
            _COPY,
        )
        if failed is not None:
            line[_cell(failed, end)] = _FAIL
        lines.append(f"  {save.id:<9}{''.join(line)}")
    return lines


def save_totals(body: Any) -> list[str]:
    """What waits for the writer, and what the failure found."""
    lines = [
        f"largest backlog {show_bytes(body['largest_backlog_bytes'])}; staging buffers used: {body['buffers_used']}"
    ]
    loss = body["failure"]
    if loss is not None and loss.lost:
        lines.append(f"lost: {', '.join(loss.lost)}, {show_bytes(loss.uploaded_bytes)} of it written")
    return lines


def _fill(line: list[str], start_s: float, end_s: float, last_s: float, sign: str) -> None:
    """At least one cell, for what takes any time."""
    if end_s > start_s:
        first = _cell(start_s, last_s)
        for place in range(first, max(first + 1, math.ceil(end_s / last_s * _WIDE))):
            line[place] = sign


def _cell(time_s: float, last_s: float) -> int:
    return min(int(time_s / last_s * _WIDE), _WIDE - 1)
