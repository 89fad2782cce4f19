"""Counts of devices go in, as columns; what the slowest of them adds to a synchronous step comes out.

Every device's computation is an independent normal variable of one mean and one spread, and the step ends with the
last. The expected largest of so many is an integral over the normal distribution, done once for each distinct count.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final, cast

import numpy as np

from meshwright.base.numbers import Floats, N, maximum
from meshwright.base.traced import elementwise, formula, is_traced

_FAR: Final = 12.0
"""Sigmas beyond which nothing is integrated: the largest of 10^9 is above them once in 10^23."""
_PANELS: Final = 12
_POINTS: Final = 24


@formula
def expected_max(count: N) -> N:
    """E[max] of `count` independent standard normal variables, in sigmas above their mean; 0 of one.

    One number or a column, of whole numbers from 1; distinct counts are evaluated once. Source: David and Nagaraja,
    "Order Statistics", 3rd edition (2003), section 3.1: the mean of a largest value; chapter "Training systems",
    section 10.4.5. Leaves out correlation between devices, periodic jitter and devices that are slow for good.
    """
    if is_traced(count):
        return cast("N", elementwise("expected_max", _expected_max, count))
    distinct, place = np.unique(cast("Any", count), return_inverse=True)
    found = np.array([_expected_max(item) for item in distinct.tolist()])
    whole: Any = found[place].reshape(np.shape(cast("Any", count)))
    return cast("N", whole if whole.ndim else whole.item())


@formula
def straggler_s(compute_s: N, sigma_share: Any, count: Any) -> N:
    """What the slowest of `count` devices adds to the mean compute_s, its spread being that share of the mean.

    It is also how long a device that takes exactly the mean waits in the exchange. Source: chapter "Training systems",
    section 10.4.5.
    """
    return compute_s * sigma_share * expected_max(count)


@formula
def late_device_s(sigma_s: N, late_sigmas: Any, count: Any) -> N:
    """How much longer a step waits for one device late_sigmas above the mean than for the `count` others.

    The chapter's form: the lateness less the expected largest of the others, not below zero. It is below the exact
    expectation, `exact_late_device_s`. Source: chapter "Training systems", section 10.4.5.
    """
    return sigma_s * maximum(late_sigmas - expected_max(count), 0)


def exact_late_device_s(sigma_s: float, late_sigmas: float, count: int) -> float:
    """E[(late - max of `count` others)+], in seconds: the integral of the maximum's distribution up to the lateness.

    One device, not a column. Source: integration by parts of the expectation.
    """
    return sigma_s * _expected_margin(count, late_sigmas)


@formula
def redistributed_s(compute_s: N, sigma_share: Any, count: Any) -> N:
    """Computation of a step whose work `count` devices, one fewer than before, share evenly.

    The mean grows by the lost device's part, its spread in seconds does not, and moving the work is free. Source:
    chapter "Training systems", section 10.4.5.
    """
    return compute_s * (count + 1) / count + straggler_s(compute_s, sigma_share, count)


@lru_cache(maxsize=4096)
def _expected_max(count: int) -> float:
    """The integral over x > 0 of P(max > x) - P(max < -x)."""
    places, weights = _grid(0.0, _FAR)
    tails = _tails(places)
    above = -np.expm1(count * np.log1p(-tails))
    return max(0.0, float(np.dot(weights, above - np.power(tails, count))))


@lru_cache(maxsize=4096)
def _expected_margin(count: int, at: float) -> float:
    """The integral of the distribution of the largest of `count`, from far below up to `at`."""
    near = min(max(at, -_FAR), _FAR)
    places, weights = _grid(-_FAR, near)
    powers = np.exp(count * np.log(_tails(-places)))
    return float(np.dot(weights, powers)) + max(at - near, 0.0)


@lru_cache(maxsize=64)
def _grid(low: float, high: float) -> tuple[Floats, Floats]:
    """Points and weights of Gauss and Legendre on equal panels."""
    points, weights = np.polynomial.legendre.leggauss(_POINTS)
    edges = np.linspace(low, high, 2 * _PANELS + 1)
    half = (edges[1] - edges[0]) / 2
    places = (edges[:-1] + half)[:, None] + half * points[None, :]
    return places.reshape(-1), np.tile(half * weights, 2 * _PANELS)


def _tails(places: Floats) -> Floats:
    """P(standard normal > x)."""
    return np.array([math.erfc(item / math.sqrt(2)) / 2 for item in places.tolist()])
