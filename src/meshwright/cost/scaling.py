"""A batch, the gradient noise scale and device counts go in, as columns; steps, tokens and step times come out.

Steps and tokens that reach one loss trade against each other: (S / S_min - 1) (E / E_min - 1) = 1, and the noise scale
is the batch at which both are twice their least. It is an input here: it differs by model and grows during training.
"""

from __future__ import annotations

from typing import Any

from meshwright.base.numbers import N
from meshwright.base.traced import formula


@formula
def least_steps(steps: N, batch_tokens: Any, noise_tokens: Any) -> N:
    """S_min: the steps that no batch goes below, from a run of `steps` at batch_tokens.

    Source: McCandlish et al., "An Empirical Model of Large-Batch Training" (arXiv 1812.06162), section 2.3; chapter
    "Training systems", section 10.1.1.
    """
    return steps / speed_up_limit(batch_tokens, noise_tokens)


@formula
def least_tokens(run_tokens: N, batch_tokens: Any, noise_tokens: Any) -> N:
    """E_min: the tokens that no batch goes below, from a run of run_tokens. Source: as `least_steps`."""
    return run_tokens / (batch_tokens / noise_tokens + 1)


@formula
def steps_at(least_steps: N, batch_tokens: Any, noise_tokens: Any) -> N:
    """Steps to the same loss at another batch: S_min (1 + noise / batch). Source: as `least_steps`."""
    return least_steps * speed_up_limit(batch_tokens, noise_tokens)


@formula
def tokens_at(least_tokens: N, batch_tokens: Any, noise_tokens: Any) -> N:
    """Tokens to the same loss at another batch: E_min (1 + batch / noise). Source: as `least_steps`."""
    return least_tokens * (batch_tokens / noise_tokens + 1)


@formula
def speed_up_limit(batch_tokens: N, noise_tokens: Any) -> N:
    """How many times fewer steps the largest batch needs than this one: 1 + noise / batch. Source: as `least_steps`."""
    return noise_tokens / batch_tokens + 1


@formula
def strong_step_s(compute_s: N, wait_s: Any, times: Any) -> N:
    """A step of the same batch on `times` the devices: the computation divides, the wait stays.

    Source: chapter "Training systems", section 10.1.1. Leaves out that smaller parts compute less efficiently.
    """
    return compute_s / times + wait_s
