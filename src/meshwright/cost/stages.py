"""A model and columns of layouts go in; what distinguishes their pipeline stages, and the slowest stage, come out."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from meshwright.base.numbers import maximum, where
from meshwright.base.traced import values
from meshwright.layout.ownership import stage_of_layers
from meshwright.workload.messages import has_message

if TYPE_CHECKING:
    from meshwright.base.numbers import Floats, Ints
    from meshwright.cost.estimate import Step
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model


def by_stages(layouts: Layouts) -> list[tuple[int, Ints]]:
    """The rows of each number of stages."""
    stages = values(layouts.degree("pp"))
    order = np.argsort(stages, kind="stable")
    found, starts = np.unique(stages[order], return_index=True)
    parts = pairwise([*starts.tolist(), len(order)])
    return [(count, order[start:stop]) for count, (start, stop) in zip(found.tolist(), parts, strict=True)]


@cache
def stage_kinds(model: Model, stages: int) -> tuple[Ints, Ints]:
    """[distinct stages, kinds + 2] of layers of each kind, is first, is last; and the number of the first such stage.

    More stages than layers are described as empty ones: the rules refuse them.
    """
    kinds = model.kind_of_layer
    table: dict[tuple[int, ...], int] = {}
    for number, layers in enumerate(stage_of_layers(len(kinds), stages)):
        own = kinds[layers.start : layers.stop]
        row = (*(own.count(kind) for kind in range(len(model.kinds))), int(number == 0), int(number == stages - 1))
        table.setdefault(row, number)
    counts: Any = np.array(list(table), dtype=np.int64)
    return counts, np.array(list(table.values()), dtype=np.int64)


def slowest_stage_s(model: Model, layouts: Layouts, step: Step) -> Floats:
    """Seconds that a step keeps the slowest stage of each row busy: its layers, their exchanges, and the head.

    A transfer to the next stage delays its own rows and occupies neither stage. Sums run kind by kind, so that a row
    gives the same bits in any table.
    """
    kinds, head = _per_layer(model, layouts, step)
    slowest: Any = np.zeros(len(layouts), dtype=head.dtype)
    for stages, rows in by_stages(layouts):
        counts, _ = stage_kinds(model, stages)
        for *layers, _, is_last in counts.tolist():
            busy: Any = head[rows] * is_last
            for layer, count in zip(kinds, layers, strict=True):
                busy = busy + layer[rows] * count
            slowest[rows] = maximum(slowest[rows], busy)
    return slowest


def _per_layer(model: Model, layouts: Layouts, step: Step) -> tuple[list[Floats], Floats]:
    """Seconds of one layer of each kind with its exchanges, and of the head."""
    exchanged = np.zeros(len(layouts))
    own: dict[int, Any] = {}
    for message, exchange in step.exchanges:
        if message.kind is not None:
            calls = message.count / model.kind_counts[message.kind]
            seconds = where(layouts.degree(message.axis) > 1, exchange.seconds * calls, np.zeros(1))
            own[message.kind] = own.get(message.kind, 0.0) + seconds
        elif not message.boundary:
            calls = message.count / model.layers
            exchanged = exchanged + where(has_message(message, layouts), exchange.seconds * calls, np.zeros(1))
    head = np.zeros(len(layouts))
    kinds = [exchanged + own[kind] if kind in own else exchanged for kind in range(len(model.kinds))]
    for work in step.work:
        kind = work.operator.kind
        if kind is None:
            head = head + work.seconds
        else:
            kinds[kind] = kinds[kind] + work.seconds / work.operator.count
    return kinds, head
