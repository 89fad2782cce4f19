"""Supernodes by size, and where tables, shared state and weights lie beside them."""

from __future__ import annotations

from meshwright.sweep.study import run_study
from tests.golden.context import Row
from tests.golden.registry import answers


@answers(
    "study run supernode-size",
    {
        "answer.replicated_bytes": "G6-467",
        "answer.routed_experts_bytes": "G6-468",
        "answer.table_bytes": "G6-469",
        "answer.read_weights_bytes": "G6-492",
        "answer.exchanges": "G6-488",
        "answer.rows[0].weights_bytes": "G6-471",
        "answer.rows[0].sessions": "G6-472 G6-490",
        "answer.rows[0].step_s": "G6-473",
        "answer.rows[0].tokens_per_s": "G6-474",
        "answer.rows[1].weights_bytes": "G6-475",
        "answer.rows[1].sessions": "G6-476",
        "answer.rows[1].step_s": "G6-477",
        "answer.rows[1].tokens_per_s": "G6-478 G6-497",
        "answer.rows[2].weights_bytes": "G6-479",
        "answer.rows[2].sessions": "G6-480",
        "answer.rows[2].step_s": "G6-481",
        "answer.rows[2].tokens_per_s": "G6-482",
        "answer.rows[3].weights_bytes": "G6-483",
        "answer.rows[3].sessions": "G6-484",
        "answer.rows[3].step_s": "G6-485",
        "answer.rows[3].tokens_per_s": "G6-486",
        "answer.rows[0].experts_per_rank": "G6-487",
        "answer.rows[1].times_first_tokens": "G6-489 G6-491",
        "answer.rows[1].times_first_sessions": "G6-539",
        "answer.one_session[0].step_s": "G6-493",
        "answer.one_session[0].tokens_per_s": "G6-494",
        "answer.rows[0].exchange_s": "G6-495",
        "answer.rows[1].exchange_s": "G6-496",
        "answer.rows[0].leaving_fraction": "G6-540",
        "answer.one_session[0].local_s": "G6-498",
        "answer.one_session[0].exchange_s": "G6-499",
        "answer.one_session[0].exchange_fraction": "G6-500",
    },
)
@answers("study run expert-bytes", {"answer": "G6-557"})
@answers("study run shared-state", {"answer.session_bytes": "G6-470", "answer.window_bytes": "G6-559"})
@answers("study run token-state", {"answer": "G6-435"})
@answers(
    "study run table-placement",
    {
        "answer.rows_per_table": "G6-512",
        "answer.row_bytes": "G6-513",
        "answer.token_rows": "G6-514",
        "answer.token_bytes": "G6-515",
        "answer.window_s": "G6-516 G6-517",
        "answer.host.round_trip_s": "G6-518",
        "answer.shards.round_s": "G6-519",
        "answer.shards.shard_bytes": "G6-520 G6-522",
        "answer.shards.sessions": "G6-521 G6-523",
        "answer.shards.lost_fraction": "G6-524",
        "answer.rom.area_mm2": "G6-525",
        "answer.rom.wafers": "G6-526",
        "answer.host.reads": "G6-527",
        "answer.host.reads_s": "G6-528",
        "answer.host.step_fraction": "G6-529",
        "answer.host.window_fraction": "G6-530",
        "answer.host.least_step_s": "G6-531",
        "answer.rom.sessions": "G6-532",
        "answer.table_bytes": "G6-558",
    },
)
@answers(
    "study run rom-machines",
    {
        "answer.machines[1].work_s": "G6-501",
        "answer.machines[1].tokens_per_s": "G6-502",
        "answer.machines[1].communication_fraction": "G6-503",
        "answer.machines[1].weights_s": "G6-504",
        "answer.machines[1].communication_s": "G6-505",
        "answer.machines[0].weights_s": "G6-506",
        "answer.machines[0].work_s": "G6-507",
        "answer.machines[0].communication_s": "G6-508",
        "answer.machines[0].tokens_per_s": "G6-509",
        "answer.machines[0].communication_fraction": "G6-510",
        "answer.machines[0].exchanges": "G6-543",
    },
)
@answers("study run unnamed-time", {"answer": "G6-511"})
@answers("study run checkpoint-bytes", {"answer": "G6-534"})
@answers(
    "study run state-room",
    {
        "answer.devices": "G6-535",
        "answer.large_sessions": "G6-536",
        "answer.fast_sessions": "G6-537",
        "answer.times_more_sessions": "G6-538",
    },
)
@answers(
    "study run larger-models",
    {
        "answer.rows[0].weights_bytes": "G6-191 G6-193 G6-194",
        "answer.capacity_bytes": "G6-192",
        "answer.rows[0].row_bytes": "G6-195",
        "answer.rows[0].sent_row_bytes": "G6-196",
        "answer.rows[0].layers": "G6-197",
        "answer.rows[0].experts": "G6-198 G6-199",
    },
)
def studied(row: Row) -> object:
    return row.select(run_study(row.subject, row.settings))
