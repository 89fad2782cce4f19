"""A table of ranked layouts goes in; candidates with their step, calendar and memory come out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from meshwright.base.result import Candidate, Excluded
from meshwright.base.traced import cell
from meshwright.base.units import show_bytes, show_seconds
from meshwright.cost.model_flops import model_flops
from meshwright.job.train import step_tokens
from meshwright.layout.layout import fields_of
from meshwright.layout.rules import first_broken
from meshwright.scenarios._training_table import capacity_bytes
from meshwright.workload.slots import Shape, read_schedule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meshwright.job.train import TrainJob
    from meshwright.layout.layout import Layout
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
    return tuple(_candidate(model, system, job, options, table, row) for row in range(len(table)))


def _candidate(  # noqa: PLR0917 - the nouns, and which
    model: Model, system: System, job: TrainJob, options: TrainOptions, table: TrainingTable, row: int
) -> Candidate:
    layout = table.layouts.row(row)
    memory = _memory(system, options, table, row)
    measures = _measures(model, system, job, options, table, row)
    refused = _refused(model, system, job, layout, table, row)
    late = not bool(table.on_time[row])
    fits = refused is None and bool(table.fits[row])
    excluded = refused or (None if fits else _too_large(memory))
    if excluded is None and late:
        excluded = _late(job, measures)
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
    found["fullest_stage"] = int(ledger.stage[row])
    return found


def _measures(  # noqa: PLR0917 - the nouns, and which
    model: Model, system: System, job: TrainJob, options: TrainOptions, table: TrainingTable, row: int
) -> dict[str, Any]:
    step, total = table.step, cell(table.step_s, row)
    devices = system.devices
    peak = devices * system.accelerator.peak_for((job.recipe.compute, "bf16", "fp16"))[1]
    ranks = devices / table.layouts.row(row).pp
    useful = cell(table.useful_s, row)
    busy = useful * (1 + cell(table.overhead, row))
    calendar = cell(table.finish_s, row)
    return {
        "step": {
            "compute_s": cell(step.compute_s, row),
            "exposed_comm_s": cell(step.exposed_comm_s, row),
            "bubble_s": cell(step.bubble_s, row),
            "update_s": cell(step.update_s, row),
            "straggler_s": cell(table.straggler_s, row),
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
        "cost": None if options.price is None else calendar * devices / HOUR_S * options.price,
        "energy_j": None if system.node_power is None else calendar * system.node_power * system.nodes,
        "mfu": model_flops(model, job.sequence) * job.global_batch / (total * peak),
        "hfu": cell(step.hardware_flops, row) * ranks / (total * peak),
        "tokens_per_s_per_gpu": step_tokens(job.global_batch, job.sequence) / (total * devices),
        "peak_rank": int(table.ledger.stage[row]),
    }


def _refused(  # noqa: PLR0917 - the nouns, and which
    model: Model, system: System, job: TrainJob, layout: Layout, table: TrainingTable, row: int
) -> Excluded | None:
    """The rule that a layout breaks, which only one that the user fixed can."""
    broken = first_broken(model, table.layouts.take([row]), system.devices)[0]
    if broken is not None:
        return Excluded(code=broken.code, reason=broken.reason, nearest=broken.nearest, limit="rule")
    copies = layout.dp_shard * layout.dp_replicate
    if not table.count[row]:
        sizes = [size for size in range(1, job.global_batch + 1) if job.global_batch % (copies * size) == 0]
        near = min(sizes, key=lambda size: abs(size - layout.micro_batch), default=None)
        reason = f"{job.global_batch} sequences are no whole number of micro-batches of {layout.micro_batch}"
        nearest = None if near is None else f"micro_batch={near}"
        return Excluded(code="LAY033", reason=f"{reason} on {copies} copies", nearest=nearest, limit="rule")
    if layout.pp > 1:
        name = layout.schedule or "one_f_one_b"
        shape = Shape(stages=layout.pp, micro_batches=int(table.count[row]), virtual_stages=layout.virtual_stages)
        refusal = read_schedule(name).refusal(shape)
        if refusal is not None:
            near = None if refusal.nearest is None else f"num_micro_batches={refusal.nearest}"
            return Excluded(code=refusal.code, reason=f"{name}: {refusal.reason}", nearest=near, limit="schedule")
    return None


def _too_large(memory: Mapping[str, Any]) -> Excluded:
    over = memory["per_rank_bytes"] - memory["capacity_bytes"]
    reason = (
        f"needs {show_bytes(memory['per_rank_bytes'])} a device, "
        f"{show_bytes(over)} more than its {show_bytes(memory['capacity_bytes'])}"
    )
    return Excluded(code="LAY020", reason=reason, nearest=None, limit="capacity")


def _late(job: TrainJob, measures: Mapping[str, Any]) -> Excluded:
    reason = f"ends after {show_seconds(measures['finish_s'])}, the deadline is {show_seconds(job.deadline or 0.0)}"
    return Excluded(code="LAY031", reason=reason, nearest=None, limit="deadline")
