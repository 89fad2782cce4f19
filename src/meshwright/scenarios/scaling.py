"""More devices: a larger batch, or the same one? A run and the gradient noise scale go in; a table of both comes out.

Weak scaling grows the batch with the devices: a step takes as long as before, and fewer steps are needed, the less so
the further the batch is above the noise scale. Strong scaling keeps the batch: steps shorten until what each waits for,
which does not shrink, is most of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from meshwright.base.errors import JobError
from meshwright.base.numbers import divide_up
from meshwright.base.units import Seconds, TokenCount, Tokens
from meshwright.cost.scaling import (
    least_steps,
    least_tokens,
    speed_up_limit,
    steps_at,
    strong_step_s,
    tokens_at,
)

_MOST: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalBatch:
    """What a larger batch can still save. steps: of the run.   least_steps, least_tokens: what no batch goes below.

    batch_over_noise: the batch as a multiple of the noise scale.   times_least_steps, times_least_tokens: how many
    times the least this batch takes of each; both 2 at the noise scale.   speed_up_limit: of weak scaling from here.
    doubling_speed_up: what twice the batch on twice the devices brings, never 2.   advice: `grow_batch` below the noise
    scale, where steps fall by a larger share than tokens rise; `keep_batch` from it on.
    """

    steps: int
    batch_tokens: int
    least_steps: float
    least_tokens: float
    batch_over_noise: float
    times_least_steps: float
    times_least_tokens: float
    speed_up_limit: float
    doubling_speed_up: float
    advice: Literal["grow_batch", "keep_batch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingRow:
    """So many devices. weak_*: the batch grown with them, at the first step time.   strong_*: the first batch.

    weak_steps is no whole number: it is the model's mean.   weak_s, strong_s: of all steps, nothing else added.
    wait_share: of a strong step, what does not shrink.
    """

    devices: int
    times: float
    weak_batch_tokens: int
    weak_steps: float
    weak_s: float
    strong_step_s: float
    strong_s: float
    wait_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """The table, from a first number of devices, whose batch, steps, step and wait stand above it."""

    batch_tokens: int
    steps: int
    step_s: float
    wait_s: float
    rows: tuple[ScalingRow, ...]
    not_modelled: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseScale:
    """An estimate from two batches. squared_gradient: |G|^2, of the true one.   variance: tr(Sigma), of one token's."""

    noise_scale_tokens: float
    squared_gradient: float
    variance: float


def noise_scale(batch: Tokens, squared_norm: float, large_batch: Tokens, large_squared_norm: float) -> NoiseScale:
    """The simple noise scale tr(Sigma) / |G|^2, from the mean squared norms of gradients of two batches.

    Such as those of one rank before the all_reduce and of all after it; both are to be averaged over many steps first,
    for each alone is noisy. Raises JOB082 where they say no noise scale. Source: McCandlish et al., "An Empirical Model
    of Large-Batch Training" (arXiv 1812.06162), appendix A.1. It stands in for the scale with the Hessian in it.
    """
    if not 1 <= batch < large_batch:
        raise JobError(82, f"batches of {batch} and {large_batch} tokens", "give a batch, and a larger one")
    squared = (large_batch * large_squared_norm - batch * squared_norm) / (large_batch - batch)
    variance = (squared_norm - large_squared_norm) / (1 / batch - 1 / large_batch)
    if squared <= 0 or variance <= 0:
        cause = f"squared norms of {squared_norm} and {large_squared_norm}, whose noise would be {variance:g}"
        raise JobError(
            82, cause, "give means over more steps: the larger batch has the smaller norm, and not by its ratio"
        )
    return NoiseScale(noise_scale_tokens=variance / squared, squared_gradient=squared, variance=variance)


