"""Groups and messages go in, as columns; seconds, algorithm, rounds and basis of the exchange come out.

Alpha-beta over rounds: every registered algorithm is a program of sends (`workload.collectives`), whose rounds and
bytes on links inside a box and between boxes are counted (`coefficients`). No algorithm is written down here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

import numpy as np

from meshwright.base.errors import CollectiveError, suggest
from meshwright.base.numbers import N, is_nan, where
from meshwright.base.registry import Registry
from meshwright.base.result import Basis
from meshwright.base.traced import formula, stated, values
from meshwright.cost.coefficients import coefficients
from meshwright.cost.groups import lone_group
from meshwright.system.calibrations import Measured, measured_time
from meshwright.system.system import System

if TYPE_CHECKING:
    from meshwright.base.numbers import Floats, Ints
    from meshwright.cost.coefficients import Coefficients
    from meshwright.cost.groups import Group

COLLECTIVES: Final = Registry(
    kind="collectives", package="meshwright.workload", folder="collectives", error=CollectiveError, number=1
)
AUTO: Final = "auto"
MEASURED: Final = "measured"
T = TypeVar("T")
_SHARES: Final = {
    "all_reduce": 2,
    **dict.fromkeys(("reduce_scatter", "all_gather", "all_to_all"), 1),
    **dict.fromkeys(("broadcast", "reduce", "send_recv"), 0),
}
"""How many (n - 1) n-ths; 0 where it is the whole message, however many ranks there are."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Coded(Generic[T]):
    """A column of few distinct values, kept as their numbers and decoded where a row is asked for."""

    values: tuple[T, ...]
    codes: Ints

    def __getitem__(self, row: int) -> T:
        return self.values[int(self.codes[row])]

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exchange:
    """Columns of one exchange a layout. rounds is 0 where a measured time says nothing of them."""

    seconds: Floats
    algorithm: Coded[str]
    rounds: Ints
    basis: Coded[Basis]
    measured: Coded[Measured | None]


def given_exchange(seconds: float, group: Group) -> Exchange:
    """An exchange whose time the user states: no algorithm, no rounds, basis `assumed`."""
    count = len(group.ranks)
    times = np.broadcast_to(np.asarray(seconds), count)
    plain = formula_exchange(times, "given", np.zeros(count, dtype=np.int64))
    return replace(plain, basis=Coded(values=(Basis.ASSUMED,), codes=plain.basis.codes))


def program_s(algorithm: str, operation: str, group: Group, message_bytes: Any) -> Any:
    """Seconds of an operation by a registered algorithm, NaN where it does not permit the group.

    message_bytes: as nccl-tests count them, of an all_gather or reduce_scatter the whole buffer, of an all_to_all what
    a rank sends in all. Raises COL001 (name), COL010 (operation).
    """
    return _seconds(coefficients(COLLECTIVES.module(algorithm), operation, group), group, message_bytes)


def coefficients_of(algorithm: str, operation: str, ranks: int) -> Coefficients:
    """Of one group of links that are all alike, a row. Raises COL001, COL010."""
    return coefficients(COLLECTIVES.module(algorithm), operation, lone_group(ranks, 0.0, 1.0))


def port_bytes(algorithm: str, operation: str, group: Group, message_bytes: Any) -> Any:
    """Bytes of the busiest port of every round, added up: of a ring what each rank sends. Raises COL001, COL010."""
    found = coefficients(COLLECTIVES.module(algorithm), operation, group)
    return message_bytes / found.message_pieces * found.port_pieces


def _seconds(found: Coefficients, group: Group, message_bytes: Any) -> Any:
    near, far = group.near, group.far
    sent = (message_bytes, found.message_pieces)
    seconds = rounds_s(found.near_rounds, near.latency_s, *sent, found.near_pieces, near.bandwidth_bytes_per_s)
    if any(boxes > 1 for _, boxes in group.shapes):
        beyond = rounds_s(found.far_rounds, far.latency_s, *sent, found.far_pieces, far.bandwidth_bytes_per_s)
        seconds = seconds + beyond
    return seconds if found.permitted.all() else where(found.permitted, seconds, np.nan)


