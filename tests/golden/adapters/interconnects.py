"""The chapter's small questions: state and set-up of connections, remote reads, initiators, slices, grids, launches."""

from __future__ import annotations

from meshwright.sweep.study import run_study
from tests.golden.context import Row
from tests.golden.registry import answers


@answers(
    "study run mesh-product",
    {
        "answer.left_bytes": "G6-125",
        "answer.right_bytes": "G6-126",
        "answer.grids[grid=4x4].row_bytes": "G6-127",
        "answer.grids[grid=4x4].column_bytes": "G6-128",
        "answer.grids[grid=2x8].row_bytes": "G6-129",
        "answer.grids[grid=2x8].column_bytes": "G6-130",
        "answer.grids[grid=8x2].row_bytes": "G6-131",
        "answer.grids[grid=8x2].column_bytes": "G6-132",
        "answer.best": "G6-133",
    },
)
@answers("study run launch-budget", {"answer.start_up_s": "G6-256"})
@answers("study run norm-orders", {"answer.norm_of_sum[0]": "G6-257", "answer.sum_of_norms[0]": "G6-258"})
@answers("study run initiators", {"answer[0].control_crossings": "G6-259 G6-260 G6-261"})
@answers("study run row-bytes", {"answer": "G6-262 G6-263 G6-264"})
@answers("study run slices", {"answer.jobs": "G6-357 G6-358"})
@answers(
    "study run rewiring",
    {
        "answer.sent_bytes": "G6-359",
        "answer.before_s": "G6-360",
        "answer.after_s": "G6-361",
        "answer.saving_s": "G6-362",
        "answer.repetitions": "G6-363 G6-364",
    },
)
@answers(
    "study run remote-read",
    {"answer.crossings": "G6-365", "answer.crossing_s": "G6-366", "answer.total_s": "G6-367"},
)
@answers("study run remote-load", {"answer.total_s": "G6-368"})
@answers(
    "study run interconnect-state",
    {
        "answer.pair.per_host_bytes": "G6-369",
        "answer.pair.most_hosts": "G6-370",
        "answer.channel.per_host_bytes": "G6-371",
        "answer.channel.most_hosts": "G6-372",
        "answer.pair.state_bytes": "G6-373",
        "answer.pair.times_cache": "G6-374",
        "answer.channel.state_bytes": "G6-375",
        "answer.spilled_s": "G6-376",
        "answer.directory.state_bytes": "G6-377 G6-378",
        "answer.tracked_bytes": "G6-379",
    },
)
@answers(
    "study run connection-setup",
    {
        "answer.pair.each_s": "G6-380",
        "answer.pair.objects": "G6-381",
        "answer.pair.serial_s": "G6-382",
        "answer.pair.spread_s": "G6-383",
        "answer.channel.objects": "G6-384",
        "answer.channel.spread_s": "G6-385",
        "answer.ratio": "G6-386",
    },
)
def studied(row: Row) -> object:
    return row.select(run_study(row.subject, row.settings))
