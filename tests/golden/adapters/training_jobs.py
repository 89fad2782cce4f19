"""What a training job costs: FLOPs of a model, budgets and fewest cards, casts on either end, the loss of a step."""

from __future__ import annotations

from meshwright.scenarios.catalog import catalog
from meshwright.scenarios.inspect import InspectOptions, inspect
from meshwright.sweep.study import run_study
from tests.golden.context import Row
from tests.golden.registry import answers


@answers(
    "inspect",
    {"training.flops_per_sequence": "G10-071", "training.flops_per_token": "G10-072"},
)
def inspected(row: Row) -> object:
    return row.select(inspect(row.model(), row.record(InspectOptions)))


@answers("list accelerators", {"items[id={accelerator}].peak_flops_per_s.bf16": "G10-074 G10-082"})
def listed(row: Row) -> object:
    return row.select(catalog(row.subject))


@answers(
    "study run training-budget",
    {
        "answer.tokens_per_step": "G10-006",
        "answer.required_tokens_per_s": "G10-007 G10-008",
        "answer.available_s": "G10-009",
        "answer.steps": "G10-010",
        "answer.step_budget_s": "G10-011",
        "answer.job_flops": "G10-073",
        "answer.device_tokens_per_s": "G10-075",
        "answer.tokens_per_s": "G10-076",
        "answer.devices_by_compute": "G10-077 G10-083",
        "answer.devices_by_capacity": "G10-078",
        "answer.compute_s": "G10-079",
        "answer.hosts": "G10-084 G10-085",
        "answer.step_flops": "G10-088",
        "answer.step_compute_s": "G10-089 G10-090",
        "answer.left_s": "G10-091",
    },
)
@answers(
    "study run published-mfu",
    {
        "answer.lowest": "G10-080",
        "answer.highest": "G10-081",
    },
)
@answers("study run published-run", {"answer.mfu": "G10-508"})
@answers("study run micro-batches", {"answer.micro_batches": "G10-086 G10-087"})
@answers(
    "study run cast-placement",
    {
        "answer.gradient_bytes": "G10-120",
        "answer.wide_bytes": "G10-121",
        "answer.touched_gradients": "G10-122",
        "answer.on_host.transfer_s": "G10-124",
        "answer.on_host.cast_s": "G10-125",
        "answer.on_host.total_s": "G10-126 G10-133",
        "answer.on_device.cast_s": "G10-127",
        "answer.on_device.transfer_s": "G10-128",
        "answer.on_device.total_s": "G10-129 G10-134",
        "answer.cast_saving_s": "G10-130",
        "answer.extra_transfer_s": "G10-131 G10-132",
        "answer.break_even_bytes_per_s": "G10-135",
        "answer.on_device.device_peak_bytes": "G10-136",
        "answer.extra_device_bytes": "G10-137",
        "answer.on_host.device_peak_bytes": "G10-138",
    },
)
@answers("study run memory-rate", {"answer": "G10-123"})
@answers(
    "study run loss-normalisation",
    {
        "answer.tokens": "G10-152",
        "answer.gradient": "G10-153 G10-154 G10-156",
        "answer.groups.long.share": "G10-155",
        "answer.loss_per_theta": "G10-157",
    },
)
def studied(row: Row) -> object:
    return row.select(run_study(row.subject, row.settings))
