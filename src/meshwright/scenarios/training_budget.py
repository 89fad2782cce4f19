"""Can these cards compute this job in time? A job, a card and an efficiency go in; budgets and fewest cards come out.

Lower bounds by arithmetic alone: no layout, no communication, no failures. What the efficiency already holds, and what
is still to be added to a step, is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final, Literal, TypeAlias

from meshwright.base.errors import JobError
from meshwright.base.units import Bytes, Seconds, Share, TokenCount, Tokens
from meshwright.cost.model_flops import flops_per_token
from meshwright.job.serve import MOST_TOKENS, check_range
from meshwright.job.train import useful_tokens
from meshwright.model.model import Model
from meshwright.scenarios.mfu import dense_peak
from meshwright.system.system import System

EfficiencyKind: TypeAlias = Literal["compute", "model-flops"]
STILL_TO_ADD: Final[dict[EfficiencyKind, tuple[str, ...]]] = {
    "compute": (
        "exposed communication, pipeline bubbles and input wait: a step is longer by them",
        "checkpoints, failures, stragglers and planned stops, but for the reserve",
    ),
    "model-flops": (
        "nothing of a step: an MFU holds its communication, bubbles and update already, and they are not added again",
        "checkpoints, failures, stragglers and planned stops, but for the reserve",
    ),
}
"""What a plan must add beside the compute time, by what the efficiency is measured over. Source: chapter 10.1.3."""
_MOST_COUNT: Final = 10**9
_MOST_JOB: Final = 10**18


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingBudget:
    """The arithmetic of one job.

    executed_tokens_per_step: positions that are computed, padding included.   tokens_per_step: the useful ones, which
    alone count as progress.   last_step_tokens: useful ones of the last step, billed as a whole one.
    available_s: the deadline less the reserve.   required_tokens_per_s: useful ones.   step_budget_s: available_s over
    all steps.   compute_s: of all tokens, on `devices`.   step_compute_s: of one step.   left_s: the step budget less
    that; negative where compute alone is late.   devices_by_compute, devices_by_capacity: fewest that compute in
    available_s, and that hold the state; `binds` says which is larger.   hosts: for `devices`, and for the fewest.
    in_time: whether compute alone keeps the step budget.
    """

    tokens_per_step: int
    executed_tokens_per_step: int
    useful_share: float
    steps: int
    last_step_tokens: int
    available_s: float
    required_tokens_per_s: float
    step_budget_s: float
    flops_per_token: float
    step_flops: float
    job_flops: float
    efficiency_kind: EfficiencyKind
    device_flops_per_s: float
    device_tokens_per_s: float
    tokens_per_s: float
    step_compute_s: float
    compute_s: float
    left_s: float
    devices_by_compute: int
    devices_by_capacity: int
    fewest_devices: int
    binds: Literal["compute", "capacity"]
    hosts: int
    fewest_hosts: int
    in_time: bool
    still_to_add: tuple[str, ...]


def training_budget(  # noqa: PLR0917 - a job and what it runs on
    model: Model,
    tokens: TokenCount,
    sequences: int,
    sequence: Tokens,
    padding: Share,
    deadline_s: Seconds,
    reserve_s: Seconds,
    system: System,
    number_format: str,
    efficiency: Share,
    efficiency_kind: EfficiencyKind,
    devices: int,
    state_bytes: Bytes,
) -> TrainingBudget:
    """A job of `tokens` useful tokens in steps of `sequences` sequences of `sequence` positions.

    padding: share of the positions that is no token of the data; it costs FLOPs and is no progress.   reserve_s: kept
    for what is planned beside training.   efficiency: share of the dense peak that computing reaches (`compute`), or
    that model FLOPs take of a whole step (`model-flops`).   devices: to look at.   state_bytes: that all devices
    together must hold, over the memory of each.

    Raises JOB001 (sizes), JOB064 (a format without a peak), JOB065 (a deadline that leaves no time, an efficiency or
    padding that leaves nothing). Source: chapter "Training systems", sections 10.1.1 and 10.1.3.
    """
    _check(tokens, sequences, sequence, devices)
    _check_shares(deadline_s, reserve_s, efficiency, padding)
    executed = sequences * sequence
    useful = useful_tokens(executed, padding)
    if useful == 0:
        raise JobError(65, f"padding {padding:g} leaves no token of a step", "give less padding")
    steps, available = -(-tokens // useful), deadline_s - reserve_s
    token = flops_per_token(model, sequence)
    step, job = token * executed, token * tokens * executed / useful
    rate = dense_peak(system, number_format) * efficiency
    memory = int(system.accelerator.memory)
    compute, capacity = ceil(job / (rate * available)), -(-state_bytes // memory)
    fewest, step_s = max(compute, capacity, 1), step / (rate * devices)
    return TrainingBudget(
        tokens_per_step=useful,
        executed_tokens_per_step=executed,
        useful_share=useful / executed,
        steps=steps,
        last_step_tokens=tokens - (steps - 1) * useful,
        available_s=available,
        required_tokens_per_s=tokens / available,
        step_budget_s=available / steps,
        flops_per_token=token,
        step_flops=step,
        job_flops=job,
        efficiency_kind=efficiency_kind,
        device_flops_per_s=rate,
        device_tokens_per_s=rate / token * (useful / executed),
        tokens_per_s=rate * devices / token * (useful / executed),
        step_compute_s=step_s,
        compute_s=job / (rate * devices),
        left_s=available / steps - step_s,
        devices_by_compute=compute,
        devices_by_capacity=capacity,
        fewest_devices=fewest,
        binds="compute" if compute >= capacity else "capacity",
        hosts=-(-devices // system.devices_per_node),
        fewest_hosts=-(-fewest // system.devices_per_node),
        in_time=step_s <= available / steps,
        still_to_add=STILL_TO_ADD[efficiency_kind],
    )


def _check(tokens: int, sequences: int, sequence: int, devices: int) -> None:
    check_range("tokens", tokens, 1, _MOST_JOB)
    check_range("sequences", sequences, 1, _MOST_COUNT)
    check_range("sequence", sequence, 1, MOST_TOKENS)
    check_range("devices", devices, 1, _MOST_COUNT)


def _check_shares(deadline_s: float, reserve_s: float, efficiency: float, padding: float) -> None:
    if reserve_s >= deadline_s:
        cause = f"a reserve of {reserve_s:g} s leaves nothing of {deadline_s:g} s"
        raise JobError(65, cause, f"give a reserve below the deadline, such as reserve_s={deadline_s / 6:g}s")
    if efficiency <= 0 or padding >= 1:
        cause = f"efficiency {efficiency:g} and padding {padding:g}"
        raise JobError(65, cause, "give an efficiency above 0 and a padding below 100%")
