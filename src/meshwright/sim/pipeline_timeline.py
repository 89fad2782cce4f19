"""A pipeline's timeline goes in; the timeline of the engine comes out: streams and wires by name, tasks with labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshwright.sim import timeline as engine_timeline
from meshwright.sim.pipeline import GRADIENTS, SEND_BACKWARD, SEND_FORWARD, TASKS, UPDATE

if TYPE_CHECKING:
    from meshwright.sim.pipeline import PipelineTimeline

_SHORT = {
    "forward": "F",
    "backward": "B",
    "backward_input": "B",
    "backward_weight": "W",
}


def as_timeline(pipeline: PipelineTimeline) -> engine_timeline.Timeline:
    """The same tasks for pictures, traces and the critical path. Labels: `F3 v1` is micro-batch 3 of virtual stage 1.

    Micro-batches and virtual stages are counted from 0; those that entered at the last rank bear a small letter.
    """

    def label(task: int) -> str:
        kind = int(pipeline.kind[task])
        if kind == UPDATE:
            return "update"
        if kind == GRADIENTS:
            return "last gradient"
        place = f"{int(pipeline.micro_batch[task])} v{int(pipeline.virtual_stage[task])}"
        if kind in {SEND_FORWARD, SEND_BACKWARD}:
            return f"{'activation' if kind == SEND_FORWARD else 'gradient'} {place}"
        letter = _SHORT[TASKS[kind]]
        return f"{letter.lower() if pipeline.direction[task] == 1 else letter}{place}"

    return engine_timeline.timeline(
        pipeline.problem,
        pipeline.times,
        kind=pipeline.kind,
        kinds=TASKS,
        label=label,
        tick_s=float(pipeline.tick_s),
    )
