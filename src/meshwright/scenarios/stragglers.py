"""What does the slowest device cost a synchronous step, and what is to be done about a slow one? Counts go in.

A step ends with its last device. Three reactions to a slow one are compared over the steps for which it stays slow:
wait for it, spread its work over the others, or take it out and go back to the last checkpoint.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Final

from meshwright.base.errors import JobError
from meshwright.base.units import Seconds, Share
from meshwright.cost.stragglers import (
    exact_late_device_s,
    expected_max,
    late_device_s,
    redistributed_s,
    straggler_s,
)

_MOST: Final = 10**9
_FEWEST_WAITS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """One answer to a slow device. step_s: while it lasts.   extra_s: of a step, over that of devices that are well.

    exact_extra_s: the same by the exact expectation; the chapter's form is simpler.   once_s: what is paid before.
    total_s: of all steps for which the device is slow, by the exact expectation.
    """

    name: str
    step_s: float
    extra_s: float
    exact_extra_s: float
    once_s: float
    total_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stragglers:
    """A step over devices that vary. even_step_s: without variation.   increase_s: what the slowest adds to it.

    increase_s is also the mean wait, in the exchange, of a device that takes exactly the mean; that of a slow one is
    smaller.   slack_share: the part of the slack that is gone, None without slack.   late_sigmas, exact_late_sigmas:
    what one slow device adds to the wait for the others.   exclude_steps: what taking it out costs, in even steps.
    exclude_from_steps: the fewest slow steps that repay it, None where none do.
    """

    devices: int
    expected_max: float
    sigma_s: float
    even_step_s: float
    increase_s: float
    step_s: float
    slack_share: float | None
    late_sigmas: float
    exact_late_sigmas: float
    exclude_steps: float
    exclude_from_steps: int | None
    best: str
    reactions: tuple[Reaction, ...]
    not_modelled: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowDevice:
    """The device that waits least. behind_s: how much later than the mean of the others it starts the exchange.

    behind_sigmas: that over the spread of the others, None where they do not vary.   expected_max: what the slowest of
    so many equal devices would reach; a device far above it is slow.   wait_of_others_s: what the others lose to it.
    """

    device: int
    wait_s: float
    wait_of_others_s: float
    sigma_of_others_s: float
    behind_s: float
    behind_sigmas: float | None
    expected_max: float


def stragglers(
    *,
    devices: int,
    compute_s: Seconds,
    sigma: Share,
    wait_s: Seconds,
    slack_s: Seconds,
    slow_sigmas: float,
    slow_steps: int,
    interval_s: Seconds,
    restart_s: Seconds,
) -> Stragglers:
    """A step whose devices each compute compute_s, give or take sigma of it, and then wait wait_s together.

    slack_s: what a step may still lose.   slow_sigmas: how far one device is above the mean, for slow_steps steps.
    interval_s, restart_s: useful time between checkpoints, of which half is lost, and the restart. Taking a device out
    puts a well one in its place. Raises JOB080. Source: chapter "Training systems", section 10.4.5.
    """
    _check(devices, compute_s, slow_sigmas, slow_steps)
    sigma_s, even = compute_s * sigma, compute_s + wait_s
    increase = straggler_s(compute_s, sigma, devices)
    late = late_device_s(sigma_s, slow_sigmas, devices - 1)
    exact = exact_late_device_s(sigma_s, slow_sigmas, devices - 1)
    others = even + straggler_s(compute_s, sigma, devices - 1)
    moved = redistributed_s(compute_s, sigma, devices - 1) + wait_s
    once, well = interval_s / 2 + restart_s, even + increase
    reactions = (
        _reaction("wait", others + late, late, exact, 0.0, slow_steps),
        _reaction("redistribute", moved, moved - others, moved - others, 0.0, slow_steps),
        _reaction("exclude", well, well - others, well - others, once, slow_steps),
    )
    saved = exact - reactions[-1].exact_extra_s
    return Stragglers(
        devices=devices,
        expected_max=expected_max(devices),
        sigma_s=sigma_s,
        even_step_s=even,
        increase_s=increase,
        step_s=even + increase,
        slack_share=increase / slack_s if slack_s else None,
        late_sigmas=late_device_s(1.0, slow_sigmas, devices - 1),
        exact_late_sigmas=exact_late_device_s(1.0, slow_sigmas, devices - 1),
        exclude_steps=once / even,
        exclude_from_steps=math.ceil(once / saved) if saved > 0 else None,
        best=min(reactions, key=lambda item: item.total_s).name,
        reactions=reactions,
        not_modelled="correlated devices, periodic jitter, devices slow for good; moving the work is free",
    )


def slow_device(waits: tuple[Seconds, ...]) -> SlowDevice:
    """The slow device of a step, from how long each waited in the exchange: the one that waited least.

    A wait is the end of the exchange less the end of the device's own computation, so who waits long is early. Raises
    JOB081. Source: chapter "Training systems", section 10.4.5. One step tells a device that is slow from one that was
    late by chance only as far as behind_sigmas goes.
    """
    if len(waits) < _FEWEST_WAITS:
        raise JobError(81, f"{len(waits)} waits", f"give the wait of each device, at least {_FEWEST_WAITS}")
    slow = min(range(len(waits)), key=lambda place: waits[place])
    others = [wait for place, wait in enumerate(waits) if place != slow]
    behind, spread = fmean(others) - waits[slow], pstdev(others)
    return SlowDevice(
        device=slow,
        wait_s=waits[slow],
        wait_of_others_s=fmean(others),
        sigma_of_others_s=spread,
        behind_s=behind,
        behind_sigmas=behind / spread if spread else None,
        expected_max=expected_max(len(waits)),
    )


def _reaction(  # noqa: PLR0917 - the columns of the table, in their order
    name: str, step_s: float, extra_s: float, exact_extra_s: float, once_s: float, steps: int
) -> Reaction:
    return Reaction(
        name=name,
        step_s=step_s,
        extra_s=extra_s,
        exact_extra_s=exact_extra_s,
        once_s=once_s,
        total_s=once_s + steps * exact_extra_s,
    )


def _check(devices: int, compute_s: float, slow_sigmas: float, slow_steps: int) -> None:
    if not 2 <= devices <= _MOST or compute_s <= 0 or slow_sigmas < 0 or not 1 <= slow_steps <= _MOST:  # noqa: PLR2004
        cause = f"{devices} devices of {compute_s} s, one of them {slow_sigmas} sigmas late for {slow_steps} steps"
        raise JobError(80, cause, f"give 2 to {_MOST} devices, a time above zero, and 1 to {_MOST} steps")