@formula
def rounds_s(  # noqa: PLR0917 - what rounds consist of
    rounds: Any, latency_s: N, message_bytes: N, message_pieces: Any, pieces: Any, bandwidth_bytes_per_s: N
) -> N:
    """Seconds of rounds that follow each other, each waiting for its own sends: alpha each, and their bytes.

    pieces: of the busiest port or NIC, added over the rounds; the message has `message_pieces`. Source: chapter
    "Supernodes", equations 6-9 and 6-10. Leaves out start skew and contention.
    """
    return start_up_s(rounds, latency_s) + transfer_s(message_bytes, message_pieces, pieces, bandwidth_bytes_per_s)


@formula
def start_up_s(rounds: Any, latency_s: N) -> N:
    """The part of `rounds_s` that bandwidth does not change. Source: chapter "Supernodes", equations 6-9 and 6-10."""
    return latency_s * rounds


@formula
def transfer_s(message_bytes: N, message_pieces: Any, pieces: Any, bandwidth_bytes_per_s: N) -> N:
    """The part of `rounds_s` that latency does not change. Source: chapter "Supernodes", equations 6-9 and 6-10."""
    return message_bytes / message_pieces / bandwidth_bytes_per_s * pieces


@formula
def send_s(message_bytes: N, latency_s: N, bandwidth_bytes_per_s: N) -> N:
    """Seconds of one message between two ranks: one round. Source: chapter "Supernodes", equation 6-9."""
    return rounds_s(1, latency_s, message_bytes, 1, 1, bandwidth_bytes_per_s)


@formula
def algbw_bytes_per_s(message_bytes: N, time_s: N) -> N:
    """The message over its time. Source: nccl-tests, doc/PERFORMANCE.md; chapter "Supernodes", section 6.4.3."""
    return message_bytes / time_s


@formula
def busbw_bytes_per_s(algbw_bytes_per_s: N, factor: Any) -> N:
    """Comparable between operations and numbers of ranks; no rate of a NIC. Source: nccl-tests, doc/PERFORMANCE.md."""
    return algbw_bytes_per_s * factor


def busbw_factor(operation: str, ranks: int) -> float:
    """Of the message what some port must carry at least. Raises COL017 (an unknown operation, or no ranks).

    Source: nccl-tests, doc/PERFORMANCE.md; chapter "Supernodes", section 6.4.3.
    """
    if ranks < 1:
        raise CollectiveError(17, f"{operation} over {ranks} ranks", "give 1 or more")
    if operation not in _SHARES:
        raise CollectiveError(17, f"{operation!r} is no collective operation", suggest(operation, _SHARES))
    others = _SHARES[operation]
    return others * (ranks - 1) / ranks if others else 1.0


def algorithms(operation: str) -> tuple[str, ...]:
    """The registered algorithms of an operation, by name."""
    return tuple(name for name in COLLECTIVES.names() if operation in COLLECTIVES.module(name).OPERATIONS)


def check_choice(choice: str) -> str:
    """The choice itself when it is `auto`, `measured` or a registered all_reduce. Raises COL001."""
    known = (AUTO, MEASURED, *algorithms("all_reduce"))
    if choice not in known:
        raise CollectiveError(1, f"--all-reduce {choice}: not a known algorithm", suggest(choice, known))
    return choice


def check_permitted(algorithm: str, operation: str, ranks: int) -> None:
    """Nothing, where an algorithm takes a group. Raises COL001 (name), COL002 (ranks), COL010 (operation)."""
    module = COLLECTIVES.module(algorithm)
    if not module.permits(operation, ranks):
        module.program(operation, ranks)  # which says why


