"""The nouns and a table of layouts go in; memory, step and finish of every row come out, as columns."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from meshwright.base.numbers import maximum
from meshwright.base.traced import cell, named, values
from meshwright.cost.overheads import devices_failures_per_s, finish_s, overhead_fraction
from meshwright.cost.pipelines import pipelines
from meshwright.cost.stragglers import straggler_s
from meshwright.cost.training import estimate_training
from meshwright.cost.training_activations import activation_columns
from meshwright.cost.training_memory import training_ledger
from meshwright.cost.training_state import state_columns
from meshwright.job.train import steps_of
from meshwright.layout.layouts import Layouts, apart
from meshwright.scenarios._training_space import micro_batches

if TYPE_CHECKING:
    from meshwright.base.numbers import Bools, Floats, Ints
    from meshwright.cost.pipelines import Pipelines
    from meshwright.cost.training import TrainingStep
    from meshwright.cost.training_activations import ActivationColumns
    from meshwright.cost.training_memory import TrainingLedger
    from meshwright.cost.training_state import StateColumns
    from meshwright.job.train import TrainJob
    from meshwright.model.model import Model
    from meshwright.scenarios._training_options import TrainOptions
    from meshwright.system.system import System

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingTable:
    """Columns, one row a layout.

    count: micro-batches of a rank.   straggler_s: waiting for the slowest device, beyond the mean.   input_wait_s: for
    sequences.   step_s: of all parts.   overhead: share of saves, rework and recovery.   useful_s: of all steps.
    finish_s: with overhead and planned stops.   fits: a rank holds it.   on_time: by the deadline.
    """

    layouts: Layouts
    count: Ints
    ledger: TrainingLedger
    step: TrainingStep
    straggler_s: Floats
    input_wait_s: Floats
    step_s: Floats
    overhead: Floats
    useful_s: Floats
    finish_s: Floats
    fits: Bools
    on_time: Bools

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.layouts)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """What of each row follows from the layout, the model and the batch alone; no rate, time or bound moves it.

    count: micro-batches of a rank.   lines: what its pipeline ranks hold.   state, kept: bytes of one layer.
    saved_bytes: of a save, one number.
    """

    layouts: Layouts
    count: Ints
    lines: Pipelines
    state: StateColumns
    kept: ActivationColumns
    saved_bytes: int

    def take(self, rows: Ints) -> Rows:
        """The chosen rows; each may be chosen often, and none is taken for another."""
        return Rows(
            layouts=apart(self.layouts.take(rows)),
            count=self.count[rows],
            lines=taken(self.lines, rows),
            state=taken(self.state, rows),
            kept=taken(self.kept, rows),
            saved_bytes=self.saved_bytes,
        )


def taken(columns: T, rows: Ints) -> T:
    """The chosen rows of a record of columns."""
    found: Any = columns
    return replace(found, **{item.name: getattr(found, item.name)[rows] for item in fields(found)})


def training_table(
    model: Model, system: System, job: TrainJob, options: TrainOptions, layouts: Layouts
) -> TrainingTable:
    """Every row evaluated. Source: chapter "Training systems", sections 10.2.4, 10.3.3, 10.6.1."""
    rows = rows_of(model, job, options, layouts)
    ledger, step = ledger_of(options, rows), step_of(model, system, job, options, rows)
    return table_of(system, job, options, rows, ledger, step)


def rows_of(model: Model, job: TrainJob, options: TrainOptions, layouts: Layouts) -> Rows:
    """What of every row follows from the layout, the model and the batch alone."""
    count = micro_batches(job, layouts)
    return Rows(
        layouts=layouts,
        count=count,
        lines=pipelines(model, layouts, maximum(count, 1)),
        state=state_columns(model, layouts, job.recipe, shards=options.shards),
        kept=activation_columns(model, layouts, sequence=job.sequence, kernel=options.kernel, loss=options.loss),
        saved_bytes=save_bytes(model, job),
    )


def ledger_of(options: TrainOptions, rows: Rows) -> TrainingLedger:
    """Bytes of every row; budget and workspace may be columns."""
    budget: Any = None if options.activation_budget is None else np.asarray(options.activation_budget)[..., None]
    ahead = 1 if options.prefetch == "on" else 0
    return training_ledger(rows.layouts, rows.lines, rows.state, rows.kept, options.workspace, budget, ahead)


def step_of(model: Model, system: System, job: TrainJob, options: TrainOptions, rows: Rows) -> TrainingStep:
    """Seconds of a step of every row; rates and times of the system, and the efficiency, may be columns."""
    count = maximum(rows.count, 1)
    return estimate_training(model, system, job, rows.layouts, options.assumptions, count, rows.lines, rows.state)


def table_of(  # noqa: PLR0917 - the nouns, and what follows from them
    system: System,
    job: TrainJob,
    options: TrainOptions,
    rows: Rows,
    ledger: TrainingLedger,
    step: TrainingStep,
) -> TrainingTable:
    """The calendar of steps, and whether it and the bytes are within their bounds; numbers may be columns."""
    straggler = _straggler_s(system, options, step)
    before = step.total_s + straggler
    wait = _input_wait_s(job, options, before)
    whole = named(before + wait, "step_s")
    rate, stall = failures_per_s(system, options), _write_s(rows.saved_bytes, options)
    overhead = overhead_fraction(options.checkpoint_interval, stall, 0.0, rate, options.restart)
    useful = named(whole * steps_of(job), "useful_s")
    finish = named(finish_s(steps_of(job), whole, overhead, job.reserve), "finish_s")
    fits = values(ledger.total) <= capacity_bytes(system, options)
    return TrainingTable(
        layouts=rows.layouts,
        count=rows.count,
        ledger=ledger,
        step=step,
        straggler_s=straggler,
        input_wait_s=wait,
        step_s=whole,
        overhead=np.full(len(rows.layouts), overhead),
        useful_s=useful,
        finish_s=finish,
        fits=fits & (rows.count > 0),
        on_time=np.ones(len(rows.layouts), np.bool_) if job.deadline is None else values(finish) <= job.deadline,
    )


def capacity_bytes(system: System, options: TrainOptions) -> int:
    """Bytes of a device that a rank may use."""
    return system.accelerator.memory if options.usable_memory is None else options.usable_memory


def save_bytes(model: Model, job: TrainJob) -> int:
    """Bytes of a save: parameters and what the optimizer keeps, no gradients. Source: chapter, section 10.4.2."""
    held = whole_state(model, job)
    return held["parameters"] + held["optimizer_state"]


def whole_state(model: Model, job: TrainJob) -> dict[str, int]:
    """Bytes of the whole model's state, as one rank would hold it."""
    from meshwright.layout.layout import Layout  # noqa: PLC0415
    from meshwright.layout.layouts import table  # noqa: PLC0415

    state = state_columns(model, table([Layout()]), job.recipe)
    counts = (*model.kind_counts, 1, 1)
    return {
        name: sum(cell(getattr(state, name)[0], place) * count for place, count in enumerate(counts))
        for name in ("parameters", "gradients", "optimizer_state")
    }


