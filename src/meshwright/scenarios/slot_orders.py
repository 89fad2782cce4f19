"""A schedule, its shape and how long slots take go in; one slot order a rank comes out, for a real run to follow."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.layout.ownership import stage_of_layers
from meshwright.sim.pipeline import Durations, run_pipeline
from meshwright.workload.slots import checked_shape

if TYPE_CHECKING:
    from meshwright.workload.slots import Shape, Slots

_FORWARD, _BACKWARD, _WEIGHT = Fraction(1), Fraction(2), Fraction(1)
_NONE: Final = Fraction(0)


def slot_orders(schedule: str, shape: Shape, durations: Durations) -> Slots:
    """The slots of every rank in one order, as they start on the event engine; a schedule that has one keeps it.

    Raises SCH001, SCH003, SCH004 where the schedule does not take the shape, SCH002 where slots wait for each other.
    """
    slots = checked_shape(schedule, shape).slots(shape)
    if not slots.sequence.any():
        return slots
    start = run_pipeline(slots, durations).start[: len(slots.rank)]
    rows = np.lexsort((start, slots.rank))  # a rank's stream runs one at a time: no two of its slots start together
    return replace(
        slots,
        rank=slots.rank[rows],
        sequence=np.zeros_like(slots.sequence),
        kind=slots.kind[rows],
        virtual_stage=slots.virtual_stage[rows],
        micro_batch=slots.micro_batch[rows],
        direction=slots.direction[rows],
        cell=slots.cell[rows],
    )


def by_layers(schedule: str, shape: Shape, layers: int) -> Durations:
    """Durations in which a layer takes 1 forward and 2 backward, half of that for its weights; messages take no time.

    The unit is nobody's second: it decides orders alone (assumed). The head's work on the last stage is left out.
    Raises SCH001, SCH003, SCH004 as `slot_orders`.
    """
    pieces = checked_shape(schedule, shape).placement(shape).shape[1]
    held = [len(part) for part in stage_of_layers(layers, pieces)]
    return Durations(
        forward=tuple(_FORWARD * count for count in held),
        backward=tuple(_BACKWARD * count for count in held),
        weight=tuple(_WEIGHT * count for count in held),
        update=_NONE,
        send=(_NONE,) * shape.stages,
        send_back=(_NONE,) * shape.stages,
    )
