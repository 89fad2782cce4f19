"""Groups and messages go in, as columns; seconds, algorithm, rounds and basis of the exchange come out.

The closed form pays the slowest link of its group in every round (chapter "Supernodes", section 6.5.1, variant a):
alpha-beta over the rounds that `workload.collectives` states for each registered algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

import numpy as np

from meshwright.base.errors import CollectiveError, suggest
from meshwright.base.numbers import N
from meshwright.base.registry import Registry
from meshwright.base.result import Basis
from meshwright.system.calibrations import Measured, measured_time

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from meshwright.base.numbers import Floats, Ints

COLLECTIVES: Final = Registry(
    kind="collectives", package="meshwright.workload", folder="collectives", error=CollectiveError, number=1
)
Choice: TypeAlias = Literal["auto", "measured"] | str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Group:
    """Columns of one group a layout: ranks, boxes touched, and the slowest link between members."""

    ranks: Ints
    nodes: Ints
    latency_s: Floats
    bandwidth_bytes_per_s: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exchange:
    """Columns of one exchange a layout. rounds is 0 where a measured time says nothing of them."""

    seconds: Floats
    algorithm: NDArray[Any]
    rounds: Ints
    basis: NDArray[Any]
    measured: tuple[Measured | None, ...]


def rounds_s(rounds: Any, latency_s: N, round_bytes: N, bandwidth_bytes_per_s: N) -> N:
    """Seconds of rounds that follow each other, each waiting for its own send: alpha + bytes / bandwidth a round.

    Source: chapter "Supernodes", equations 6-9 and 6-10. Leaves out start skew and contention.
    """
    return (latency_s + round_bytes / bandwidth_bytes_per_s) * rounds


def start_up_s(rounds: Any, latency_s: N) -> N:
    """The part of `rounds_s` that bandwidth does not change."""
    return latency_s * rounds


def transfer_s(rounds: Any, round_bytes: N, bandwidth_bytes_per_s: N) -> N:
    """The part of `rounds_s` that latency does not change."""
    return round_bytes / bandwidth_bytes_per_s * rounds


def send_s(message_bytes: N, latency_s: N, bandwidth_bytes_per_s: N) -> N:
    """Seconds of one message between two ranks."""
    return latency_s + message_bytes / bandwidth_bytes_per_s


def check_choice(choice: str) -> str:
    """The choice itself when it is `auto`, `measured` or a registered algorithm. Raises COL001."""
    known = ("auto", "measured", *COLLECTIVES.names())
    if choice not in known:
        raise CollectiveError(1, f"--all-reduce {choice}: not a known algorithm", suggest(choice, known))
    return choice


def all_reduce(choice: str, group: Group, message_bytes: int, accelerator: str) -> Exchange:
    """The all_reduce of `message_bytes` over each row's group by the chosen algorithm.

    `auto` takes the fastest registered one that permits the rank count; `measured` the archived time of the platform
    (accelerator, boxes, ranks), and `auto` where there is none. A named algorithm that does not permit a rank count
    leaves NaN seconds there, for the caller to exclude the row.
    """
    if choice not in {"auto", "measured"}:
        return _by_formula(choice, group, message_bytes)
    fastest = _fastest([_by_formula(name, group, message_bytes) for name in COLLECTIVES.names()])
    if choice == "auto":
        return fastest
    return _measured(fastest, group, message_bytes, accelerator)


def _by_formula(name: str, group: Group, message_bytes: int) -> Exchange:
    program = COLLECTIVES.module(name)
    rounds = cast("Ints", program.rounds(group.ranks))
    sent = cast("Floats", program.round_bytes(group.ranks, float(message_bytes)))
    seconds = rounds_s(rounds, group.latency_s, sent, group.bandwidth_bytes_per_s)
    count = len(group.ranks)
    return Exchange(
        seconds=np.where(program.permits(group.ranks), seconds, np.nan),
        algorithm=np.full(count, name, dtype=object),
        rounds=rounds,
        basis=np.full(count, Basis.FORMULA.value, dtype=object),
        measured=(None,) * count,
    )


def _fastest(found: list[Exchange]) -> Exchange:
    """Row by row the shortest; ties go to the first in registry order."""
    times = np.stack([item.seconds for item in found])
    best = np.argmin(np.where(np.isnan(times), np.inf, times), axis=0)
    rows = np.arange(len(best))
    return Exchange(
        seconds=times[best, rows],
        algorithm=np.stack([item.algorithm for item in found])[best, rows],
        rounds=np.stack([item.rounds for item in found])[best, rows],
        basis=found[0].basis,
        measured=found[0].measured,
    )


def _measured(otherwise: Exchange, group: Group, message_bytes: int, accelerator: str) -> Exchange:
    keys = list(zip(group.nodes.tolist(), group.ranks.tolist(), strict=True))
    archive = {key: measured_time("all_reduce", accelerator, *key, message_bytes) for key in dict.fromkeys(keys)}
    found = tuple(archive[key] for key in keys)
    seconds = [old if item is None else item.time for item, old in zip(found, otherwise.seconds.tolist(), strict=True)]
    known = np.array([item is not None for item in found], dtype=np.bool_)
    return Exchange(
        seconds=np.array(seconds, dtype=np.float64),
        algorithm=np.where(known, "measured", otherwise.algorithm),
        rounds=np.where(known, 0, otherwise.rounds),
        basis=np.where(known, Basis.MEASURED.value, otherwise.basis),
        measured=found,
    )