def failures_per_s(system: System, options: TrainOptions) -> float:
    """Failures of the job: of its devices, and its loss spikes."""
    spikes = 0.0 if options.spike_interval is None else 1.0 / options.spike_interval
    if options.job_mtbf is not None:
        return 1.0 / options.job_mtbf + spikes
    if options.card_mtbf is None:
        return spikes
    return devices_failures_per_s(system.devices, options.card_mtbf, spikes)


def save_s(model: Model, job: TrainJob, options: TrainOptions) -> float:
    """How long a save holds training; nothing where no rate is given."""
    return _write_s(save_bytes(model, job), options)


def _write_s(saved_bytes: int, options: TrainOptions) -> Any:
    return 0.0 if options.storage_write is None else saved_bytes / options.storage_write


def _straggler_s(system: System, options: TrainOptions, step: TrainingStep) -> Floats:
    if np.all(options.straggler_sigma == 0):
        return np.zeros(len(step.total_s))
    return straggler_s(step.compute_s, options.straggler_sigma, system.devices)


def _input_wait_s(job: TrainJob, options: TrainOptions, step_s: Floats) -> Floats:
    """As stated, or what preparing the next batch takes longer than the step."""
    if options.prep_workers is not None and options.prep_rate is not None:
        return maximum(job.global_batch / (options.prep_workers * options.prep_rate) - step_s, 0.0)
    return step_s * 0.0 + (0.0 if options.input_wait is None else options.input_wait)
