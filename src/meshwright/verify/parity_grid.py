"""The registries of schedules and policies, and the axes, go in; a grid of layouts that can run comes out.

A new schedule or policy is in the grid by being registered. `covering` picks few of them that hold every value of every
choice, and every pair of values that any layout of the grid has.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import chain, product
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.layout.rules import keeps_all
from meshwright.workload.recomputing import RECOMPUTE
from meshwright.workload.slots import SCHEDULES, Shape, read_schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from meshwright.model.model import Model

Trait: TypeAlias = tuple[str, Any]
"""A name and a value of a choice, by which a sample of the grid is picked."""

Traits: TypeAlias = "Callable[[Choice], tuple[Trait, ...]]"

MODELS: Final = ("tiny-qwen3", "tiny-llama", "tiny-qwen2")
GLOBAL_BATCH: Final = 16
SEQUENCE: Final = 16
_MOST_RANKS: Final = 8
_DEGREES: Final = ("tp", "pp", "dp_shard", "dp_replicate", "virtual_stages", "micro_batch")
_COUNTED: Final = 2
"""The number of a policy whose name takes one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A model and a layout of it. Its fields, and the model, are what the grid covers."""

    model: str
    layout: Layout

    @property
    def id(self) -> str:
        """As a test calls it."""
        return f"{self.model}:{self.layout.id}"


def grid(
    models: Mapping[str, Model], most_ranks: int = _MOST_RANKS, global_batch: int = GLOBAL_BATCH
) -> tuple[Choice, ...]:
    """Every layout of up to `most_ranks` ranks that the rules, the schedule and the layers of a model take."""
    found: list[Choice] = []
    for name, model in models.items():
        layouts = list(_layouts(model, most_ranks, global_batch))
        kept = keeps_all(model, table(layouts))
        found += [Choice(model=name, layout=item) for item, keeps in zip(layouts, kept.tolist(), strict=True) if keeps]
    return tuple(found)


def covering(choices: Sequence[Choice], traits: Traits, seed: int = 0) -> tuple[Choice, ...]:
    """Few of the choices that hold every pair of traits that any of them holds: the most new pairs for a rank first."""
    order = np.random.default_rng(seed).permutation(len(choices))
    held = [traits(choices[place]) for place in order.tolist()]
    number = {trait: place for place, trait in enumerate(sorted({*chain.from_iterable(held)}, key=repr))}
    has = np.zeros((len(held), len(number)), dtype=np.float32)
    for row, own in enumerate(held):
        has[row, [number[trait] for trait in own]] = 1
    ranks = np.array([choices[place].layout.world_size for place in order.tolist()])
    left = np.triu(has.T @ has > 0, 1).astype(np.float32)
    found: list[Choice] = []
    while left.any():
        best = int(np.argmax(((has @ left) * has).sum(1) / ranks))
        left[np.outer(has[best], has[best]) > 0] = 0
        found.append(choices[int(order[best])])
    return tuple(found)


def values_of(choice: Choice) -> tuple[Trait, ...]:
    """The model and every field of the layout, as they are."""
    return (("model", choice.model), *((item.name, getattr(choice.layout, item.name)) for item in fields(Layout)))


def axes_of(choice: Choice) -> tuple[Trait, ...]:
    """As `values_of`, but of a degree only that it is more than one."""
    return tuple((name, value > 1 if name in _DEGREES else value) for name, value in values_of(choice))


def micro_batches(layout: Layout, global_batch: int) -> int:
    """Of one rank in a step."""
    return global_batch // (layout.dp_replicate * layout.dp_shard * layout.micro_batch)


def _layouts(model: Model, most_ranks: int, global_batch: int) -> Iterator[Layout]:
    policies = [f"{name}_{_COUNTED}" if RECOMPUTE.module(name).COUNTED else name for name in RECOMPUTE.names()]
    degrees = (1, 2, 4, 8)
    for tp, pp, shard, copies in product(degrees, degrees, degrees, degrees):
        if tp * pp * shard * copies > most_ranks or global_batch % (shard * copies):
            continue
        zeros = (0, 1, 2, 3) if shard > 1 else (0,)
        sps = (False, True) if tp > 1 else (False,)
        for sp, zero, schedule, policy, size in product(sps, zeros, _schedules(model, pp), policies, (1, 2)):
            layout = Layout(
                tp=tp,
                sp=sp,
                pp=pp,
                virtual_stages=schedule[1],
                dp_shard=shard,
                dp_replicate=copies,
                zero=zero,
                schedule=schedule[0],
                micro_batch=size,
                recompute=policy,
                attention="data_parallel",
            )
            if global_batch % (shard * copies * size):
                continue
            shape = Shape(
                stages=pp, micro_batches=micro_batches(layout, global_batch), virtual_stages=layout.virtual_stages
            )
            if shape.micro_batches and read_schedule(schedule[0]).refusal(shape) is None:
                yield layout


def _schedules(model: Model, stages: int) -> list[tuple[str, int]]:
    """Names and virtual stages of those that leave no stage without a layer."""
    if stages == 1:
        return [("one_f_one_b", 1)]
    found: list[tuple[str, int]] = []
    for name in SCHEDULES.names():
        pieces = read_schedule(name).placement(Shape(stages=stages, micro_batches=1)).shape[1] // stages
        counts = (2,) if name == "interleaved" else (1,)
        found += [(name, count) for count in counts if stages * pieces * count <= model.layers]
    return found
