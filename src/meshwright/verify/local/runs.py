"""A model, a layout and a batch go in; real steps of that layout on this rank come out, to be timed beside the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from meshwright.base.errors import RunError
from meshwright.layout.layouts import table
from meshwright.layout.rules import first_broken
from meshwright.runtime.loop.samples import SyntheticTokens
from meshwright.runtime.loop.trainer import Batch, Recipe, trainer_of
from meshwright.runtime.parallel.shards import Precision
from meshwright.runtime.state.weights import made_up
from meshwright.runtime.world import join
from meshwright.scenarios._shared import rule_error
from meshwright.scenarios.slot_orders import slot_orders
from meshwright.verify.local.probes import steps_of
from meshwright.workload.slots import Shape

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
    """The run itself, where it can be.

    Raises RUN038 for an axis that this loop does not have or a batch that does not divide, and the codes of rules and
    of schedules.
    """
    layout, batch = run.layout, run.batch
    unknown = [axis for axis in ("replicas", "cp", "ep", "etp") if getattr(layout, axis) > 1]
    if unknown:
        raise RunError(38, f"{layout.id}: a local run has no {unknown[0]}", "leave it out, or 1")
    broken = first_broken(run.model, table([layout]), layout.world_size)[0]
    if broken is not None:
        raise rule_error(broken)
    copies = layout.dp_replicate * layout.dp_shard * layout.micro_batch
    if batch.global_batch < copies or batch.global_batch % copies:
        cause = f"{batch.global_batch} sequences are not a number of micro-batches for {copies} at a time"
        raise RunError(38, cause, f"--global-batch {max(1, round(batch.global_batch / copies)) * copies}")
    slots_of(run)
    return run


def slots_of(run: RealRun) -> Slots:
    """The slot orders of its schedule, 1F1B where the layout has none. Raises the schedule's code for a shape."""
    layout = run.layout
    copies = layout.dp_replicate * layout.dp_shard * layout.micro_batch
    shape = Shape(
        stages=layout.pp, micro_batches=run.batch.global_batch // copies, virtual_stages=layout.virtual_stages
    )
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
