"""Slot orders and sleep times go in; the real executor runs them over real messages, and when steps ended comes out.

A stage that sleeps stands where a stage of a model would: its forward, its backward and the part of the backward that a
split puts off take the times that they are told, whatever the cores are busy with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from meshwright.layout.layout import Layout
from meshwright.runtime.modules.linear import Later
from meshwright.runtime.pipeline.executor import Pipeline, Samples, Wire
from meshwright.runtime.pipeline.orders import orders_of
from meshwright.runtime.world import World, join

if TYPE_CHECKING:
    from meshwright.runtime.modules.decoder import Stage
    from meshwright.workload.slots import Slots

_SHAPE: Final = (1, 1, 1)
_LEAD_S: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Naps:
    """Seconds of one virtual stage and micro-batch. backward: whole.   weight: its part that a split puts off."""

    forward_s: float
    backward_s: float
    weight_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SleptCase:
    """A schedule to be run so often. slots: in one order a rank."""

    slots: Slots
    naps: Naps
    update_s: float
    repeats: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SleptStep:
    """Of one rank, from the start that all agree on. gradients_s: to its last slot.   total_s: with its update."""

    gradients_s: float
    total_s: float


def slept_steps(rank: int, stages: int, cases: Sequence[SleptCase]) -> list[list[SleptStep]]:
    """As one rank of a pipeline: by case, each repeat. A step of the first case comes before and is not told."""
    world = join(Layout(pp=stages), rank, torch.device("cpu"))
    found: list[list[SleptStep]] = []
    for place, case in enumerate((cases[0], *cases)):
        pipeline, samples = _pipeline(world, case)
        found.append([_step(pipeline, samples, case.update_s) for _ in range(case.repeats if place else 1)])
    return found[1:]


class SleptStage(nn.Module):
    """Rows of one number go through as they are; time passes."""

    def __init__(self, naps: Naps, later: Later, *, first: bool, last: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(_SHAPE))
        self.naps, self.later, self.first, self.last = naps, later, first, last

    def forward(self, given: Tensor, labels: Tensor | None = None) -> Tensor:
        """Rows to rows, or to a loss where there are labels."""
        given = given.float().reshape(_SHAPE)
        rows = cast("Tensor", _Nap.apply(given, self.weight, self.naps, self.later))
        return rows if labels is None else rows.sum()


class _Nap(torch.autograd.Function):
    """Sleeps as long as a product would work; what it adds to the weight's gradient counts its backwards."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, naps: Naps, later: Later) -> Tensor:
        ctx.weight, ctx.naps, ctx.later = weight, naps, later
        sleep(naps.forward_s)
        return rows.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        (gradient,) = gradients
        weight, naps, later = ctx.weight, ctx.naps, ctx.later
        one = torch.ones_like(weight)
        if not later.puts_off:
            sleep(naps.backward_s)
            return gradient.clone(), one, None, None

        def finish() -> None:
            sleep(naps.weight_s)
            weight.grad = one if weight.grad is None else weight.grad + one

        sleep(naps.backward_s - naps.weight_s)
        later.work.append(finish)
        return gradient.clone(), None, None, None


def _pipeline(world: World, case: SleptCase) -> tuple[Pipeline, Samples]:
    slots, later = case.slots, Later()
    orders = orders_of(slots, world.place["pp"])
    later.splits = orders.splits
    last = slots.virtual_stages - 1
    stages = {part: SleptStage(case.naps, later, first=part[1] == 0, last=part[1] == last) for part in orders.parts}
    wire = Wire(world=world, incoming=orders.incoming, shape=_SHAPE, dtype=torch.float32)
    ones = [torch.ones(1, 1)] * slots.micro_batches
    pipeline = Pipeline(
        world=world,
        orders=orders,
        stages=cast("Mapping[tuple[int, int], Stage]", stages),
        wire=wire,
        later=later,
    )
    return pipeline, Samples(tokens=ones, labels=ones, total=slots.micro_batches)


def _step(pipeline: Pipeline, samples: Samples, update_s: float) -> SleptStep:
    """All ranks start at one moment: the clock is one for all processes of a machine."""
    for stage in pipeline.stages.values():
        stage.zero_grad()
    dist.barrier()
    agreed = torch.tensor(monotonic() + _LEAD_S, dtype=torch.float64)
    dist.broadcast(agreed, 0)
    start = float(agreed)
    sleep(max(0.0, start - monotonic()))
    pipeline.run(samples)
    gradients = monotonic()
    dist.barrier()
    sleep(update_s)
    total = monotonic()
    _check_work(pipeline)
    return SleptStep(gradients_s=gradients - start, total_s=total - start)


def _check_work(pipeline: Pipeline) -> None:
    """Every backward of every stage has run."""
    for part, stage in pipeline.stages.items():
        (weight,) = stage.parameters()
        wanted = sum(turn.part == part and turn.kind == 0 for turn in pipeline.orders.turns)
        assert weight.grad is not None
        assert weight.grad.item() == wanted
