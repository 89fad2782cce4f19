"""A rank's place and the two ways past it go in; DualPipe's eight phases come out as one slot order.

Shared by `dualpipe_published` (the ways are the two directions) and `dualpipe_v` (down a V and back up).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from meshwright.workload.slots import (
    BACKWARD,
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    FORWARD,
    Refusal,
    Shape,
    Work,
    joined,
    piece,
    woven,
)

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One of the two ways past a rank. first: its first micro-batch."""

    virtual_stage: int
    first: int
    direction: int


def refusal(shape: Shape, least: int) -> Refusal | None:
    """An even number of ranks (SCH004), and an even number of micro-batches, `least` or more (SCH001)."""
    if shape.stages % 2:
        reason = f"{shape.stages} stages can not be entered from both ends in pairs"
        return Refusal(code="SCH004", reason=reason, nearest=shape.stages + 1)
    if shape.micro_batches % 2 or shape.micro_batches < least:
        reason = f"{shape.micro_batches} micro-batches are not an even number from {least} on"
        return Refusal(code="SCH001", reason=reason, nearest=max(least, shape.micro_batches + shape.micro_batches % 2))
    return None


def eight_phases(depth: int, place: int, count: int, near: Way, far: Way) -> Ints:
    """The slot order of a rank.

    depth: ranks from an end to the turn.   place: from 0 at that end.   count: micro-batches of each way, 2 depth or
    more.   near: the way that enters at this end; the far one has gone all the way to the turn before it comes here.
    Source: DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024 (arXiv:2412.19437), section 3.2.1 and figure 5, and the
    phases that the authors' published program states for it. That program runs the first pair of phase 4 apart on the
    rank at the turn; here it is a cell as in the figure.
    """
    inner = depth - 1 - place
    main = count - 2 * depth + place + 1
    late = place + 1  # of the last backwards of phase 6 the weight gradient is put off
    f0, b0 = _named(FORWARD, near, count), _named(BACKWARD, near, count)
    f1, b1 = _named(FORWARD, far, count), _named(BACKWARD, far, count)
    after = count - late - inner  # backwards of the near way before phase 6
    last = woven(b1[count - late :], b0[after : after + late])
    last[late:, 0] = BACKWARD_INPUT
    put_off = joined(last[late:], _as(BACKWARD_INPUT, b0[after + late :]))
    weights = _as(BACKWARD_WEIGHT, put_off)
    turned = inner + main  # backwards of the far way before phase 5
    return joined(
        f0[: 2 * inner],
        woven(f0[2 * inner : 2 * inner + late], f1[:late]),
        woven(_as(BACKWARD_INPUT, b1[:inner]), _as(BACKWARD_WEIGHT, b1[:inner]), f1[late : late + inner]),
        _in_cells(woven(f0[2 * inner + late :], b1[inner:turned], f1[depth : depth + main], b0[:main])),
        _after_one(b1[turned : turned + inner], f1[depth + main :], b0[main:after], first_cell=2 * main),
        last,
        woven(weights[:inner], put_off[late:]),
        weights[inner:],
    )


def bubble(stages: int, work: Work) -> Any:
    """(PP / 2 - 1)(F&B + B - 3W) for PP stages, B whole. Source: as `eight_phases`, table 2 of it."""
    return (stages // 2 - 1) * (work.cell + work.backward - 3 * work.weight)


def _named(kind: int, way: Way, count: int) -> Ints:
    return piece(kind, way.virtual_stage, np.arange(count) + way.first, way.direction)


def _as(kind: int, slots: Ints) -> Ints:
    changed = slots.copy()
    changed[:, 0] = kind
    return changed


def _in_cells(slots: Ints) -> Ints:
    """Two slots a cell."""
    slots[:, 4] = np.arange(len(slots)) // 2
    return slots


def _after_one(alone: Ints, forwards: Ints, backwards: Ints, *, first_cell: int) -> Ints:
    """A backward alone, then a forward and a backward in a cell."""
    cells = first_cell + np.arange(len(alone))
    forwards, backwards = forwards.copy(), backwards.copy()
    forwards[:, 4] = backwards[:, 4] = cells
    return woven(alone, forwards, backwards)
