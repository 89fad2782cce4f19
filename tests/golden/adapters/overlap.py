"""What lies beside what on a timeline: buckets, gaps and buffers; measured pairs, and what tuning repays."""

from __future__ import annotations

from meshwright.sweep.study import run_study
from tests.golden.context import Row
from tests.golden.registry import answers


@answers(
    "study run bucket",
    {"answer.overlapped_s": "G10-224", "answer.exposed_wait_s": "G10-225 G10-226"},
)
@answers(
    "study run gaps",
    {
        "answer.whole.sent_bytes": "G10-287 G10-289",
        "answer.whole.call_s": "G10-288 G10-290 G10-292",
        "answer.split.service_s": "G10-291",
        "answer.whole.placed": "G10-293 G10-295",
        "answer.split.placed": "G10-294",
        "answer.extra_service_s": "G10-511",
    },
)
@answers(
    "study run overlap",
    {
        "answer.communication_alone_s": "G6-240 G6-245",
        "answer.computation_alone_s": "G6-241 G6-246",
        "answer.communication_together_s": "G6-242 G6-247",
        "answer.computation_together_s": "G6-243 G6-248",
        "answer.finish_s": "G6-244 G6-249 G6-563",
        "answer.communication_slowdown": "G6-250",
        "answer.sum_alone_s": "G6-251",
        "answer.saving_s": "G6-252",
    },
)
@answers("study run memory-peak", {"answer.peak_bytes": "G10-049 G10-050"})
@answers("study run tuning", {"answer.payback_calls": "G6-255"})
def studied(row: Row) -> object:
    return row.select(run_study(row.subject, row.settings))
