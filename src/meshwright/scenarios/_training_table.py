"""The nouns and a table of layouts go in; memory, step and finish of every row come out, as columns."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from meshwright.base.numbers import maximum
from meshwright.base.traced import cell, named, values
from meshwright.cost import input_pipeline
from meshwright.cost.kept import in_operands, saved_parts
from meshwright.cost.overheads import finish_s
from meshwright.cost.pipelines import pipelines
from meshwright.cost.stragglers import straggler_s
from meshwright.cost.training import estimate_training
from meshwright.cost.training_activations import activation_columns
from meshwright.cost.training_memory import training_ledger
from meshwright.cost.training_offload import gradient_cast, moved_columns, offload_wait_s
from meshwright.cost.training_state import state_columns
from meshwright.job.train import steps_of
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import Layouts, apart, table
from meshwright.scenarios._training_host import host_holds, host_path
from meshwright.scenarios._training_overheads import expected_saving, first_order, hardware_failures_per_s
from meshwright.scenarios._training_space import micro_batches

if TYPE_CHECKING:
    from meshwright.base.numbers import Bools, Floats, Ints
    from meshwright.cost.pipelines import Pipelines
    from meshwright.cost.training import TrainingStep
    from meshwright.cost.training_activations import ActivationColumns
    from meshwright.cost.training_memory import TrainingLedger
    from meshwright.cost.training_offload import GradientCast, HostPath, Moved
    from meshwright.cost.training_state import StateColumns
    from meshwright.job.train import TrainJob
    from meshwright.model.model import Model
    from meshwright.scenarios._training_options import TrainOptions
    from meshwright.system.system import System

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingTable:
    """Columns, one row a layout.

    count: micro-batches of a rank.   straggler_s: waiting for the slowest device, beyond the mean.
    offload_wait_s, input_wait_s: for the host, for sequences.   host_bytes: of the device that keeps most there.
    step_s: of all parts.   overhead: share of saves, rework and recovery.   useful_s: of all steps.   finish_s: with
    overhead and planned stops.   fits: a rank, and its host, hold it.   on_time: by the deadline.
    """

    layouts: Layouts
    count: Ints
    ledger: TrainingLedger
    step: TrainingStep
    straggler_s: Floats
    offload_wait_s: Floats
    input_wait_s: Floats
    host_bytes: Ints
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
    moved: what is offloaded, None where nothing is; path, cast: to the host, None where it is not known.
    saved_bytes: of a save, one number.
    """

    layouts: Layouts
    count: Ints
    lines: Pipelines
    state: StateColumns
    kept: ActivationColumns
    moved: Moved | None
    path: HostPath | None
    cast: GradientCast | None
    saved_bytes: int

    def take(self, rows: Ints) -> Rows:
        """The chosen rows; each may be chosen often, and none is taken for another."""
        return Rows(
            layouts=apart(self.layouts.take(rows)),
            count=self.count[rows],
            lines=taken(self.lines, rows),
            state=taken(self.state, rows),
            kept=taken(self.kept, rows),
            moved=None if self.moved is None else self.moved.take(rows),
            path=self.path,
            cast=self.cast,
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
    rows = rows_of(model, system, job, options, layouts)
    ledger, step = ledger_of(options, rows), step_of(model, system, job, options, rows)
    return table_of(system, job, options, rows, ledger, step)


def rows_of(model: Model, system: System, job: TrainJob, options: TrainOptions, layouts: Layouts) -> Rows:
    """What of every row follows from the layout, the model and the batch alone; of the system only the host counts."""
    count = micro_batches(job, layouts)
    lines = pipelines(model, layouts, maximum(count, 1))
    state = state_columns(model, layouts, job.recipe, shards=options.shards)
    kept = activation_columns(
        in_operands(model, job.recipe),
        layouts,
        sequence=job.sequence,
        kernel=options.kernel,
        loss=options.loss,
        elementwise=options.elementwise,
        experts=options.experts,
        context=options.context,
    )
    path = host_path(system)
    cast = None if path is None else gradient_cast(job.recipe, path)
    return Rows(
        layouts=layouts,
        count=count,
        lines=lines,
        state=state,
        kept=kept,
        moved=moved_columns(model, layouts, job.recipe, lines, state, kept, cast, options.shards),
        path=path,
        cast=cast,
        saved_bytes=save_bytes(model, job),
    )


def ledger_of(options: TrainOptions, rows: Rows) -> TrainingLedger:
    """Bytes of every row; budget and workspace may be columns."""
    budget: Any = None if options.activation_budget is None else np.asarray(options.activation_budget)[..., None]
    ahead = 1 if options.prefetch == "on" else 0
    kept, moved = rows.kept, rows.moved
    return training_ledger(rows.layouts, rows.lines, rows.state, kept, options.workspace, budget, ahead, moved)


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
    moved, path, cast = rows.moved, rows.path, rows.cast
    offload = np.zeros(len(rows.layouts))
    if moved is not None and path is not None and cast is not None:
        offload = offload_wait_s(moved, path, cast, step, maximum(rows.count, 1))
    host = np.zeros(len(rows.layouts), dtype=np.int64) if moved is None else moved.host_bytes
    before = step.total_s + straggler + offload
    wait = input_wait_s(job, options, before)
    whole = named(before + wait, "step_s")
    overhead = first_order(expected_saving(rows.saved_bytes, system, options))
    useful = named(whole * steps_of(job), "useful_s")
    finish = named(finish_s(steps_of(job), whole, overhead, job.reserve), "finish_s")
    fits = (values(ledger.total) <= capacity_bytes(system, options)) & host_holds(system, values(host))
    return TrainingTable(
        layouts=rows.layouts,
        count=rows.count,
        ledger=ledger,
        step=step,
        straggler_s=straggler,
        offload_wait_s=offload,
        input_wait_s=wait,
        host_bytes=host,
        step_s=whole,
        overhead=np.full(len(rows.layouts), overhead),
        useful_s=useful,
        finish_s=finish,
        fits=fits & (rows.count > 0),
        on_time=np.ones(len(rows.layouts), np.bool_) if job.deadline is None else values(finish) <= job.deadline,
    )


def finish_of(model: Model, system: System, job: TrainJob, options: TrainOptions, seconds: Floats) -> Floats:
    """The finish with steps of so many seconds, before they wait for input."""
    overhead = first_order(expected_saving(save_bytes(model, job), system, options))
    return finish_s(steps_of(job), seconds + input_wait_s(job, options, seconds), overhead, job.reserve)


def capacity_bytes(system: System, options: TrainOptions) -> int:
    """Bytes of a device that a rank may use."""
    return system.accelerator.memory if options.usable_memory is None else options.usable_memory


def save_bytes(model: Model, job: TrainJob) -> int:
    """Bytes of a save: parameters and what the optimizer keeps, no gradients. Source: chapter, section 10.4.2."""
    return sum(saved_parts(model, job.recipe).values())


def whole_state(model: Model, job: TrainJob) -> dict[str, int]:
    """Bytes of the whole model's state, as one rank would hold it."""
    state = state_columns(model, table([Layout()]), job.recipe)
    counts = (*model.kind_counts, 1, 1)
    return {
        name: sum(cell(getattr(state, name)[0], place) * count for place, count in enumerate(counts))
        for name in ("parameters", "gradients", "optimizer_state")
    }


def failures_per_s(system: System, options: TrainOptions) -> float:
    """Failures of the job: of its hardware, and its loss spikes."""
    spikes = 0.0 if options.spike_interval is None else 1.0 / options.spike_interval
    return hardware_failures_per_s(system, options) + spikes


def save_s(model: Model, job: TrainJob, options: TrainOptions) -> float:
    """How long a save is written; nothing where no rate is given."""
    return 0.0 if options.storage_write is None else save_bytes(model, job) / options.storage_write


def _straggler_s(system: System, options: TrainOptions, step: TrainingStep) -> Floats:
    if np.all(options.straggler_sigma == 0):
        return np.zeros(len(step.total_s))
    return straggler_s(step.compute_s, options.straggler_sigma, system.devices)


def input_wait_s(job: TrainJob, options: TrainOptions, step_s: Floats) -> Floats:
    """As stated, or what preparing the next batch takes longer than the step."""
    if options.prep_workers is not None and options.prep_rate is not None:
        return input_pipeline.input_wait_s(step_s, job.global_batch, options.prep_workers, options.prep_rate)
    return step_s * 0.0 + (0.0 if options.input_wait is None else options.input_wait)
