"""What is to be trained goes in: tokens, lengths, a global batch, a date; a checked `TrainJob` comes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from meshwright.base.errors import JobError
from meshwright.base.traced import formula
from meshwright.base.units import Seconds, Share, TokenCount, Tokens
from meshwright.job.recipe import Recipe
from meshwright.job.serve import MOST_TOKENS, check_range

MOST_TRAINED: Final = 10**18
MOST_SEQUENCES: Final = 2**24
_NO_TIME: Final = Seconds(0.0)
_NO_SHARE: Final = Share(0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainJob:
    """A training run.

    tokens: useful ones, without padding.   sequence: tokens of one.   global_batch: sequences of one step, over all
    devices.   deadline: from the start to the last step; None when there is none.   reserve: the part of the calendar
    that is planned to stand (launches, evaluations), inside the deadline.   recipe: formats and optimizer.
    noise_scale: tokens of the gradient noise scale, where it is known.   padding: share of the positions that is no
    token of the data; it costs FLOPs and memory and is no progress.
    """

    tokens: TokenCount
    sequence: Tokens
    global_batch: int
    deadline: Seconds | None = None
    reserve: Seconds = _NO_TIME
    noise_scale: TokenCount | None = None
    padding: Share = _NO_SHARE
    recipe: Recipe = field(default_factory=Recipe)


def checked_training(job: TrainJob) -> TrainJob:
    """The job itself, once its numbers make sense.

    Raises JOB001 (sizes), JOB002 (a deadline of zero), JOB020 (no time left beside the planned stops), JOB022 (a
    padding that leaves no token).
    """
    check_range("tokens", job.tokens, 1, MOST_TRAINED)
    check_range("sequence", job.sequence, 1, MOST_TOKENS)
    check_range("global_batch", job.global_batch, 1, MOST_SEQUENCES)
    if job.noise_scale is not None:
        check_range("noise_scale", job.noise_scale, 1, MOST_TRAINED)
    if useful_tokens(step_tokens(job.global_batch, job.sequence), job.padding) < 1:
        raise JobError(22, f"padding {job.padding:.4%} leaves no token of a step", "give less --padding, as in 12%")
    if job.deadline is not None and job.deadline <= 0:
        raise JobError(2, f"the deadline is {job.deadline:g} s", "give a deadline above zero, as in 30d")
    if job.deadline is not None and job.reserve >= job.deadline:
        cause = f"planned stops of {job.reserve / 86400:g} d leave nothing of a deadline of {job.deadline / 86400:g} d"
        raise JobError(20, cause, f"give a --deadline above {job.reserve / 86400:g}d, or a shorter --reserve")
    return job


@formula
def step_tokens(global_batch: int, sequence: int) -> int:
    """Positions of one step, all of which are computed. Source: chapter "Training systems", section 10.1.1."""
    return global_batch * sequence


def useful_tokens(executed: int, padding: float) -> int:
    """Of so many positions those that count as progress, whole ones. Source: as `step_tokens`."""
    return int(executed * (1 - Fraction(str(padding)))) if padding else executed


def step_progress(job: TrainJob) -> int:
    """Useful tokens of one step of a job."""
    return useful_tokens(step_tokens(job.global_batch, job.sequence), job.padding)


def steps_of(job: TrainJob) -> int:
    """Steps of the whole run; the last holds what is left, and takes as long as any.

    Source: chapter "Training systems", section 10.1.1.
    """
    return -(-job.tokens // step_progress(job))
