"""A layout goes in; how far a real run of it lies from one process, step by step and weight by weight, comes out.

The same samples, the same first weights and the same update go through the whole model in one process, and through the
layout on its ranks. Loss and gradient norm of every step, and every part of every weight behind the last one, are
compared. In float64 differences are rounding alone. In bf16 both runs differ from float64, and the layout may do so by
a stated multiple of what one process does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, isnan
from typing import TYPE_CHECKING

import torch

from meshwright.layout.layout import Layout
from meshwright.runtime.loop.samples import SyntheticTokens
from meshwright.runtime.loop.trainer import Batch, Recipe, Trainer, trainer_of
from meshwright.runtime.state.weights import kept, made_up, ranges_of
from meshwright.runtime.world import join
from meshwright.workload.slots import Shape, checked_shape

if TYPE_CHECKING:
    from meshwright.model.arithmetic import Arithmetic
    from meshwright.model.model import Model
    from meshwright.workload.slots import Slots

_SMALLEST = 1e-300
_ALONE = Layout(schedule="one_f_one_b", attention="data_parallel")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is run both ways. slots: of the layout's schedule, one order a rank.

    steps: updates before weights are compared.   seed: of weights and samples.
    """

    model: Model
    arithmetic: Arithmetic
    layout: Layout
    slots: Slots
    batch: Batch
    recipe: Recipe
    steps: int = 3
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """What one process found. losses, norms: of every step.   weights: behind the last, whole, by name."""

    losses: Sequence[float]
    norms: Sequence[float]
    weights: Mapping[str, torch.Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Of one rank from one process. loss, norm: the largest relative difference of a step.

    weight: the largest difference of an element of a weight.   name: the first weight, in the order of the model, that
    differs by more than is allowed; None where none does.   largest: the weight that differs most.
    In bf16 all three are multiples: of the error of one process against float64.
    """

    rank: int
    loss: float
    norm: float
    weight: float
    largest: str
    name: str | None

    @property
    def worst(self) -> float:
        """The largest of the three."""
        return max(self.loss, self.norm, self.weight)


def whole_run(case: Case, device: torch.device) -> Whole:
    """The case in this process alone: no layout, no schedule, one sample after the other."""
    shape = Shape(stages=1, micro_batches=case.batch.global_batch)
    slots = checked_shape("one_f_one_b", shape).slots(shape)
    alone = replace(case, layout=replace(_ALONE, recompute="none"), slots=slots)
    trainer = _trainer(alone, 0, device)
    losses, norms = _steps(trainer, alone)
    weights = {name: kept(value).detach().cpu().clone() for name, value in trainer.parameters}
    return Whole(losses=losses, norms=norms, weights=weights)


def compared(  # noqa: PLR0917 - two runs and what they may differ by
    case: Case, rank: int, device: torch.device, whole: Whole, tolerance: float, rounded: Whole | None = None
) -> Difference:
    """The case on its layout, as one rank of it; every rank calls this. The process group must be there.

    whole: one process in float64.   rounded: one process in the formats of the case, where these are others;
    `tolerance` is then the multiple of its error that is allowed.
    """
    trainer = _trainer(case, rank, device)
    losses, norms = _steps(trainer, case)
    owned = ranges_of(case.model, case.layout, rank, "optimizer_state")
    found: dict[str, float] = {}
    for name, value in trainer.parameters:
        part = tuple(slice(item.start, item.stop) for item in owned[name])
        mine, wanted = kept(value).detach().cpu(), whole.weights[name][part]
        apart = _distance(mine, wanted) if rounded is None else _multiple(mine, wanted, rounded.weights[name][part])
        found[name] = max(found.get(name, 0.0), apart)
    first = next((name for name in whole.weights if not found.get(name, 0.0) <= tolerance), None)
    largest = max(found, key=lambda name: found[name])
    return Difference(
        rank=rank,
        loss=_series(losses, whole.losses, None if rounded is None else rounded.losses),
        norm=_series(norms, whole.norms, None if rounded is None else rounded.norms),
        weight=found[largest],
        largest=largest,
        name=first,
    )


def _trainer(case: Case, rank: int, device: torch.device) -> Trainer:
    world = join(case.layout, rank, device)
    values = made_up(case.model, case.seed)
    return trainer_of(case.model, case.arithmetic, world, case.slots, case.batch, case.recipe, values)


def _steps(trainer: Trainer, case: Case) -> tuple[list[float], list[float]]:
    samples = SyntheticTokens(seed=case.seed, vocab=case.model.vocab, sequence=case.batch.sequence, ragged=True)
    reports = [trainer.step(number, samples.sample) for number in range(case.steps)]
    return [item.loss for item in reports], [item.norm for item in reports]


def _distance(mine: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest absolute difference; infinite where anything is not a number."""
    if not mine.numel():
        return 0.0
    worst = float((mine.double() - wanted.double()).abs().max())
    return inf if isnan(worst) else worst


def _multiple(mine: torch.Tensor, wanted: torch.Tensor, rounded: torch.Tensor) -> float:
    """How many times as far from `wanted` as `rounded` is, in the Euclidean norm of the part; see `_times`."""
    own = float((mine.double() - wanted.double()).norm())
    other = float((rounded.double() - wanted.double()).norm())
    return _times(own, other)


def _times(own: float, other: float) -> float:
    """How many times `other` is `own`; infinite where either is no number, as no difference can be judged then."""
    found = own / max(other, _SMALLEST) if isfinite(other) else inf
    return inf if isnan(found) else found


def _series(mine: Sequence[float], wanted: Sequence[float], rounded: Sequence[float] | None) -> float:
    """The largest relative difference of a step, or how many times that of the rounded run it is."""
    own = max(_relative(one, other) for one, other in zip(mine, wanted, strict=True))
    if rounded is None:
        return own
    apart = [_relative(one, other) for one, other in zip(rounded, wanted, strict=True)]
    return _times(own, max(apart))


def _relative(mine: float, other: float) -> float:
    apart = abs(mine - other) / max(abs(other), _SMALLEST)
    return inf if isnan(apart) else apart
