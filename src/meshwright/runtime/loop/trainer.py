"""A model, a layout, slot orders and a world go in; a trainer of steps comes out: stages, sums, clipping and AdamW."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor

from meshwright.layout.ownership import stage_of_layers
from meshwright.runtime.modules.decoder import Share, Stage
from meshwright.runtime.modules.linear import Later
from meshwright.runtime.modules.recompute import wraps_of
from meshwright.runtime.parallel.shards import Precision, shard
from meshwright.runtime.parallel.sums import Sums, canonical, of_step, sum_gradients, sums_of
from meshwright.runtime.parallel.vocabulary import NO_LABEL
from meshwright.runtime.pipeline.executor import Pipeline, Samples, Wire
from meshwright.runtime.pipeline.orders import orders_of
from meshwright.runtime.state.weights import Values, fill, kept, ranges_of, weights_of
from meshwright.runtime.world import SAMPLES, World, summed_over

if TYPE_CHECKING:
    from meshwright.model.arithmetic import Arithmetic
    from meshwright.model.model import Model
    from meshwright.workload.slots import Slots

Sampler: TypeAlias = Callable[[int], tuple[Tensor, Tensor]]
"""Tokens and labels [positions] of the sample at a global index."""


_BESIDE = 1e-6
"""What torch adds to a norm before it divides by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a step updates. clip: the largest norm of the whole gradient.   betas, epsilon, decay: of AdamW.

    Source of the defaults: torchtitan, Llama 3 configurations (8e-4 is that of its debug model).
    """

    precision: Precision
    rate: float = 8e-4
    betas: tuple[float, float] = (0.9, 0.95)
    epsilon: float = 1e-8
    decay: float = 0.1
    clip: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """global_batch: samples of a step over all ranks.   sequence: positions of one."""

    global_batch: int
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Of one step, on every rank. loss: a token, over all tokens.   norm: of the gradient before clipping.

    tokens: with a label, over all ranks.
    """

    loss: float
    norm: float
    tokens: int


@dataclass(slots=True, kw_only=True)
class Trainer:
    """One rank of a run. stages: by (direction, virtual stage).   parameters: by canonical name, once a module."""

    model: Model
    world: World
    batch: Batch
    recipe: Recipe
    stages: Mapping[tuple[int, int], Stage]
    pipeline: Pipeline
    sums: Sums
    parameters: Sequence[tuple[str, Tensor]]
    optimizer: torch.optim.Optimizer
    updated: Sequence[Tensor]

    def step(self, number: int, sampler: Sampler) -> Report:
        """Forward, backward, sums, clipping, update. The loss and the norm are those of the whole step."""
        samples = self._samples(number, sampler)
        loss = self.pipeline.run(samples)
        sum_gradients(self.parameters, self.sums)
        norm, whole = of_step(self.parameters, self.sums, self.world, loss)
        self._update(norm)
        return Report(loss=whole, norm=norm, tokens=samples.total)

    def _update(self, norm: float) -> None:
        """AdamW on what this rank keeps, with gradients scaled down where their norm is above the limit.

        The scale is that of torch's `clip_grad_norm_`.
        """
        scale = self.recipe.clip / (norm + _BESIDE)
        for (_, parameter), own in zip(self.parameters, self.updated, strict=True):
            own.grad = None if parameter.grad is None else kept(parameter.grad)
            if own.grad is not None and not scale >= 1:  # a norm that is no number makes every gradient one
                own.grad.mul_(scale)
        self.optimizer.step()
        for (_, parameter), own in zip(self.parameters, self.updated, strict=True):
            parameter.grad = own.grad = None

    def _samples(self, number: int, sampler: Sampler) -> Samples:
        """This rank's samples of a step, in micro-batches; the count of labels is agreed on over all copies."""
        size, local = self.world.layout.micro_batch, self.batch.global_batch // self.world.copies
        first = number * self.batch.global_batch + self.world.copy * local
        pairs = [sampler(first + place) for place in range(local)]
        device = self.world.device
        tokens, labels = (torch.stack(column).to(device) for column in zip(*pairs, strict=True))
        total = summed_over(self.world, (labels != NO_LABEL).sum(), SAMPLES)
        return Samples(tokens=tokens.split(size), labels=labels.split(size), total=int(total))


def trainer_of(  # noqa: PLR0917 - the nouns of a run
    model: Model,
    arithmetic: Arithmetic,
    world: World,
    slots: Slots,
    batch: Batch,
    recipe: Recipe,
    values: Values,
) -> Trainer:
    """The trainer of one rank: its stages on its device, filled with `values`, sharded as the layout says."""
    layout, number = world.layout, world.place["pp"]
    orders, later = orders_of(slots, number), Later()
    later.splits = orders.splits
    used = ranges_of(model, layout, world.rank, "gathered")
    owned = ranges_of(model, layout, world.rank, "optimizer_state")
    share = Share(ranges=used, tp=world.tensor_group, later=later, wraps=wraps_of(layout.recompute))
    layers = stage_of_layers(model.layers, slots.virtual_stages)
    stages: dict[tuple[int, int], Stage] = {}
    for part in orders.parts:
        together = model.tied and slots.virtual_stages == 1  # leaving meta would part a tied head from its table
        with torch.device(world.device if together else "meta"):
            stage = Stage(model, arithmetic, layers[part[1]], share).to(recipe.precision.kept)
        shard(stage, world, recipe.precision)
        stages[part] = stage if together else stage.to_empty(device=world.device)
        fill(stage, owned, values)
    sums = sums_of(model, world, holders_of(model, slots))
    found = [
        (canonical(name, tied=model.tied), parameter)
        for stage in stages.values()
        for name, parameter in stage.named_parameters()
    ]
    updated = [kept(parameter).detach().requires_grad_() for _, parameter in found]
    optimizer = torch.optim.AdamW(
        updated, lr=recipe.rate, betas=recipe.betas, eps=recipe.epsilon, weight_decay=recipe.decay
    )
    cut = layout.tp if layout.sp else 1
    wire = Wire(
        world=world,
        incoming=orders.incoming,
        shape=(layout.micro_batch, batch.sequence // cut, model.hidden),
        dtype=recipe.precision.compute,
    )
    wire.open(orders.pairs)
    pipeline = Pipeline(world=world, orders=orders, stages=stages, wire=wire, later=later)
    return Trainer(
        model=model,
        world=world,
        batch=batch,
        recipe=recipe,
        stages=stages,
        pipeline=pipeline,
        sums=sums,
        parameters=found,
        optimizer=optimizer,
        updated=updated,
    )


def holders_of(model: Model, slots: Slots) -> dict[str, list[int]]:
    """By canonical name of a weight, the pipeline ranks whose modules hold it, one entry a module."""
    layers = stage_of_layers(model.layers, slots.virtual_stages)
    found: dict[str, list[int]] = {}
    for item in weights_of(model).values():
        if item.name == "lm_head.weight" and model.tied and slots.virtual_stages == 1:
            continue  # one parameter
        first = item.name == "model.embed_tokens.weight"
        stage = (
            next(place for place, held in enumerate(layers) if item.layer in held)
            if item.layer is not None
            else (0 if first else slots.virtual_stages - 1)
        )
        for direction in range(len(slots.placement)):
            name = canonical(item.name, tied=model.tied)
            found.setdefault(name, []).append(int(slots.placement[direction, stage]))
    return found
