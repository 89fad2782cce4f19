"""How long does one collective take, and where does another algorithm take over? Closed forms over stated rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from meshwright.base.errors import CollectiveError
from meshwright.base.units import Bytes, BytesPerSecond, Seconds
from meshwright.cost.collectives import COLLECTIVES, rounds_s, start_up_s, transfer_s


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveTime:
    """One exchange: rounds, bytes each rank sends in all, and its seconds split into start-up and transfer."""

    algorithm: str
    ranks: int
    rounds: int
    sent_bytes: float
    start_up_s: float
    transfer_s: float
    total_s: float


def collective_time(
    algorithm: str, ranks: int, message_bytes: Bytes, latency_s: Seconds, bandwidth_bytes_per_s: BytesPerSecond
) -> CollectiveTime:
    """Seconds of an all_reduce of `message_bytes` by a registered algorithm. Raises COL001 (name), COL002 (ranks).

    Source: chapter "Supernodes", equations 6-9 and 6-10.
    """
    program, group = _program(algorithm, ranks)
    rounds, sent = program.rounds(group), program.round_bytes(group, float(message_bytes))
    return CollectiveTime(
        algorithm=algorithm,
        ranks=ranks,
        rounds=int(rounds[0]),
        sent_bytes=float((rounds * sent)[0]),
        start_up_s=float(start_up_s(rounds, cast("Any", latency_s))[0]),
        transfer_s=float(transfer_s(rounds, sent, bandwidth_bytes_per_s)[0]),
        total_s=float(rounds_s(rounds, cast("Any", latency_s), sent, bandwidth_bytes_per_s)[0]),
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


def _program(algorithm: str, ranks: int) -> tuple[Any, Any]:
    program: Any = COLLECTIVES.module(algorithm)
    group = np.array([ranks], dtype=np.int64)
    if not 1 <= ranks <= 10**6 or not program.permits("all_reduce", ranks):
        raise CollectiveError(2, f"{algorithm} does not take {ranks} ranks", "choose another algorithm or rank count")
    return program, group
