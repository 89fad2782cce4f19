"""What a long context weighs against the weights, model by model, and how far positions stretch."""

from __future__ import annotations

from meshwright.sweep.study import run_study
from tests.golden.context import Row
from tests.golden.registry import answers


@answers(
    "study run long-context",
    {
        "answer.rows[0].balanced_step_weight_bytes": "G6-069",
        "answer.rows[0].step_flops": "G6-071 G6-072",
        "answer.rows[0].step_state_bytes": "G6-074 G6-075",
        "answer.rows[0].room[0].pooled_sessions": "G6-077 G6-078 G6-079 G6-080 G6-081 G6-082 G6-083 G6-084",
        "answer.rows[0].state_read_s": "G6-089 G6-090",
        "answer.rows[1].times_fewer_flops": "G6-095",
        "answer.rows[0].one_step_weight_share": "G6-544",
    },
)
@answers("study run stretched-positions", {"answer": "G6-549"})
def studied(row: Row) -> object:
    return row.select(run_study(row.subject, row.settings))
