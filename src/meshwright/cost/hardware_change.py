"""A step, the share of it that waits for one resource, and how fast that gets go in, as columns; the step comes out."""

from __future__ import annotations

from typing import Any

from meshwright.base.numbers import N
from meshwright.base.traced import formula


@formula
def increase_share(wait_share: N, times: Any) -> N:
    """By what share a step grows when the resource that it waits for wait_share of its time gets `times` as fast.

    Negative for a faster one. Source: chapter "Training systems", section 10.6.3: T'/T = 1 - f + f/r. Holds for an
    unchanged schedule only: what was hidden must stay hidden.
    """
    return wait_share / times - wait_share


@formula
def changed_step_s(step_s: N, wait_share: Any, times: Any) -> N:
    """The step after that change. Source: as `increase_share`."""
    return step_s * (1 - wait_share) + step_s * wait_share / times
