"""What splitting buys: ranks, replicas, shards, heads, and the step at each tensor parallel degree."""

from __future__ import annotations

from meshwright.sweep.study import run_study
from tests.golden.context import Row
from tests.golden.registry import answers


@answers("study run world-size", {"answer": "G6-044 G6-159"})
@answers("study run concurrent-requests", {"answer": "G6-001 G6-002 G6-003"})
@answers("study run replica-throughput", {"answer": "G6-045"})
@answers("study run throughput-ratio", {"answer": "G6-556"})
@answers(
    "study run split-feed-forward",
    {
        "answer.columns": "G6-102",
        "answer.shard_bytes": "G6-103",
        "answer.whole_bytes": "G6-104",
        "answer.saved_bytes": "G6-107",
        "answer.saved_read_s": "G6-108",
        "answer.partial_bytes": "G6-109",
    },
)
@answers("study run exchanges-per-step", {"answer": "G6-097"})
@answers(
    "study run kv-placement",
    {
        "answer.heads_per_rank": "G6-110",
        "answer.head_bytes": "G6-111",
        "answer.all_ranks_bytes": "G6-112 G6-113",
        "answer.copies_per_head": "G6-114",
    },
)
@answers(
    "study run tp-scaling",
    {
        "answer[0].local_s": "G6-210 G6-213 G6-216",
        "answer[0].exchange_s": "G6-211 G6-214 G6-217",
        "answer[0].step_s": "G6-212 G6-215 G6-218 G6-219",
        "answer[1].local_saving_s": "G6-220 G6-223",
        "answer[1].exchange_increase_s": "G6-221 G6-224",
        "answer[1].net_saving_s": "G6-222 G6-225",
    },
)
@answers(
    "study run wide-group",
    {
        "answer.over_boxes.local_s": "G6-265 G6-561",
        "answer.measured.exchange_s": "G6-269",
        "answer.measured.step_s": "G6-270",
        "answer.measured.slower_s": "G6-271",
        "answer.measured.all_reduce_ratio": "G6-272",
        "answer.one_domain.exchange_s": "G6-347",
        "answer.one_domain.step_s": "G6-348",
    },
)
def studied(row: Row) -> object:
    return row.select(run_study(row.subject, row.settings))
