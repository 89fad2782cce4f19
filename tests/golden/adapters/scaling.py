"""Scale: stragglers, the batch against the devices, the input, measured scaling, other hardware, larger models."""

from __future__ import annotations

from meshwright.sweep.study import run_study
from tests.golden.context import Row
from tests.golden.registry import answers


@answers(
    "study run stragglers",
    {
        "answer.expected_max": "G10-377 G10-380 G10-383",
        "answer.step_s": "G10-378 G10-379 G10-381 G10-382 G10-384 G10-385",
        "answer.sigma_s": "G10-386 G10-387",
        "answer.even_step_s": "G10-388",
        "answer.increase_s": "G10-389 G10-391",
        "answer.slack_share": "G10-390",
        "answer.late_sigmas": "G10-392 G10-394",
        "answer.reactions[name=wait].extra_s": "G10-393 G10-395 G10-396",
        "answer.reactions[name=redistribute].step_s": "G10-397 G10-398",
        "answer.reactions[name=exclude].once_s": "G10-399",
        "answer.exclude_steps": "G10-400",
    },
)
@answers("study run published-reliability", {"answer.slow_machines": "G10-401", "answer.mtbf_s": "G10-402"})
@answers(
    "study run critical-batch",
    {
        "answer.least_steps": "G10-012",
        "answer.least_tokens": "G10-013",
        "answer.batch_over_noise": "G10-014",
        "answer.times_least_steps": "G10-015",
        "answer.times_least_tokens": "G10-016",
        "answer.speed_up_limit": "G10-034 G10-037",
    },
)
@answers(
    "study run scaling-table",
    {
        "answer.rows[0].weak_batch_tokens": "G10-017 G10-020 G10-023 G10-026 G10-029",
        "answer.rows[0].weak_s": "G10-018 G10-021 G10-024 G10-027 G10-030 G10-510",
        "answer.rows[0].strong_s": "G10-019 G10-022 G10-025 G10-028 G10-031",
        "answer.rows[0].strong_step_s": "G10-308 G10-309",
        "answer.rows[0].times": "G10-035",
        "answer.rows[0].wait_share": "G10-036",
        "answer.step_s": "G10-032",
        "answer.wait_s": "G10-033",
    },
)
@answers("study run overlap-bound", {"answer.most_saving_s": "G10-242"})
@answers(
    "study run measured-scaling",
    {
        "answer.ideal_s": "G10-243",
        "answer.step_s": "G10-244",
        "answer.more_step_s": "G10-245",
        "answer.speed_up": "G10-246",
        "answer.efficiency": "G10-247 G10-505",
        "answer.excess_s": "G10-248",
        "answer.times_devices": "G10-249",
    },
)
@answers("study run input-demand", {"answer.sequences_per_s": "G10-302", "answer.ids_bytes_per_s": "G10-303"})
@answers(
    "study run input-wait",
    {
        "answer.supply_sequences_per_s": "G10-304 G10-305 G10-306",
        "answer.demand_sequences_per_s": "G10-307",
    },
)
@answers("study run data-position", {"answer.pending": "G10-310", "answer.resume_batch": "G10-311 G10-312"})
@answers("study run hardware-change", {"answer.step_s": "G10-483 G10-484", "answer.increase_share": "G10-485 G10-486"})
@answers(
    "study run scale",
    {
        "answer.rows[0].run_s": "G10-493 G10-494 G10-495 G10-497",
        "answer.rows[0].needed_devices": "G10-496",
        "answer.rows[0].spare_s": "G10-498",
        "answer.rows[0].late_s": "G10-499",
    },
)
@answers(
    "study run compute-growth",
    {"answer.times_flops": "G10-500 G10-501", "answer.flops_per_parameter_squared": "G10-502"},
)
def studied(row: Row) -> object:
    return row.select(run_study(row.subject, row.settings))
