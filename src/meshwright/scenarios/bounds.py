"""What can removing a wait, or more devices, save at most? Measured times go in; bounds and what was won come out."""

from __future__ import annotations

from dataclasses import dataclass

from meshwright.base.errors import JobError
from meshwright.base.units import Seconds, Share
from meshwright.cost.stragglers import straggler_s


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapBound:
    """An exchange of which a part is hidden. most_saving_s: what a step can win by removing it all.

    hidden_s: what removing saves nothing of.   least_step_s: the step without the exposed part.
    """

    most_saving_s: float
    hidden_s: float
    least_step_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredScaling:
    """One job on two numbers of devices. ideal_s: the first step over the ratio of devices.

    efficiency: the speed-up reached over that ratio.   excess_s: what the second step takes beyond the ideal.
    slowest_s: what of that is waiting for the slowest of more devices.   unexplained_s: the rest, such as groups out of
    balance, exchanges among more of them, and overhead; below zero where devices vary less than was said.
    """

    step_s: float
    more_step_s: float
    times_devices: float
    ideal_s: float
    speed_up: float
    efficiency: float
    excess_s: float
    slowest_s: float
    unexplained_s: float


def overlap_bound(step_s: Seconds, exchange_s: Seconds, exposed_s: Seconds) -> OverlapBound:
    """A step of step_s with an exchange of exchange_s, of which exposed_s are waited for.

    Raises JOB084 where a part is longer than the whole. Source: chapter "Training systems", section 10.3.3.
    """
    if not 0 <= exposed_s <= exchange_s or exposed_s > step_s:
        cause = f"{exposed_s} s are exposed of an exchange of {exchange_s} s and of a step of {step_s} s"
        raise JobError(84, cause, "give an exposed part that is no longer than the exchange and the step")
    return OverlapBound(most_saving_s=exposed_s, hidden_s=exchange_s - exposed_s, least_step_s=step_s - exposed_s)


def measured_scaling(
    devices: int, step_s: Seconds, more_devices: int, more_step_s: Seconds, sigma: Share
) -> MeasuredScaling:
    """Steps of one job with the same global batch, measured on two numbers of devices.

    sigma: by how much of its mean the computation of a device varies; 0 explains nothing. The whole step is taken as
    computation. Raises JOB085. Source: chapter "Training systems", sections 10.3.3 and 10.4.5.
    """
    if not 1 <= devices <= more_devices or step_s <= 0 or more_step_s <= 0:
        cause = f"steps of {step_s} s on {devices} devices and {more_step_s} s on {more_devices}"
        raise JobError(85, cause, "give times above zero, and the smaller number of devices first")
    ratio, speed_up = more_devices / devices, step_s / more_step_s
    even = step_s / (1 + straggler_s(1.0, sigma, devices)) / ratio
    slowest = even + straggler_s(even, sigma, more_devices) - step_s / ratio
    return MeasuredScaling(
        step_s=step_s,
        more_step_s=more_step_s,
        times_devices=ratio,
        ideal_s=step_s / ratio,
        speed_up=speed_up,
        efficiency=speed_up / ratio,
        excess_s=more_step_s - step_s / ratio,
        slowest_s=slowest,
        unexplained_s=more_step_s - step_s / ratio - slowest,
    )
