"""Failure rates, saves and intervals go in; what they add to useful time, and the best interval, come out.

For a plan: `overhead_fraction(interval_s, stall_s, lag_s, failures_per_s, restart_s)` is the extra time per useful
time, columns in and columns out, and `finish_s` turns it into a date. Everywhere

    interval_s       useful time between two saves
    stall_s          what a save holds training: all of a blocking save, the copy of one written beside training
    lag_s            from the end of the stall until the save counts: 0 for a blocking save, write and commit otherwise
    failures_per_s   of the whole job: devices, what they share, and loss spikes
    restart_s        from a failure until training runs again

Shapes broadcast. Source of all of it: chapter "Training systems", section 10.4.4 and note 20.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from meshwright.base.numbers import N, exp, expm1, where
from meshwright.base.traced import elementwise, formula, is_traced

_ROUNDS: Final = 64


@formula
def devices_failures_per_s(card_count: Any, card_mtbf_s: N, common_failures_per_s: Any) -> N:
    """Failures a second of all devices, and once for the job what stops them together (a switch, a power supply).

    Source: chapter "Training systems", section 10.4.4. Leaves out aging, and failures that bring others.
    """
    return card_count / card_mtbf_s + common_failures_per_s


@formula
def device_mtbf_s(card_count: Any, job_mtbf_s: N) -> N:
    """The mean time between failures of one device, when those of all devices are what stops the job."""
    return card_count * job_mtbf_s


@formula
def save_fraction(interval_s: N, stall_s: Any) -> N:
    """Time that saves hold training, per useful time."""
    return stall_s / interval_s


@formula
def rework_fraction(interval_s: N, lag_s: Any, failures_per_s: Any) -> N:
    """Work done again per useful time: half an interval a failure, and what a save not yet committed leaves open."""
    return failures_per_s * (interval_s / 2 + lag_s)


@formula
def recovery_fraction(restart_s: N, failures_per_s: Any) -> N:
    """Time of restarts per useful time."""
    return failures_per_s * restart_s


@formula
def overhead_fraction(interval_s: N, stall_s: Any, lag_s: Any, failures_per_s: Any, restart_s: Any) -> N:
    """First order: extra time per useful time, not capped; it holds where it is far below 1.

    Source: chapter "Training systems", section 10.4.4; Young, "A first order approximation to the optimum checkpoint
    interval" (1974). Leaves out failures during saves and recoveries, and that a failure comes again in redone work.
    """
    lost = rework_fraction(interval_s, lag_s, failures_per_s) + recovery_fraction(restart_s, failures_per_s)
    return save_fraction(interval_s, stall_s) + lost


@formula
def first_order_interval_s(stall_s: N, failures_per_s: Any) -> N:
    """The interval at which `overhead_fraction` is least, 0 for a save that holds nothing; the rate is above zero.

    Source: chapter "Training systems", section 10.4.4; Young (1974), equation 3.
    """
    return (2 * stall_s / failures_per_s) ** 0.5


@formula
def retry_cycle_s(interval_s: N, stall_s: Any, lag_s: Any, failures_per_s: Any, restart_s: Any) -> N:
    """Mean time until `interval_s` of new work is saved, when failures are a Poisson process that may hit the save too.

    A cycle of interval and stall that a failure hits begins anew after restart_s, in which none fails. With a lag, the
    mean over a long run: the captures within it are lost as well. Of a rate of zero it is the cycle itself. Source:
    chapter "Training systems", note 20; Daly, "A higher order estimate of the optimum checkpoint interval" (2006).
    """
    expected = failures_per_s * (interval_s + stall_s)
    tried = where(expected > 0, expm1(expected) / where(expected > 0, expected, 1.0), 1.0)
    return (interval_s + stall_s) * tried * exp(failures_per_s * lag_s) * (1 + failures_per_s * restart_s)


@formula
def retry_overhead_fraction(interval_s: N, stall_s: Any, lag_s: Any, failures_per_s: Any, restart_s: Any) -> N:
    """Poisson retry: extra time per useful time, without a bound on it. Source: as `retry_cycle_s`."""
    return retry_cycle_s(interval_s, stall_s, lag_s, failures_per_s, restart_s) / interval_s - 1


@formula
def retry_interval_s(stall_s: N, failures_per_s: Any) -> N:
    """The interval at which `retry_overhead_fraction` is least; neither lag nor restart moves it.

    y / rate with y - 1 + exp(-y - rate * stall) = 0, which is y = 1 + W0(-exp(-1 - rate * stall)) by Lambert's W. The
    rate is above zero. Source: chapter "Training systems", note 20.
    """
    return retry_count(stall_s * failures_per_s) / failures_per_s


def retry_count(stall_count: N) -> N:
    """The y from 0 to 1 with y - 1 + exp(-y - x) = 0, for x from 0 on: failures expected in the best interval.

    stall_count: x, failures expected in a stall. By Newton's steps from sqrt(2 x), which lies above the root of this
    convex function: they fall onto it.
    """
    if is_traced(stall_count):
        return elementwise("retry_count", _root, stall_count)
    return _root(stall_count)


def _root(stall_count: Any) -> Any:
    found = (2 * stall_count) ** 0.5
    for _ in range(_ROUNDS):
        survived = -expm1(-(found + stall_count))
        lower = found - (found - survived) / where(survived > 0, survived, 1.0)
        if np.all(lower >= found):
            break
        found = where(lower < found, lower, found)
    return found


@formula
def exposed_restart_s(restart_s: N, failures_per_s: Any) -> N:
    """Mean time of a recovery that failures may hit, each beginning it anew; `restart_s` where they can not.

    Source: Daly (2006), section 3.
    """
    expected = failures_per_s * restart_s
    return restart_s * where(expected > 0, expm1(expected) / where(expected > 0, expected, 1.0), 1.0)


@formula
def finish_s(step_count: Any, step_s: N, overhead_fraction: Any, reserve_s: Any) -> N:
    """Calendar time of a run: planned stops, and every step with its share of saves, rework and recovery.

    Source: chapter "Training systems", section 10.6.1.
    """
    return reserve_s + step_count * step_s * (1 + overhead_fraction)
