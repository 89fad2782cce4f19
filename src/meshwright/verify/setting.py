"""A model, a layout, a recipe and a batch go in; what is run and predicted alike comes out, checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from meshwright.base.units import Tokens
from meshwright.cost.kept import in_operands
from meshwright.cost.pipelines import PLAIN as PLAIN_SCHEDULE
from meshwright.cost.pipelines import stage_modules
from meshwright.layout.layouts import table
from meshwright.layout.ownership import ZERO_OF_STATE, stage_of_layers
from meshwright.runtime.checks import (
    check_class,
    check_layout,
    check_recipe,
    check_schedule,
    check_sizes,
    shape_of,
)
from meshwright.runtime.job import RunJob, checked_job
from meshwright.scenarios.slot_orders import slot_orders
from meshwright.workload.recomputing import read_recompute
from meshwright.workload.slots import BACKWARD_INPUT, BACKWARD_WEIGHT, FORWARD, Shape

if TYPE_CHECKING:
    from meshwright.job.recipe import Recipe
    from meshwright.layout.layout import Layout
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model
    from meshwright.workload.slots import Slots


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One run. model: with products and messages in the format that the recipe computes in.

    global_batch: samples of a step over all ranks.   sequence: positions of one.   steps: of which the last is
    recorded.
    """

    model: Model
    layout: Layout
    recipe: Recipe
    global_batch: int
    sequence: int
    steps: int
    seed: int

    @property
    def layouts(self) -> Layouts:
        """The layout as a table of one row."""
        return table([self.layout])

    @property
    def micro_batches(self) -> int:
        """Of a rank in a step."""
        copies = self.layout.dp_replicate * self.layout.dp_shard
        return self.global_batch // copies // self.layout.micro_batch

    @cached_property
    def slots(self) -> Slots:
        """The slot orders of every pipeline rank."""
        shape = Shape(
            stages=self.layout.pp, micro_batches=self.micro_batches, virtual_stages=self.layout.virtual_stages
        )
        return slot_orders(self.layout.schedule or PLAIN_SCHEDULE, shape)


def setting_of(  # noqa: PLR0917 - the nouns
    model: Model, layout: Layout, recipe: Recipe, global_batch: int, sequence: int, steps: int, seed: int
) -> Setting:
    """Checked, as a run is. The layout's samples are dealt to all copies, and a single stage has the plain schedule.

    Raises the codes of `runtime.checks`.
    """
    layout = replace(layout, attention="data_parallel", schedule=layout.schedule or PLAIN_SCHEDULE)
    job = checked_job(RunJob(steps=steps, global_batch=global_batch, sequence=Tokens(sequence), seed=seed))
    check_class(model)
    check_recipe(recipe, "as given")
    check_layout(model, layout)
    shape = shape_of(layout, job)
    check_schedule(model, layout, shape)
    check_sizes(model, layout, job)
    return Setting(
        model=in_operands(model, recipe),
        layout=layout,
        recipe=recipe,
        global_batch=global_batch,
        sequence=sequence,
        steps=steps,
        seed=seed,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a pipeline rank holds and runs in a step; columns over layers of each kind, then the two ends of the model.

    modules: that it holds.   passes: of them, over all micro-batches, forward.   again: layers that run again whole in
    the backward of their pass, over all micro-batches.   last_again: of these, the last before what was kept.
    splits: whether weight gradients run in slots of their own.
    """

    modules: Any
    passes: Any
    again: Any
    last_again: Any
    splits: bool


def held_by(setting: Setting, rank: int) -> Held:
    """Of a pipeline rank."""
    model, slots = setting.model, setting.slots
    rows = len(model.kinds) + 2
    found = {name: np.zeros(rows, dtype=np.int64) for name in ("modules", "passes", "again", "last_again")}
    stages = stage_modules(model.kind_of_layer, slots.virtual_stages)
    layers = stage_of_layers(model.layers, slots.virtual_stages)
    policy = read_recompute(setting.layout.recompute)
    whole = setting.layout.recompute != "none" and policy.rebuilt == "layer"
    for way, stage in np.argwhere(slots.placement == rank).tolist():
        mine = (slots.direction == way) & (slots.virtual_stage == stage) & (slots.kind == FORWARD)
        times = int(mine.sum())
        np.add.at(found["modules"], list(stages[stage]), 1)
        np.add.at(found["passes"], list(stages[stage]), times)
        for place, layer in enumerate(layers[stage]) if whole else ():
            kind = model.kind_of_layer[layer]
            chunk_ends = (place + 1) % policy.chunk == 0 or place + 1 == len(layers[stage])
            if place % policy.every == 0:
                found["again"][kind] += times
                found["last_again"][kind] += times if chunk_ends else 0
    own = slots.kind[slots.rank == rank]
    return Held(**found, splits=bool((own >= 2).any()))  # noqa: PLR2004 - halves of a backward


def twice_in_a_row(setting: Setting, rank: int) -> Any:
    """By column of `Held`: weight gradients of a stage behind another with no gradient of its inputs between them."""
    found = np.zeros(len(setting.model.kinds) + 2, dtype=np.int64)
    slots = setting.slots
    stages = stage_modules(setting.model.kind_of_layer, slots.virtual_stages)
    fresh: dict[tuple[int, int], bool] = {}
    if setting.layout.zero < ZERO_OF_STATE["gradients"]:
        return found
    for row in np.flatnonzero(slots.rank == rank).tolist():
        part = int(slots.direction[row]), int(slots.virtual_stage[row])
        kind = int(slots.kind[row])
        if kind == BACKWARD_WEIGHT:
            if not fresh.get(part, False):
                np.add.at(found, list(stages[part[1]]), 1)
            fresh[part] = False
        elif kind == BACKWARD_INPUT:
            fresh[part] = True
    return found


def rows_of(setting: Setting) -> dict[str, int]:
    """The columns of `Held` that are no layers."""
    return {"first": len(setting.model.kinds), "last": len(setting.model.kinds) + 1}


def sharded(layout: Layout) -> Layout:
    """The layout with all state cut as FSDP2 keeps it between steps, from zero 1 on: as zero 3 has it."""
    return replace(layout, zero=ZERO_OF_STATE["parameters"]) if layout.zero else layout
