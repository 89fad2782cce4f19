"""What a long context weighs against the weights, how far positions stretch, and what ranks that share it score."""

from __future__ import annotations

from meshwright.sweep.study import run_study
from tests.golden.context import Row
from tests.golden.registry import answers


@answers(
    "study run long-context",
    {
        "answer.rows[0].balanced_step_weight_bytes": "G6-069 G6-070",
        "answer.rows[0].fixed_state_bytes_by_name.recurrent_state": "G6-061",
        "answer.rows[0].fixed_state_bytes_by_name.convolution_state": "G6-062",
        "answer.rows[1].weight_read_s": "G6-092",
        "answer.rows[2].weight_read_s": "G6-093",
        "answer.rows[1].times_less_state": "G6-545",
        "answer.rows[0].step_flops": "G6-071 G6-072 G6-073",
        "answer.rows[0].step_state_bytes": "G6-074 G6-075 G6-076",
        "answer.rows[0].room[0].pooled_sessions": "G6-077 G6-078 G6-079 G6-080 G6-081 G6-082 G6-083 G6-084 G6-085 "
        "G6-086 G6-087 G6-088",
        "answer.rows[0].state_read_s": "G6-089 G6-090 G6-091",
        "answer.rows[1].times_fewer_flops": "G6-094 G6-095",
        "answer.rows[0].one_step_weight_share": "G6-544",
    },
)
@answers("study run stretched-positions", {"answer": "G6-549"})
@answers(
    "study run sequence-parallel",
    {
        "answer.whole_bytes": "G6-134",
        "answer.rank_bytes": "G6-135",
        "answer.sharded_bytes": "G6-136",
        "answer.replicated_bytes": "G6-137",
    },
)
@answers(
    "study run context-split",
    {
        "answer.pairs": "G6-138",
        "answer.ranks[0].pairs": "G6-139 G6-142",
        "answer.ranks[1].pairs": "G6-140 G6-143",
        "answer.busiest_over_least": "G6-141",
    },
)
@answers("study run softmax-merge", {"answer.output": "G6-554 G6-555"})
@answers(
    "study run packing",
    {
        "answer.pairs": "G10-296 G10-297 G10-298 G10-299",
        "answer.more_pairs_fraction": "G10-300",
        "answer.tokens": "G10-301",
    },
)
def studied(row: Row) -> object:
    return row.select(run_study(row.subject, row.settings))
