"""How long does one collective take, and where does another algorithm take over? Programs over links alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from meshwright.base.errors import CollectiveError
from meshwright.base.units import Bytes, BytesPerSecond, Seconds
from meshwright.cost.collectives import (
    algbw_bytes_per_s,
    busbw_bytes_per_s,
    busbw_factor,
    check_permitted,
    coefficients_of,
    port_bytes,
    program_s,
    start_up_s,
    transfer_s,
)
from meshwright.cost.groups import lone_group


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveTime:
    """One exchange: rounds and seconds, split into start-up and transfer.

    sent_bytes: of the busiest port of each round, all rounds together; of a ring what every rank sends.
    """

    operation: str
    algorithm: str
    ranks: int
    rounds: int
    sent_bytes: float
    start_up_s: float
    transfer_s: float
    total_s: float


def collective_time(  # noqa: PLR0917 - a collective and a link
    algorithm: str,
    ranks: int,
    message_bytes: Bytes,
    latency_s: Seconds,
    bandwidth_bytes_per_s: BytesPerSecond,
    operation: str = "all_reduce",
) -> CollectiveTime:
    """Seconds of an operation on `message_bytes` by a registered algorithm, over links that are all alike.

    Raises COL001 (name), COL002 (ranks), COL010 (an operation that it does not have).

    Source: chapter "Supernodes", equations 6-9 and 6-10.
    """
    check_permitted(algorithm, operation, ranks)
    group = lone_group(ranks, latency_s, bandwidth_bytes_per_s)
    found = coefficients_of(algorithm, operation, ranks)
    size = float(message_bytes)
    sent: Any = transfer_s(size, found.message_pieces, found.near_pieces, bandwidth_bytes_per_s)
    return CollectiveTime(
        operation=operation,
        algorithm=algorithm,
        ranks=ranks,
        rounds=int(found.rounds[0]),
        sent_bytes=float(port_bytes(algorithm, operation, group, size)[0]),
        start_up_s=float(start_up_s(found.rounds, cast("Any", latency_s))[0]),
        transfer_s=float(sent[0]),
        total_s=float(program_s(algorithm, operation, group, size)[0]),
    )


def crossover_bytes(
    small: str, large: str, ranks: int, latency_s: Seconds, bandwidth_bytes_per_s: BytesPerSecond
) -> float:
    """The message at which `large` becomes as fast as `small`: fewer rounds win below it, fewer bytes above.

    Both times are linear in the message, so it follows from their rounds and bytes. Raises COL003 when they never meet.
    Source: chapter "Supernodes", section 6.4.2.
    """
    few = collective_time(small, ranks, Bytes(1), latency_s, bandwidth_bytes_per_s)
    many = collective_time(large, ranks, Bytes(1), latency_s, bandwidth_bytes_per_s)
    per_byte = few.transfer_s - many.transfer_s
    if per_byte <= 0 or many.start_up_s <= few.start_up_s:
        cause = f"over {ranks} ranks {large} never overtakes {small}: one of them is faster at every size"
        raise CollectiveError(
            3, cause, "name first the algorithm with fewer rounds, then the one that sends fewer bytes"
        )
    return (many.start_up_s - few.start_up_s) / per_byte


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidths:
    """A measured exchange as nccl-tests state it: message over time, and what is comparable between operations."""

    operation: str
    ranks: int
    algbw_bytes_per_s: float
    busbw_factor: float
    busbw_bytes_per_s: float


def algorithm_bandwidth(operation: str, ranks: int, message_bytes: Bytes, time_s: Seconds) -> Bandwidths:
    """algbw and busbw of a time. Raises COL017 (operation, ranks). Source: nccl-tests, doc/PERFORMANCE.md."""
    return bus_bandwidth(operation, ranks, BytesPerSecond(algbw_bytes_per_s(float(message_bytes), float(time_s))))


def bus_bandwidth(operation: str, ranks: int, algbw_bytes_per_s: BytesPerSecond) -> Bandwidths:
    """busbw of an algbw. Raises COL017 (operation, ranks). Source: nccl-tests, doc/PERFORMANCE.md.

    It is no rate of a NIC: hierarchical exchanges and switches that add send less than it counts.
    """
    factor = busbw_factor(operation, ranks)
    return Bandwidths(
        operation=operation,
        ranks=ranks,
        algbw_bytes_per_s=algbw_bytes_per_s,
        busbw_factor=factor,
        busbw_bytes_per_s=busbw_bytes_per_s(algbw_bytes_per_s, factor),
    )
