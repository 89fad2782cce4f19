"""Measured rounds go in; lines, overheads and pairs come out, by least squares with relative weights.

Of every measurement the median of its rounds is fitted, and its squared relative error counts: a size of 1 KiB weighs
as much as one of 64 MiB. No coefficient is below zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from meshwright.base.units import Bytes, BytesPerSecond, Seconds
from meshwright.cost.collectives import coefficients_of, start_up_s, transfer_s
from meshwright.system.system import AUTO_ALL_REDUCE
from meshwright.verify.local.calibration import ExchangeLine, Figure, Overhead, Pair, RateLine, Row
from meshwright.verify.local.spread import spread_of

if TYPE_CHECKING:
    from meshwright.base.numbers import Floats
    from meshwright.verify.local.cases import Case

Sample: TypeAlias = "tuple[Case, list[tuple[float, ...]]]"
_ALGORITHMS: Final = {"all_reduce": AUTO_ALL_REDUCE, "all_to_all": ("direct",), "send_recv": ("send_recv",)}
"""What an exchange is fitted by; others are rings."""
_UNITS: Final = {"matmul": "FLOP", "attention": "FLOP", "copy": "B", "update": "elements"}


def least_squares(columns: Floats, times: Floats, needed: Sequence[int] = ()) -> Floats:
    """Coefficients [k], none below zero, of columns [n, k] that come closest to times [n] in relative error.

    needed: columns whose coefficient must be above zero. Few columns: every choice of them is tried.
    """
    weighted, ones = columns / times[:, None], np.ones(len(times))
    best, least = np.zeros(columns.shape[1]), np.inf
    for chosen in product((False, True), repeat=columns.shape[1]):
        mask = np.asarray(chosen)
        if not mask.any() or not mask[list(needed)].all():
            continue
        found = np.zeros(columns.shape[1])
        found[mask] = np.linalg.lstsq(weighted[:, mask], ones, rcond=None)[0]
        error = float(((weighted @ found - ones) ** 2).sum())
        if (found >= 0).all() and (found[list(needed)] > 0).all() and error < least:
            best, least = found, error
    return best


def exchange_line(samples: Sequence[Sample], reduce_scatter_rings: int) -> ExchangeLine:
    """Of one exchange at several sizes. An all_reduce is the fastest of its algorithms, as a plan has it."""
    case = samples[0][0]
    sizes, times = _medians(samples)
    programs = _programs(case.operation, case.ranks, sizes, reduce_scatter_rings)
    alpha, inverse = _best_line(programs, sizes, times)
    fitted = _fastest(programs, alpha, inverse)
    low, high, count = _around(samples, fitted)
    return ExchangeLine(
        operation=case.operation,
        ranks=case.ranks,
        alpha=Seconds(alpha),
        bandwidth=BytesPerSecond(1 / inverse),
        low=low,
        high=high,
        count=count,
        row=_rows(samples),
    )


def _best_line(programs: Floats, sizes: Floats, times: Floats) -> tuple[float, float]:
    """alpha and the inverse of the bandwidth. Which algorithm a size takes follows from them: every choice is tried."""
    rows, best, least = np.arange(len(sizes)), (0.0, 0.0), np.inf
    for chosen in product(range(len(programs)), repeat=len(sizes)):
        columns = programs[np.asarray(chosen), rows]
        alpha, inverse = least_squares(columns, times, needed=(1,)).tolist()
        if not inverse:  # noise hides the slope: at most that of the largest message
            largest = int(np.argmax(sizes))
            alpha, inverse = 0.0, float(times[largest] / columns[largest, 1])
        error = float(((_fastest(programs, alpha, inverse) / times - 1) ** 2).sum())
        if error < least:
            best, least = (alpha, inverse), error
    return best


def _fastest(programs: Floats, alpha: float, inverse: float) -> Floats:
    return (programs @ np.array([alpha, inverse])).min(axis=0)


def _programs(operation: str, ranks: int, sizes: Floats, reduce_scatter_rings: int) -> Floats:
    """[algorithms, sizes, 2]: what alpha and what the inverse of the bandwidth are multiplied by."""
    names = _ALGORITHMS.get(operation, ("ring",))
    times = reduce_scatter_rings if operation == "reduce_scatter" else 1
    found = [coefficients_of(name, operation, ranks) for name in names]
    one = np.ones(len(sizes))
    return times * np.stack(
        [
            np.stack(
                [start_up_s(each.rounds, one), transfer_s(sizes, each.message_pieces, each.near_pieces, one)], axis=1
            )
            for each in found
            if each.permitted.all()
        ]
    )


def rate_line(samples: Sequence[Sample]) -> RateLine:
    """Of one kind of work at several amounts."""
    case = samples[0][0]
    amounts, times = _medians(samples)
    columns = np.stack([np.ones(len(amounts)), amounts], axis=1)
    launch, inverse = least_squares(columns, times, needed=(1,)).tolist()
    if not inverse:
        inverse = float(times[-1] / amounts[-1])
    low, high, count = _around(samples, columns @ np.array([launch, inverse]))
    return RateLine(
        operation=case.operation,
        format=case.format,
        unit=_UNITS[case.operation],
        launch=Seconds(launch),
        rate=1 / inverse,
        low=low,
        high=high,
        count=count,
        row=_rows(samples),
    )


def overhead(samples: Sequence[Sample]) -> Overhead:
    """Of probes that keep their parameters one way, with several numbers of layers and micro-batches."""
    _, times = _medians(samples)
    shapes = [case.shape for case, _ in samples]
    columns = np.array([[1.0, layers, slots, layers * slots] for layers, slots in shapes])
    found = least_squares(columns, times)
    low, high, count = _around(samples, columns @ found)
    names = ("step", "layer", "slot", "block")
    parts = {name: Seconds(value) for name, value in zip(names, found.tolist(), strict=True)}
    return Overhead(kind=samples[0][0].format, **parts, low=low, high=high, count=count)


def pair(communication: Sample, computation: Sample, together: Sample) -> Pair:
    """Of one message size."""
    case, rounds = together

    def figure(sample: list[tuple[float, ...]], part: int = 0) -> Figure:
        found = spread_of([item[part] for item in sample])
        return Figure(median=Seconds(found.median), low=Seconds(found.low), high=Seconds(found.high))

    return Pair(
        message=Bytes(case.amount),
        ranks=case.ranks,
        communication_alone=figure(communication[1]),
        computation_alone=figure(computation[1]),
        communication_together=figure(rounds),
        computation_together=figure(rounds, 1),
        finish=figure(rounds, 2),
        count=len(rounds),
    )


def _medians(samples: Sequence[Sample]) -> tuple[Floats, Floats]:
    times = [spread_of([item[0] for item in rounds]).median for _, rounds in samples]
    return np.array([float(case.amount) for case, _ in samples]), np.array(times)


def _around(samples: Sequence[Sample], fitted: Floats) -> tuple[float, float, int]:
    """Quartiles of measured over fitted, and of how many."""
    ratios = [item[0] / each for (_, rounds), each in zip(samples, fitted.tolist(), strict=True) for item in rounds]
    found = spread_of(ratios)
    return found.low, found.high, found.count


def _rows(samples: Sequence[Sample]) -> tuple[Row, ...]:
    found: list[Row] = []
    for case, rounds in samples:
        told = spread_of([item[0] for item in rounds])
        times = {
            name: Seconds(value) for name, value in (("time", told.median), ("low", told.low), ("high", told.high))
        }
        found.append(Row(amount=float(case.amount), **times, count=told.count))
    return tuple(found)
