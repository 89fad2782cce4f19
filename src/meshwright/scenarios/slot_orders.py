"""A schedule and a shape go in; slot orders that real ranks can run, one a rank, come out.

Where a schedule gives a rank two orders that share its stream (`dualpipe_declared`), durations decide which slot runs
next. Here they are those of a plain transformer with free transfers: a forward is one unit, and each half of a backward
another; the event engine resolves the orders, and what comes out is data.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from meshwright.sim.pipeline import Durations, run_pipeline
from meshwright.workload.slots import checked_shape

if TYPE_CHECKING:
    from meshwright.workload.slots import Shape, Slots


def slot_orders(schedule: str, shape: Shape) -> Slots:
    """Slots of every rank in one order. Raises SCH001, SCH003, SCH004, as `checked_shape`."""
    slots = checked_shape(schedule, shape).slots(shape)
    return one_order(slots) if int(slots.sequence.max(initial=0)) else slots


def one_order(slots: Slots) -> Slots:
    """The same slots in the order in which they would start, rank by rank."""
    one, none = Fraction(1), Fraction(0)
    stages, free = slots.virtual_stages, (none,) * slots.ranks
    units = Durations(
        forward=(one,) * stages,
        backward=(2 * one,) * stages,
        weight=(one,) * stages,
        update=none,
        send=free,
        send_back=free,
    )
    start = run_pipeline(slots, units).start[: len(slots.rank)]
    order = np.lexsort((np.arange(len(start)), start, slots.rank))
    columns = ("rank", "kind", "virtual_stage", "micro_batch", "direction", "cell")
    moved = {name: getattr(slots, name)[order] for name in columns}
    return replace(slots, **moved, sequence=np.zeros_like(slots.sequence))
