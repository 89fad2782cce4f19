"""An algorithm, ranks and boxes go in; its rounds come out, and what the busiest device and box send of a message.

Derived from the program of `workload/collectives`: nothing is typed in beside it. Bytes are those of the whole program,
which bound it however its rounds overlap.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from meshwright.cost.coefficients import program_in_boxes
from meshwright.cost.collectives import COLLECTIVES

if TYPE_CHECKING:
    from meshwright.base.numbers import Floats, Ints
    from meshwright.workload.programs import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSize:
    """Of one program on boxes of neighbouring ranks, as equally many as whole numbers allow.

    rounds: one after the other.   device_bytes_per_byte: what the busiest rank sends, or receives, within its box, over
    the bytes of the message.   box_bytes_per_byte: what leaves, or enters, the busiest box.
    """

    rounds: int
    device_bytes_per_byte: float
    box_bytes_per_byte: float


@cache
def program_size(operation: str, algorithm: str, ranks: int, boxes: int) -> ProgramSize:
    """Sizes of a registered algorithm. Raises COL001 (its name), COL002 (ranks), COL010 (operation)."""
    program, own = program_in_boxes(COLLECTIVES.module(algorithm), operation, ranks, boxes)
    box = np.concatenate([own, np.zeros(program.switches, dtype=np.int64)])
    near, far = np.zeros((2, len(box))), np.zeros((2, boxes))
    for step in program.steps:
        crosses = box[step.sender] != box[step.receiver]
        for side, end in enumerate((step.sender, step.receiver)):
            near[side] += _moved(step, end, ~crosses, len(box))
            far[side] += _moved(step, box[end], crosses, boxes)
    return ProgramSize(
        rounds=sum(step.times for step in program.steps),
        device_bytes_per_byte=float(near[:, :ranks].max()) / program.message_pieces,
        box_bytes_per_byte=float(far.max()) / program.message_pieces,
    )


def _moved(step: Step, place: Ints, counted: Any, count: int) -> Floats:
    """Pieces that a step moves at each place, of the sends that are counted."""
    weights = step.pieces[counted] * float(step.times)
    return np.bincount(place[counted], weights=weights, minlength=count).astype(np.float64)
