"""Requests under way, a path and a data set go in; rates and seconds of reading memory that lies elsewhere come out.

A round trip bounds what a fixed number of requests can carry, however fast the path: the rate is what is under way,
over the round trip.
"""

from __future__ import annotations

from typing import Any

from meshwright.base.numbers import N, divide_up, maximum, minimum
from meshwright.base.traced import formula


@formula
def in_flight_bytes(requests_count: Any, item_bytes: N) -> N:
    """Bytes under way with so many requests of one item each. Source: chapter "Supernodes", section 6.6.2."""
    return item_bytes * requests_count


@formula
def window_bytes_per_s(requests_count: Any, item_bytes: Any, round_trip_s: N) -> N:
    """What so many requests under way can carry, over a path of any rate.

    Source: chapter "Supernodes", equation 6-12. Leaves out time at either end.
    """
    return in_flight_bytes(requests_count, item_bytes) / round_trip_s


@formula
def usable_bytes_per_s(path_bytes_per_s: N, window_bytes_per_s: Any) -> N:
    """The smaller of what the path and the window carry. Source: chapter "Supernodes", equation 6-12."""
    return minimum(path_bytes_per_s, window_bytes_per_s)


@formula
def least_requests_count(path_bytes_per_s: Any, round_trip_s: Any, item_bytes: Any) -> Any:
    """The fewest requests under way that fill the path; exact where rates and times are.

    Source: chapter "Supernodes", equation 6-12.
    """
    return divide_up(path_bytes_per_s * round_trip_s, item_bytes)


@formula
def average_bytes_per_s(data_bytes: Any, period_s: N) -> N:
    """What reading the data once a period asks for on average. Source: chapter "Supernodes", section 6.6.3."""
    return data_bytes / period_s


@formula
def idle_s(period_s: N, read_s: Any) -> N:
    """What a period leaves after one read; not below zero. Source: chapter "Supernodes", section 6.6.3."""
    return maximum(period_s, read_s) - read_s


@formula
def behind_s(reads_count: Any, period_s: N, read_s: Any) -> N:
    """How late the last of so many reads starts, one due each period; not below zero: a queue that grows.

    Source: chapter "Supernodes", section 6.6.3: reads keep up while a period is not shorter than one of them.
    """
    return (maximum(read_s, period_s) - period_s) * (reads_count - 1)


@formula
def remote_reads_s(reads_count: Any, data_bytes: Any, path_bytes_per_s: N) -> N:
    """Every read over the path. Source: chapter "Supernodes", section 6.6.3."""
    return data_bytes / path_bytes_per_s * reads_count


@formula
def fetched_reads_s(reads_count: Any, data_bytes: Any, path_bytes_per_s: N, local_bytes_per_s: Any) -> N:
    """Fetched once, then read where it is used. Source: chapter "Supernodes", section 6.6.3."""
    return data_bytes / path_bytes_per_s + remote_reads_s(reads_count, data_bytes, local_bytes_per_s)


@formula
def even_reads_count(path_bytes_per_s: Any, local_bytes_per_s: Any) -> Any:
    """Reads, no whole number, after which fetching has cost as much as reading over the path each time.

    Source: chapter "Supernodes", section 6.6.3, solved for the count: 1 / (1 - path / local).
    """
    return 1 / (1 - path_bytes_per_s / local_bytes_per_s)
