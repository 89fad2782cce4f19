"""A table of ranked layouts goes in; candidates with their step, calendar and memory come out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from meshwright.base.result import Candidate, Excluded
from meshwright.base.traced import cell
from meshwright.base.units import show_bytes, show_seconds
from meshwright.cost.model_flops import trained_flops
from meshwright.job.train import step_progress, step_tokens
from meshwright.layout.layout import fields_of
from meshwright.scenarios._training_engine import asked_rules
from meshwright.scenarios._training_host import host_capacity_bytes, host_full
from meshwright.scenarios._training_refusals import refusal
from meshwright.scenarios._training_table import capacity_bytes

if TYPE_CHECKING:
    from meshwright.job.train import TrainJob
    from meshwright.layout.rules import Rule
    from meshwright.model.model import Model
    from meshwright.scenarios._training_options import TrainOptions
    from meshwright.scenarios._training_table import TrainingTable
    from meshwright.system.system import System

DAY_S = 86400.0
HOUR_S = 3600.0


def training_candidates(
    model: Model, system: System, job: TrainJob, options: TrainOptions, table: TrainingTable
) -> tuple[Candidate, ...]:
    """Every row of a table, in its order."""
    engine = asked_rules(job, options)
    return tuple(_candidate(model, system, job, options, table, row, engine) for row in range(len(table)))


def _candidate(  # noqa: PLR0917 - the nouns, and which
    model: Model,
    system: System,
    job: TrainJob,
    options: TrainOptions,
    table: TrainingTable,
    row: int,
    engine: tuple[Rule, ...],
) -> Candidate:
    layout = table.layouts.row(row)
    memory = _memory(system, options, table, row)
    measures = _measures(model, system, job, table, row)
    refused = refusal(model, system, job, options.context, table.layouts, row, engine)
    late = not bool(table.on_time[row])
    fits = refused is None and bool(table.fits[row])
    excluded = refused or (None if fits else _left_out(system, memory))
    if excluded is None and late:
        excluded = _late(job, measures["finish_s"])
    return Candidate(
        id=layout.id,
        layout=fields_of(layout),
        fits=fits,
        excluded=excluded,
        memory=memory,
        measures=measures,
    )


def _memory(system: System, options: TrainOptions, table: TrainingTable, row: int) -> dict[str, Any]:
    """The ledger of the fullest rank. computed_bytes: with computed parts, also where a budget stands for them."""
    ledger = table.ledger
    names = ("parameters", "gradients", "optimizer_state", "activations", "gathered", "transient", "workspace")
    found = {f"{name}_bytes": cell(getattr(ledger, name), row) for name in names}
    found["resident_bytes"] = cell(ledger.resident, row)
    found["activation_budget_bytes"] = options.activation_budget
    found["computed_bytes"] = cell(ledger.computed, row)
    found["per_rank_bytes"] = cell(ledger.total, row)
    found["capacity_bytes"] = capacity_bytes(system, options)
    found["host_bytes"] = cell(table.host_bytes, row)
    found["host_capacity_bytes"] = host_capacity_bytes(system)
    found["fullest_stage"] = int(ledger.stage[row])
    return found


def _measures(model: Model, system: System, job: TrainJob, table: TrainingTable, row: int) -> dict[str, Any]:
    step, total = table.step, cell(table.step_s, row)
    devices = system.devices
    peak = devices * system.accelerator.peak_for(job.recipe.rates)[1]
    ranks = devices / table.layouts.row(row).pp
    useful = cell(table.useful_s, row)
    busy = useful * (1 + cell(table.overhead, row))
    calendar = cell(table.finish_s, row)
    useful_share = step_progress(job) / step_tokens(job.global_batch, job.sequence)
    return {
        "step": {
            "compute_s": cell(step.compute_s, row),
            "exposed_comm_s": cell(step.exposed_comm_s, row),
            "bubble_s": cell(step.bubble_s, row),
            "update_s": cell(step.update_s, row),
            "straggler_s": cell(table.straggler_s, row),
            "offload_wait_s": cell(table.offload_wait_s, row),
            "input_wait_s": cell(table.input_wait_s, row),
            "total_s": total,
        },
        "exposed": {
            "layers_s": cell(step.layer_exchange_s, row),
            "state_s": cell(step.state_exchange_s, row),
            "boundaries_s": cell(step.boundary_s, row),
        },
        "channel_s": cell(step.channel_s, row),
        "sent_bytes": cell(step.sent_bytes, row),
        "num_micro_batches": cell(table.count, row),
        "overhead_fraction": cell(table.overhead, row),
        "useful_s": useful,
        "finish_s": calendar,
        "gpu_hours": busy * devices / HOUR_S,
        "gpu_hours_with_stops": calendar * devices / HOUR_S,
        "energy_j": None if system.node_power is None else calendar * system.node_power * system.nodes,
        "mfu": trained_flops(model, job.recipe, job.sequence) * job.global_batch * useful_share / (total * peak),
        "hfu": cell(step.hardware_flops, row) * ranks / (total * peak),
        "tokens_per_s_per_gpu": step_progress(job) / (total * devices),
        "peak_rank": int(table.ledger.stage[row]),
    }


def _left_out(system: System, memory: dict[str, Any]) -> Excluded:
    """Of a layout that does not fit: its bytes on a device, or those on its host."""
    if memory["per_rank_bytes"] > memory["capacity_bytes"]:
        return _too_large(memory["per_rank_bytes"], memory["capacity_bytes"])
    return Excluded(code="LAY034", reason=host_full(system, memory["host_bytes"]), nearest=None, limit="host_memory")


def _too_large(needed_bytes: int, capacity_bytes: int) -> Excluded:
    over = show_bytes(needed_bytes - capacity_bytes)
    reason = f"needs {show_bytes(needed_bytes)} a device, {over} more than its {show_bytes(capacity_bytes)}"
    return Excluded(code="LAY020", reason=reason, nearest=None, limit="capacity")


def too_large(item: Candidate, needed_bytes: int) -> Candidate:
    """A candidate that needs more than a device has."""
    return replace(item, fits=False, excluded=_too_large(needed_bytes, item.memory["capacity_bytes"]))


def _late(job: TrainJob, finish_s: float) -> Excluded:
    reason = f"ends after {show_seconds(finish_s)}, the deadline is {show_seconds(job.deadline or 0.0)}"
    return Excluded(code="LAY031", reason=reason, nearest=None, limit="deadline")
