"""What does a collective do, round by round? Numbers of ranks go in; sums that arrive, and owners, come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.base.errors import CollectiveError
from meshwright.cost.collectives import COLLECTIVES
from meshwright.workload.execution import check_result, places, rounds, wanted

if TYPE_CHECKING:
    from meshwright.workload.programs import Program

_MOST_RANKS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """The piece as it reaches a rank (or a switch, numbered after the ranks) at the end of a round, from 1."""

    round: int
    rank: int
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """rounds, ranks: of the whole program.   arrivals: of one piece, in order."""

    algorithm: str
    operation: str
    ranks: int
    rounds: int
    arrivals: tuple[Arrival, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owners:
    """pieces: of each rank those that it owns at the end.   blocks: where every rank owns one, its number."""

    algorithm: str
    operation: str
    pieces: tuple[tuple[int, ...], ...]
    blocks: tuple[int, ...]


def collective_trace(algorithm: str, operation: str, contributions: tuple[int, ...], piece: int) -> Trace:
    """A run of a registered program on numbers, one a rank, the same to every piece of the message.

    Raises COL001 (name), COL002 (ranks), COL010 (operation), COL016 (too many ranks, or no such piece). Source: chapter
    "Supernodes", section 6.4.2.
    """
    ranks = len(contributions)
    program = _program(algorithm, operation, ranks)
    pieces = len(places(program)[1])
    if not 0 <= piece < pieces:
        raise CollectiveError(16, f"piece {piece} of {pieces}", f"give 0 to {pieces - 1}")
    arrivals: list[Arrival] = []
    count = 0
    for each in rounds(program):
        count = each.number + 1
        for rank in each.receiver[each.piece == piece].tolist():
            value = int(each.held[rank, piece] @ np.array(contributions, dtype=np.int64))
            arrivals.append(Arrival(round=count, rank=rank, value=value))
    return Trace(algorithm=algorithm, operation=operation, ranks=ranks, rounds=count, arrivals=tuple(arrivals))


def collective_owners(algorithm: str, operation: str, ranks: int) -> Owners:
    """Which pieces of the message each rank owns at the end, by a run of a registered program.

    Raises COL001 (name), COL002 (ranks), COL010 (operation), COL016 (too many ranks). Source: chapter "Supernodes",
    section 6.4.2.
    """
    program = _program(algorithm, operation, ranks)
    check_result(program)
    _, where = wanted(program)
    owned = tuple(tuple(np.flatnonzero(row).tolist()) for row in where)
    single = all(len(pieces) == 1 for pieces in owned)
    return Owners(
        algorithm=algorithm,
        operation=operation,
        pieces=owned,
        blocks=tuple(pieces[0] for pieces in owned) if single else (),
    )


def _program(algorithm: str, operation: str, ranks: int) -> Program:
    if ranks > _MOST_RANKS:
        raise CollectiveError(16, f"a run of {ranks} ranks", f"give at most {_MOST_RANKS}")
    return COLLECTIVES.module(algorithm).program(operation, ranks)