def all_reduce(choice: str, group: Group, message_bytes: Ints | int, system: System) -> Exchange:
    """The all_reduce of `message_bytes` (a column, or one number) over each row's group by the chosen algorithm.

    `auto` takes the fastest of the system's own (`all_reduce_algorithms`) that permits the rank count; `measured` the
    archived time of the platform (accelerator, link, boxes, ranks), and `auto` where there is none. A named algorithm
    that does not permit a group leaves NaN seconds there, for the caller to exclude the row. Raises COL001 (unknown
    algorithm), COL010 (one without an all_reduce).
    """
    if choice not in {AUTO, MEASURED}:
        return _fastest((choice,), group, message_bytes)
    fastest = _fastest(system.all_reduce_algorithms, group, message_bytes)
    return fastest if choice == AUTO else _measured(fastest, group, message_bytes, system)


def formula_exchange(seconds: Floats, algorithm: str, rounds: Ints) -> Exchange:
    """An exchange of one algorithm whose seconds follow from a formula."""
    only = np.zeros(len(seconds), dtype=np.int64)
    return Exchange(
        seconds=seconds,
        algorithm=Coded(values=(algorithm,), codes=only),
        rounds=rounds,
        basis=Coded(values=(Basis.FORMULA,), codes=only),
        measured=Coded(values=(None,), codes=only),
    )


def _fastest(names: tuple[str, ...], group: Group, message_bytes: Ints | int) -> Exchange:
    """Row by row the shortest of the algorithms; ties go to the first."""
    found = [_by_formula(name, group, message_bytes) for name in names]
    if len(found) == 1:
        return found[0]
    times = np.stack([item.seconds for item in found])
    best = np.argmin(np.where(is_nan(times), np.inf, values(times)), axis=0)
    rows = np.arange(len(best))
    return Exchange(
        seconds=times[best, rows],
        algorithm=Coded(values=names, codes=best),
        rounds=np.stack([item.rounds for item in found])[best, rows],
        basis=found[0].basis,
        measured=found[0].measured,
    )


def _by_formula(name: str, group: Group, message_bytes: Ints | int) -> Exchange:
    found = coefficients(COLLECTIVES.module(name), "all_reduce", group)
    return formula_exchange(_seconds(found, group, message_bytes * 1.0), name, found.rounds)


def _measured(otherwise: Exchange, group: Group, message_bytes: Ints | int, system: System) -> Exchange:
    """The archived time of each distinct (boxes, ranks, bytes), where there is one."""
    ranks, nodes = values(group.ranks), values(group.nodes)
    base = int(ranks.max(initial=0)) + 1
    groups, of_group = np.unique(nodes * base + ranks, return_inverse=True)
    sizes, of_size = np.unique(np.atleast_1d(values(message_bytes)), return_inverse=True)
    keys, place = np.unique(of_group * len(sizes) + of_size, return_inverse=True)
    pairs = [divmod(key, len(sizes)) for key in cast("list[int]", keys.tolist())]
    archive = [
        measured_time("all_reduce", system, *divmod(int(groups[pair]), base), int(sizes[size])) for pair, size in pairs
    ]
    times: Floats = np.array([np.nan if item is None else item.time for item in archive])[place]
    known = ~np.isnan(times)
    archived = "; ".join(dict.fromkeys(item.source.title for item in archive if item is not None))
    times = stated(times, group.ranks, "archived_all_reduce_s", basis=Basis.MEASURED, source=archived)
    computed = otherwise.algorithm
    return Exchange(
        seconds=where(known, times, otherwise.seconds),
        algorithm=Coded(
            values=(*computed.values, MEASURED), codes=np.where(known, len(computed.values), computed.codes)
        ),
        rounds=where(known, np.zeros(1, dtype=np.int64), otherwise.rounds),
        basis=Coded(values=(Basis.FORMULA, Basis.MEASURED), codes=known.astype(np.int64)),
        measured=Coded(values=tuple(archive), codes=place),
    )
