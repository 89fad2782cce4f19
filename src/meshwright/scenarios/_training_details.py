"""Candidates and their table go in; they come out with their system, rent, and what their channel carries, by row."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from meshwright.base.errors import JobError
from meshwright.base.traced import cell
from meshwright.base.units import show_bytes
from meshwright.cost.training_exchange import state_exchange
from meshwright.cost.training_state import state_columns
from meshwright.layout.ownership import ZERO_OF_STATE

if TYPE_CHECKING:
    from meshwright.base.result import Candidate
    from meshwright.job.train import TrainJob
    from meshwright.model.model import Model
    from meshwright.scenarios._training_options import TrainOptions
    from meshwright.scenarios._training_table import TrainingTable
    from meshwright.system.system import System

_GB, _GIB = 10**9, 2**30
"""What a datasheet calls 80 GB may be 80 GiB, which a driver reports and a rank may use."""


def with_details(  # noqa: PLR0917 - the nouns, and what was found
    model: Model,
    system: System,
    job: TrainJob,
    options: TrainOptions,
    table: TrainingTable,
    found: tuple[Candidate, ...],
) -> tuple[Candidate, ...]:
    """The candidates of a table, in its order.

    calendar: all steps, what saves and failures add, planned stops, and their sum.   exposed_fraction: of the step,
    communication that is waited for.   state_exchange: see `channel_rows`.   cost, cost_without_stops: rent with and
    without planned stops.
    """
    rows = channel_rows(model, system, job, options, table)
    price = price_of(system, options)
    detailed: list[Candidate] = []
    for item, channel in zip(found, rows, strict=True):
        step, own = item.measures["step"], item.measures
        overhead = own["useful_s"] * own["overhead_fraction"]
        more = {
            "calendar": {
                "useful_s": own["useful_s"],
                "overhead_s": overhead,
                "planned_stops_s": job.reserve,
                "total_s": own["finish_s"],
            },
            "exposed_fraction": step["exposed_comm_s"] / step["total_s"],
            "state_exchange": channel,
            "cost": None if price is None else own["gpu_hours_with_stops"] * price,
            "cost_without_stops": None if price is None else own["gpu_hours"] * price,
        }
        detailed.append(replace(item, measures={"system": system.id, **own, **more}))
    return tuple(detailed)


def check_fitting(system: System, options: TrainOptions) -> None:
    """Nothing, where the options are of this system. Raises JOB026 (cost without a price), JOB027 (memory)."""
    if options.objective == "cost" and price_of(system, options) is None:
        cause = f"--objective cost: {system.id} has no price"
        raise JobError(26, cause, "give --price, or device_price in the system's file")
    memory = system.accelerator.memory
    most = memory * _GIB // _GB
    if options.usable_memory is not None and options.usable_memory > most:
        cause = f"--usable-memory {show_bytes(options.usable_memory)}: a device of {system.id} has {show_bytes(memory)}"
        raise JobError(27, cause, f"give at most {most}B")


def price_of(system: System, options: TrainOptions) -> float | None:
    """Of a device for an hour: as asked, or as the system says."""
    return system.device_price if options.price is None else options.price


def channel_rows(
    model: Model, system: System, job: TrainJob, options: TrainOptions, table: TrainingTable
) -> list[dict[str, Any]]:
    """One record a row of the table: what `_each_micro_batch` says, and the largest layer and the first module.

    layer_bytes, layer_gather_s: of the layer with most to gather.   first_bytes: of the embedding and what goes with
    it. Source: chapter "Training systems", section 10.3.3.
    """
    if not len(table):
        return []
    moved = state_exchange(model, system, table.layouts, job.recipe, options.nic)
    state = state_columns(model, table.layouts, job.recipe, shards=options.shards)
    kinds = range(len(model.kinds))
    found: list[dict[str, Any]] = []
    for row in range(len(table)):
        layer = max(kinds, key=lambda kind: int(state.gathered[row, kind]))
        found.append(
            {
                **_each_micro_batch(table, row),
                "layer_bytes": cell(state.gathered[:, layer], row),
                "layer_gather_s": cell(moved.gather_s[:, layer], row),
                "first_bytes": cell(state.gathered[:, -2], row),
            }
        )
    return found


def _each_micro_batch(table: TrainingTable, row: int) -> dict[str, Any]:
    """collectives: gathers and reductions of all weights, every micro-batch.   sent_bytes: of a rank, in one of them.

    busy_s: of the channel, and compute_s of the rank, a micro-batch on average.
    """
    zero, count = table.layouts.row(row).zero, max(int(table.count[row]), 1)
    collectives = 2 * (zero == ZERO_OF_STATE["parameters"]) + (zero >= ZERO_OF_STATE["gradients"])
    sent = cell(table.step.sent_bytes, row)
    return {
        "collectives": collectives,
        "sent_bytes": sent / (collectives * count) if collectives else sent * 0,
        "busy_s": cell(table.step.channel_s, row) / count,
        "compute_s": cell(table.step.compute_s, row) / count,
    }
