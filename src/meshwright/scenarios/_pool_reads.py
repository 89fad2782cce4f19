"""A route to remote memory and a data set go in; the window's rate, one read, its queue, and fetching once come out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from meshwright.cost.memory_pool import (
    average_bytes_per_s,
    behind_s,
    even_reads_count,
    fetched_reads_s,
    idle_s,
    in_flight_bytes,
    least_requests_count,
    remote_reads_s,
    usable_bytes_per_s,
    window_bytes_per_s,
)
from meshwright.cost.roofline import read_s
from meshwright.scenarios._pool_options import PoolOptions, Route


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Requests under way. requests: None for any number.   least_requests: that fill the path."""

    requests: int | None
    item_bytes: int
    round_trip_s: float
    path_bytes_per_s: float
    in_flight_bytes: int | None
    window_bytes_per_s: float | None
    usable_bytes_per_s: float
    limited_by: Literal["window", "path"]
    least_requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodRow:
    """Reads one each period. average: asked for.   behind_s: how late the last of them starts; grows without end."""

    period_s: float
    average_bytes_per_s: float
    idle_s: float
    behind_s: float
    keeps_up: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """Reading data that lies elsewhere. even_reads: fewest for which fetching costs no more; None where it never does.

    local_bytes: what fetching takes of the reader's own memory.   average_span: largest average rate over the smallest.
    """

    data_bytes: int
    rate_bytes_per_s: float
    read_s: float
    periods: tuple[PeriodRow, ...]
    average_span: float | None
    reads: int
    remote_s: float
    local_scans_s: float
    fetched_s: float
    saving_s: float
    local_bytes: int
    even_reads: int | None
    sooner: Literal["remote", "fetch"]


def window_of(options: PoolOptions, route: Route) -> Window | None:
    """The rate of the window; None where path or round trip are not known."""
    path, trip, item = route.path_bytes_per_s, route.round_trip_s, options.item
    if path is None or trip is None:
        return None
    flying = None if options.window is None else in_flight_bytes(options.window, item)
    rate = None if options.window is None else window_bytes_per_s(options.window, item, trip)
    usable = path if rate is None else float(usable_bytes_per_s(path, rate))
    exact = least_requests_count(Fraction(repr(float(path))), Fraction(repr(float(trip))), Fraction(item))
    return Window(
        requests=options.window,
        item_bytes=item,
        round_trip_s=trip,
        path_bytes_per_s=path,
        in_flight_bytes=flying,
        window_bytes_per_s=rate,
        usable_bytes_per_s=usable,
        limited_by="path" if options.window is None or options.window >= exact else "window",
        least_requests=int(exact),
    )


def reads_of(options: PoolOptions, route: Route, window: Window | None, borrowed: int) -> Reads | None:
    """Reads of the data; None where there is none, or no path to it."""
    data = borrowed if options.data is None else options.data
    if not data or route.path_bytes_per_s is None:
        return None
    rate = route.path_bytes_per_s if window is None else window.usable_bytes_per_s
    one_s = float(read_s(data, rate))
    rows = tuple(_period(options, period, data, one_s) for period in options.periods)
    averages = [row.average_bytes_per_s for row in rows]
    remote = float(remote_reads_s(options.reads, data, rate))
    fetched = float(fetched_reads_s(options.reads, data, rate, options.local))
    return Reads(
        data_bytes=data,
        rate_bytes_per_s=rate,
        read_s=one_s,
        periods=rows,
        average_span=max(averages) / min(averages) if averages else None,
        reads=options.reads,
        remote_s=remote,
        local_scans_s=float(remote_reads_s(options.reads, data, options.local)),
        fetched_s=fetched,
        saving_s=remote - fetched,
        local_bytes=data,
        even_reads=_even(rate, options.local),
        sooner="fetch" if fetched < remote else "remote",
    )


def _period(options: PoolOptions, period: float, data: int, one_s: float) -> PeriodRow:
    return PeriodRow(
        period_s=period,
        average_bytes_per_s=average_bytes_per_s(data, period),
        idle_s=float(idle_s(period, one_s)),
        behind_s=float(behind_s(options.reads, period, one_s)),
        keeps_up=period >= one_s,
    )


def _even(rate: float, local: float) -> int | None:
    """Exactly: at equal rates fetching only adds a read."""
    if rate >= local:
        return None
    return math.ceil(even_reads_count(Fraction(repr(float(rate))), Fraction(repr(float(local)))))
