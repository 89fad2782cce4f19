"""Groups and messages go in, as columns; seconds, algorithm, rounds and basis of the exchange come out.

The closed form pays the slowest link of its group in every round (chapter "Supernodes", section 6.5.1, variant a):
alpha-beta over the rounds that `workload.collectives` states for each registered algorithm.
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
from meshwright.system.calibrations import Measured, measured_time
from meshwright.system.system import System

if TYPE_CHECKING:
    from meshwright.base.numbers import Floats, Ints

COLLECTIVES: Final = Registry(
    kind="collectives", package="meshwright.workload", folder="collectives", error=CollectiveError, number=1
)
AUTO: Final = "auto"
MEASURED: Final = "measured"
T = TypeVar("T")


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


@formula
def rounds_s(rounds: Any, latency_s: N, round_bytes: N, bandwidth_bytes_per_s: N) -> N:
    """Seconds of rounds that follow each other, each waiting for its own send: alpha + bytes / bandwidth a round.

    Source: chapter "Supernodes", equations 6-9 and 6-10. Leaves out start skew and contention.
    """
    return start_up_s(rounds, latency_s) + transfer_s(rounds, round_bytes, bandwidth_bytes_per_s)


@formula
def start_up_s(rounds: Any, latency_s: N) -> N:
    """The part of `rounds_s` that bandwidth does not change. Source: chapter "Supernodes", equations 6-9 and 6-10."""
    return latency_s * rounds


@formula
def transfer_s(rounds: Any, round_bytes: N, bandwidth_bytes_per_s: N) -> N:
    """The part of `rounds_s` that latency does not change. Source: chapter "Supernodes", equations 6-9 and 6-10."""
    return round_bytes / bandwidth_bytes_per_s * rounds


@formula
def send_s(message_bytes: N, latency_s: N, bandwidth_bytes_per_s: N) -> N:
    """Seconds of one message between two ranks: one round. Source: chapter "Supernodes", equation 6-9."""
    return rounds_s(1, latency_s, message_bytes, bandwidth_bytes_per_s)


def algorithms(operation: str) -> tuple[str, ...]:
    """The registered algorithms of an operation, by name."""
    return tuple(name for name in COLLECTIVES.names() if operation in COLLECTIVES.module(name).OPERATIONS)


def check_choice(choice: str) -> str:
    """The choice itself when it is `auto`, `measured` or a registered all_reduce. Raises COL001."""
    known = (AUTO, MEASURED, *algorithms("all_reduce"))
    if choice not in known:
        raise CollectiveError(1, f"--all-reduce {choice}: not a known algorithm", suggest(choice, known))
    return choice


def all_reduce(choice: str, group: Group, message_bytes: Ints | int, system: System) -> Exchange:
    """The all_reduce of `message_bytes` (a column, or one number) over each row's group by the chosen algorithm.

    `auto` takes the fastest registered one that permits the rank count; `measured` the archived time of the platform
    (accelerator, link, boxes, ranks), and `auto` where there is none. A named algorithm that does not permit a rank
    count leaves NaN seconds there, for the caller to exclude the row. Raises COL001 (unknown algorithm).
    """
    if choice not in {AUTO, MEASURED}:
        return _fastest((choice,), group, message_bytes)
    fastest = _fastest(("ring", "tree"), group, message_bytes)
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
    program = COLLECTIVES.module(name)
    rounds = cast("Ints", program.rounds(group.ranks))
    sent = cast("Floats", program.round_bytes(group.ranks, message_bytes * 1.0))
    seconds = rounds_s(rounds, group.latency_s, sent, group.bandwidth_bytes_per_s)
    return formula_exchange(where(_permitted(program, group.ranks), seconds, np.nan), name, rounds)


def _permitted(program: Any, ranks: Any) -> Any:
    sizes, place = np.unique(values(ranks), return_inverse=True)
    return np.array([program.permits("all_reduce", int(size)) for size in sizes])[place]


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
