"""Saves: when they are committed, what a failure goes back to, and what a faster writer avoids."""

from __future__ import annotations

from meshwright.scenarios.checkpointing import SaveOptions, checkpoint_timeline
from meshwright.sweep.study import run_study
from tests.golden.context import Row
from tests.golden.registry import answers


@answers(
    "checkpoint timeline",
    {
        "arrival_bytes_per_s": "G10-313 G10-327 G10-328",
        "write_s": "G10-326 G10-333",
        "saves[0].committed_s": "G10-329 G10-334",
        "saves[1].committed_s": "G10-330 G10-335",
        "failure.recovered_s": "G10-331 G10-336",
        "failure.rework_s": "G10-332 G10-337",
        "stall_s": "G10-338",
    },
)
def timed(row: Row) -> object:
    return row.select(checkpoint_timeline(row.record(SaveOptions)))


@answers("study run save-rates", {"answer[1].rework_avoided_s": "G10-339"})
@answers("study run save-call", {"answer.returned_s": "G10-340", "answer.committed_s": "G10-341"})
def studied(row: Row) -> object:
    return row.select(run_study(row.subject, row.settings))
