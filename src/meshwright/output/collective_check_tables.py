"""The answer of `collective check` goes in; its columns and lines come out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from meshwright.base.units import show_bytes, show_rate, show_seconds
from meshwright.output.columns import Column

if TYPE_CHECKING:
    from collections.abc import Mapping

CHECK_COLUMNS: Final = (
    Column(name="bytes", value=lambda row: row.size_bytes, show=show_bytes, unit="B"),
    Column(name="time", value=lambda row: row.time_s, show=show_seconds, unit="s"),
    Column(name="busbw", value=lambda row: row.busbw_bytes_per_s, show=show_rate, unit="B/s"),
    Column(name="expected", value=lambda row: row.expected_bytes_per_s, show=show_rate, unit="B/s"),
    Column(name="from", value=lambda row: row.low_bytes_per_s, show=show_rate, unit="B/s"),
    Column(name="to", value=lambda row: row.high_bytes_per_s, show=show_rate, unit="B/s"),
    Column(name="of it", value=lambda row: row.of_expected_fraction, show=lambda value: f"{value:.2f}"),
    Column(name="state", value=lambda row: row.state.replace("_", " "), side="left"),
    Column(name="basis", value=lambda row: row.basis, side="left"),
)
"""Sizes of a run; from and to are the interval of what is expected."""


def check_lines(body: Mapping[str, Any]) -> list[str]:
    """What was run, the parts that are low, the causes in their order, and what explains a rate above the wire."""
    nics = "one box" if body["boxes"] == 1 else f"{body['boxes']} boxes, NICs of each: {body['nics_per_box']}"
    told = [f"\n{body['operation']} over {body['ranks']} ranks on {nics}"]
    judged = (row for row in body["rows"] if row.expected_bytes_per_s is not None)
    told += dict.fromkeys(f"  expected by {row.basis}: {row.by}" for row in judged)
    for part in body["ranges"]:
        if part.judged:
            word = "low" if part.is_low else "normal"
            told.append(f"  {part.name} (from {show_bytes(part.from_bytes)}): {word}, {part.low} of {part.judged} low")
    bounds = ", ".join(f"{bound['algorithm']} {show_rate(bound['busbw_bytes_per_s'])}" for bound in body["bounds"])
    told.append(f"  on a full wire busbw is at most: {bounds}")
    if body["causes"]:
        told.append("\nlikely causes, the best match first:")
    for number, cause in enumerate(body["causes"], start=1):
        told += [f"{number}. {cause.title}", f"   {cause.evidence}", f"   try: {cause.fix}"]
    if body["above"] is not None:
        cause = body["above"]
        told += [f"\nabove the wire: {cause.title}", f"   {cause.evidence}", f"   {cause.fix}"]
    return told
