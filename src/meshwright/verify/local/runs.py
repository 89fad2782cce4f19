"""A model, a layout and a batch go in; real steps of that layout on this rank come out, to be timed beside the rest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from meshwright.base.units import Tokens
from meshwright.runtime.checks import check_class, check_layout, check_schedule, check_sizes, shape_of
from meshwright.runtime.job import RunJob, checked_job
from meshwright.runtime.loop.samples import SyntheticTokens
from meshwright.runtime.loop.trainer import Batch, Recipe, trainer_of
from meshwright.runtime.parallel.shards import Precision
from meshwright.runtime.state.weights import made_up
from meshwright.runtime.world import join
from meshwright.scenarios.slot_orders import slot_orders
from meshwright.verify.local.probes import steps_of

if TYPE_CHECKING:
    from meshwright.layout.layout import Layout
    from meshwright.model.arithmetic import Arithmetic
    from meshwright.model.model import Model
    from meshwright.verify.local.actions import Action, Place
    from meshwright.workload.slots import Slots

PLAIN_SCHEDULE = "one_f_one_b"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealRun:
    """What is run in float32 on all ranks. arithmetic: what the model computes with beside its shapes."""

    model: Model
    arithmetic: Arithmetic
    layout: Layout
    batch: Batch


def checked_run(run: RealRun) -> RealRun:
    """The run itself, where it can be. Raises the codes of `runtime.checks` for a model, a layout or a batch."""
    slots_of(run)
    return run


def slots_of(run: RealRun) -> Slots:
    """The slot orders of its schedule, 1F1B where the layout has none. Raises as `checked_run`."""
    layout = replace(run.layout, schedule=run.layout.schedule or PLAIN_SCHEDULE, attention="data_parallel")
    job = checked_job(RunJob(global_batch=run.batch.global_batch, sequence=Tokens(run.batch.sequence)))
    check_class(run.model)
    check_layout(run.model, layout)
    shape = shape_of(layout, job)
    check_schedule(run.model, layout, shape)
    check_sizes(run.model, layout, job)
    return slot_orders(layout.schedule or PLAIN_SCHEDULE, shape)


def run_of(run: RealRun, place: Place) -> Action:
    """Its steps, on weights and samples from a seed."""
    world = join(run.layout, place.rank, place.device)
    precision = Precision(compute=torch.float32, kept=torch.float32, reduced=torch.float32)
    values = made_up(run.model, 0)
    recipe = Recipe(precision=precision)
    trainer = trainer_of(run.model, run.arithmetic, world, slots_of(run), run.batch, recipe, values)
    data = SyntheticTokens(seed=0, vocab=run.model.vocab, sequence=run.batch.sequence, ragged=False)
    return steps_of(trainer, data, place)
