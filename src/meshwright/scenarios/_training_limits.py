"""A plan's shown candidate and the job go in; what the deadline leaves a step, and what limits the plan, come out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from meshwright.base.units import show_bytes, show_seconds
from meshwright.job.train import steps_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meshwright.base.result import Candidate
    from meshwright.job.train import TrainJob
    from meshwright.scenarios._training_options import TrainOptions

LIMITS: Final = ("memory", "compute", "communication", "bubble", "update", "stragglers", "offload", "input", "deadline")
_PARTS: Final = {
    "input": "input_wait_s",
    "communication": "exposed_comm_s",
    "bubble": "bubble_s",
    "stragglers": "straggler_s",
    "offload": "offload_wait_s",
    "update": "update_s",
}
"""Parts of a step that a plan may do without, and where each stands; computation is the work itself."""
_WORDS: Final = {
    "compute": "computation",
    "communication": "exposed communication",
    "bubble": "the pipeline bubble",
    "update": "the update",
    "stragglers": "waiting for the slowest device",
    "offload": "waiting for the host",
    "input": "waiting for input",
}


def limits_of(job: TrainJob, options: TrainOptions, shown: Candidate) -> dict[str, Any] | None:
    """What the deadline leaves a step of this layout; None without one.

    step_limit_s: the longest step that is in time.   slack_s: how much shorter the step is.   compute_limit_s: the
    longest computation, all else as it is; efficiency_needed gives it.   most_comm_wait_s: the most that may be
    exposed.   step_without_overlap_s: with all communication exposed.   left_s: from the finish to the deadline.
    Source: chapter "Training systems", section 10.6.2.
    """
    if job.deadline is None:
        return None
    step = shown.measures["step"]
    limit = (job.deadline - job.reserve) / (steps_of(job) * (1 + shown.measures["overhead_fraction"]))
    compute = limit - (step["total_s"] - step["compute_s"])
    needed = None
    if options.efficiency is not None and compute > 0:
        needed = options.efficiency * step["compute_s"] / compute
    exposed = shown.measures["exposed"]
    busy = exposed["layers_s"] + exposed["boundaries_s"] + shown.measures["channel_s"]
    without = step["total_s"] - step["exposed_comm_s"] + busy
    return {
        "step_limit_s": limit,
        "slack_s": limit - step["total_s"],
        "compute_limit_s": compute,
        "most_comm_wait_s": limit - step["total_s"] + step["exposed_comm_s"],
        "efficiency_needed": needed,
        "step_without_overlap_s": without,
        "fits_without_overlap": without <= limit,
        "left_s": job.deadline - shown.measures["finish_s"],
    }


def binding_limit(shown: Candidate, limits: Mapping[str, Any] | None) -> dict[str, str]:
    """What limits the plan: `limit` is one of LIMITS, `text` says it in words.

    Nothing fits: memory. Late: computation if it alone is too long; else the largest part whose absence alone would be
    in time; else the deadline, against the sum. In time, or without a deadline: the longest part of the step.
    """
    step = shown.measures["step"]
    if not shown.fits:
        return _memory(shown)
    if limits is None or limits["slack_s"] >= 0:
        parts = {"compute": step["compute_s"]} | {name: step[key] for name, key in _PARTS.items()}
        name = max(parts, key=lambda item: parts[item])
        text = f"{_WORDS[name]} is the longest part of a step: {_share(parts[name], step['total_s'])}"
        return {"limit": name, "text": text}
    limit = limits["step_limit_s"]
    if step["compute_s"] > limit:
        text = f"computation alone takes {show_seconds(step['compute_s'])}, and a step may take {show_seconds(limit)}"
        return {"limit": "compute", "text": text}
    enough = {name: step[key] for name, key in _PARTS.items() if step["total_s"] - step[key] <= limit}
    if enough:
        name = max(enough, key=lambda item: enough[item])
        text = f"without {_WORDS[name]}, {_share(enough[name], step['total_s'])}, it would be in time"
        return {"limit": name, "text": text}
    text = (
        f"a step may take {show_seconds(limit)}, and no part of its {show_seconds(step['total_s'])} is too long alone"
    )
    return {"limit": "deadline", "text": text}


def _memory(shown: Candidate) -> dict[str, str]:
    """Of the layout that comes nearest, what it needs; of one that breaks a rule, the rule."""
    memory = shown.memory
    if shown.excluded is not None and shown.excluded.limit != "capacity":
        return {"limit": "memory", "text": f"no layout fits: {shown.excluded.reason}"}
    needs = f"{show_bytes(memory['per_rank_bytes'])} of {show_bytes(memory['capacity_bytes'])}"
    text = f"{shown.id} comes nearest and needs {needs}, {show_bytes(memory['resident_bytes'])} of them resident state"
    return {"limit": "memory", "text": text}


def _share(part_s: float, whole_s: float) -> str:
    return f"{show_seconds(part_s)} of {show_seconds(whole_s)}"
