"""What a step reads, computes and sends, from one operator to a whole decode step."""

from __future__ import annotations

from meshwright.sweep.study import run_study
from tests.golden.context import Row
from tests.golden.registry import answers


@answers("study run read-time", {"answer": "G6-029 G6-038 G6-105 G6-106 G6-542"})
@answers("study run compute-time", {"answer": "G6-031 G6-040 G6-124"})
@answers(
    "study run expert-call",
    {
        "answer.weight_bytes": "G6-028 G6-037 G6-154 G6-155",
        "answer.flops": "G6-030 G6-039",
        "answer.mfu": "G6-032",
        "answer.read_over_compute": "G6-546",
    },
)
@answers(
    "study run decode-phase",
    {
        "answer.state_bytes": "G6-121",
        "answer.read_bytes": "G6-035 G6-119 G6-564",
        "answer.read_s": "G6-034 G6-036 G6-122",
    },
)
@answers("study run row-bytes", {"answer": "G6-041 G6-042 G6-232"})
@answers("study run message-growth", {"answer": "G6-043"})
@answers("study run boundary-bytes", {"answer": "G6-158"})
def studied(row: Row) -> object:
    return row.select(run_study(row.subject, row.settings))