def critical_batch(tokens: TokenCount, batch: Tokens, noise_scale: TokenCount) -> CriticalBatch:
    """A run of `tokens` at `batch` tokens a step, where gradients have that noise scale (tokens).

    The last step is charged whole. Raises JOB082. Source: McCandlish et al., "An Empirical Model of Large-Batch
    Training" (arXiv 1812.06162), section 2; chapter "Training systems", section 10.1.1. The noise scale is taken as
    constant; it differs by model and grows during training.
    """
    if not 1 <= batch <= tokens or noise_scale < 1:
        cause = f"{tokens} tokens in batches of {batch}, at a noise scale of {noise_scale} tokens"
        raise JobError(82, cause, "give a noise scale of at least 1 token, and a batch of 1 to all tokens")
    steps = divide_up(int(tokens), int(batch))
    fewest, least = least_steps(steps, batch, noise_scale), least_tokens(tokens, batch, noise_scale)
    return CriticalBatch(
        steps=steps,
        batch_tokens=batch,
        least_steps=fewest,
        least_tokens=least,
        batch_over_noise=batch / noise_scale,
        times_least_steps=steps_at(fewest, batch, noise_scale) / fewest,
        times_least_tokens=tokens_at(least, batch, noise_scale) / least,
        speed_up_limit=speed_up_limit(batch, noise_scale),
        doubling_speed_up=speed_up_limit(batch, noise_scale) / speed_up_limit(2 * batch, noise_scale),
        advice="grow_batch" if batch < noise_scale else "keep_batch",
    )


def scaling(
    *,
    tokens: TokenCount,
    sequence: Tokens,
    micro_batches: int,
    base_devices: int,
    devices: tuple[int, ...],
    compute_s: Seconds,
    exposed_comm_s: Seconds,
    input_wait_s: Seconds,
    noise_scale: TokenCount,
) -> Scaling:
    """Both ways to use more devices than base_devices, which run `micro_batches` of one sequence each a step.

    compute_s: of their step; the rest of it, exposed_comm_s and input_wait_s, does not shrink. Raises JOB082 (batch,
    noise scale) and JOB083 (devices, times). Source: chapter "Training systems", section 10.1.1. Leaves out saves,
    failures and planned stops, and that smaller parts compute less efficiently.
    """
    if not devices or not all(1 <= count <= _MOST for count in (*devices, base_devices, micro_batches)):
        cause = f"{micro_batches} micro-batches on {base_devices} devices, then on {devices or 'none'}"
        raise JobError(83, cause, f"give 1 to {_MOST} of each, and a number of devices to grow to")
    return scaled(
        critical=critical_batch(tokens, Tokens(sequence * micro_batches * base_devices), noise_scale),
        base_devices=base_devices,
        devices=devices,
        compute_s=compute_s,
        wait_s=Seconds(exposed_comm_s + input_wait_s),
        noise_scale=noise_scale,
    )


def scaled(
    *,
    critical: CriticalBatch,
    base_devices: int,
    devices: tuple[int, ...],
    compute_s: Seconds,
    wait_s: Seconds,
    noise_scale: TokenCount,
) -> Scaling:
    """As `scaling`, from a run on base_devices whose batch and steps are known. wait_s: of a step, does not shrink.

    A grown batch that is no whole number of tokens is rounded down. Raises JOB083.
    """
    batch, wait = critical.batch_tokens, wait_s
    first_step = strong_step_s(compute_s, wait, 1)
    if first_step <= 0:
        raise JobError(83, "a step of no time", "give a time above zero to compute_s")
    rows: list[ScalingRow] = []
    for count in devices:
        times, grown = count / base_devices, batch * count // base_devices
        step = strong_step_s(compute_s, wait, times)
        steps = steps_at(critical.least_steps, grown, noise_scale)
        rows.append(
            ScalingRow(
                devices=count,
                times=times,
                weak_batch_tokens=grown,
                weak_steps=steps,
                weak_s=steps * first_step,
                strong_step_s=step,
                strong_s=critical.steps * step,
                wait_share=wait / step,
            )
        )
    return Scaling(
        batch_tokens=batch,
        steps=critical.steps,
        step_s=first_step,
        wait_s=wait,
        rows=tuple(rows),
        not_modelled="saves, failures and planned stops; efficiency lost in smaller parts; a noise scale that changes",
    )
