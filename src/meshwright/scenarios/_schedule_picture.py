"""A pipeline's timeline goes in; one row of letters a rank, each letter a stretch of time, comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypedDict

import numpy as np

from meshwright.sim.pipeline_timeline import TASKS, UPDATE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from meshwright.sim.pipeline_timeline import PipelineTimeline

_WIDTH: Final = 96
_MOST_RANKS: Final = 64
_LETTERS: Final = {"forward": "F", "backward": "B", "backward_input": "B", "backward_weight": "W", "update": "U"}
_IDLE: Final = "."


class Picture(TypedDict):
    """letter_s: seconds of a letter, which shows what runs at its middle.   ranks: the first of them.

    F forward, B backward or its input gradient, W weight gradient, U update, small where the micro-batch entered at the
    last rank, a dot where the rank waits.
    """

    schedule: str
    letter_s: float
    ranks: list[str]


def picture(name: str, timeline: PipelineTimeline) -> Picture:
    """The whole step."""
    last = timeline.end.max()
    middles = (np.arange(_WIDTH) + 0.5) * (float(last) / _WIDTH)
    return {
        "schedule": name,
        "letter_s": timeline.makespan_s / _WIDTH,
        "ranks": [_row(timeline, rank, middles) for rank in range(min(timeline.slots.ranks, _MOST_RANKS))],
    }


def _row(timeline: PipelineTimeline, rank: int, middles: NDArray[Any]) -> str:
    computes = (timeline.rank == rank) & ((timeline.peer < 0) & (timeline.kind <= UPDATE))
    rows = np.flatnonzero(computes & (timeline.end > timeline.start))
    rows = rows[np.argsort(timeline.start[rows], kind="stable")]
    found = np.searchsorted(timeline.start[rows], middles, side="right") - 1
    return "".join(
        _letter(timeline, int(rows[place])) if place >= 0 and timeline.end[rows[place]] > middle else _IDLE
        for place, middle in zip(found, middles, strict=True)
    )


def _letter(timeline: PipelineTimeline, row: int) -> str:
    letter = _LETTERS[TASKS[timeline.kind[row]]]
    return letter.lower() if timeline.direction[row] == 1 else letter
