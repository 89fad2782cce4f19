"""A program goes in and is run, round by round, on contributions that are counted; who holds what comes out.

Every rank's contribution to a piece is a count of its own, so that one which is added twice, or lost, shows. A round
reads what was held before it. What a switch adds, it adds to nothing at first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.base.errors import CollectiveError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshwright.base.numbers import Bools, Ints
    from meshwright.workload.programs import Program, Step

_REPORT: Final = "report it to whoever wrote the program"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Round:
    """One round, once it has run: columns of the pieces that travelled, one row each.

    held: [participants, pieces, ranks], how often each holds each rank's contribution to a piece.
    """

    step: Step
    number: int
    sender: Ints
    receiver: Ints
    piece: Ints
    held: Ints


def executed(program: Program) -> Ints:
    """What all hold at the end: [participants, pieces, ranks]. Raises the codes of `rounds`."""
    held = start(program)
    for each in rounds(program):
        held = each.held
    return held


def rounds(program: Program) -> Iterator[Round]:
    """Every round of the program in turn.

    Raises COL015 for a program that is wrong: participants that do not exist, a send to oneself, pieces that are not as
    many as said, a read of what the sender does not hold, two results for one piece.
    """
    held, number = start(program), 0
    for step in program.steps:
        _check_step(program, step)
        for turn in range(step.times):
            piece = np.asarray(step.carried(turn))
            sender, receiver = (np.repeat(side, step.pieces) for side in (step.sender, step.receiver))
            reduce = np.repeat(np.broadcast_to(np.asarray(step.reduce), step.sender.shape), step.pieces)
            _check_round(held, number, sender, piece)
            held = _moved(program, held, (sender, receiver, piece), reduce)
            yield Round(step=step, number=number, sender=sender, receiver=receiver, piece=piece, held=held)
            number += 1


def start(program: Program) -> Ints:
    """What all hold before the first round."""
    ranks = program.ranks
    origin, _ = places(program)
    held = np.zeros((ranks + program.switches, len(origin), ranks), dtype=np.int64)
    piece = np.arange(len(origin))
    for rank in range(ranks):
        own = piece if program.operation in {"all_reduce", "reduce_scatter", "reduce"} else piece[origin == rank]
        held[rank, own, rank] = 1
    return held


def wanted(program: Program) -> tuple[Ints, Bools]:
    """What must be held at the end: [pieces, ranks] contributions, and [ranks, pieces] where.

    A rank that must not hold a piece may hold anything.
    """
    ranks, operation = program.ranks, program.operation
    origin, home = places(program)
    content = np.zeros((len(home), ranks), dtype=np.int64)
    if operation in {"all_reduce", "reduce_scatter", "reduce"}:
        content[:] = 1
    else:
        content[np.arange(len(home)), origin] = 1
    if operation in {"all_reduce", "all_gather", "broadcast"}:
        return content, np.ones((ranks, len(home)), dtype=np.bool_)
    return content, np.arange(ranks)[:, None] == home


def places(program: Program) -> tuple[Ints, Ints]:
    """Of each piece the rank that it comes from and the one that it belongs to, as its operation has it."""
    ranks = program.ranks
    if program.operation == "all_to_all" and not len(program.home):
        source, target = np.divmod(np.arange(ranks * ranks), ranks)
        return source, target
    origin = program.origin if len(program.origin) else program.home
    return origin, program.home


def check_result(program: Program) -> None:
    """Nothing, where the program leaves what its operation promises: each contribution once. Raises COL015."""
    held = executed(program)
    content, where = wanted(program)
    for rank in range(program.ranks):
        wrong = where[rank] & (held[rank] != content).any(axis=1)
        if wrong.any():
            piece = int(np.flatnonzero(wrong)[0])
            raise CollectiveError(
                15, f"{program.operation}: rank {rank} holds {held[rank, piece].tolist()} of piece {piece}", _REPORT
            )


def _check_step(program: Program, step: Step) -> None:
    count = program.ranks + program.switches
    ends = np.concatenate([step.sender, step.receiver])
    if not len(ends) or ends.min() < 0 or ends.max() >= count:
        raise CollectiveError(15, f"{program.operation}: a send of none, or to a participant beyond {count}", _REPORT)
    if (step.sender == step.receiver).any():
        raise CollectiveError(15, f"{program.operation}: a rank sends to itself", _REPORT)


def _check_round(held: Ints, number: int, sender: Ints, piece: Ints) -> None:
    if len(piece) != len(sender):
        raise CollectiveError(15, f"round {number}: {len(piece)} pieces travel, {len(sender)} are said to", _REPORT)
    missing = ~held[sender, piece].any(axis=1)
    if missing.any():
        at = int(np.flatnonzero(missing)[0])
        raise CollectiveError(15, f"round {number}: {sender[at]} sends piece {piece[at]} and does not hold it", _REPORT)


def _moved(program: Program, held: Ints, sends: tuple[Ints, Ints, Ints], reduce: Bools) -> Ints:
    """All reads first, then all results: copies replace, sums add."""
    sender, receiver, piece = sends
    read = held[sender, piece]
    after = held.copy()
    kept = ~reduce
    places_of = receiver[kept] * held.shape[1] + piece[kept]
    added = receiver[reduce] * held.shape[1] + piece[reduce]
    if len(np.unique(places_of)) != len(places_of) or np.isin(places_of, added).any():
        raise CollectiveError(15, f"{program.operation}: two results for one piece in one round", _REPORT)
    onto_nothing = (receiver < program.ranks) & reduce & ~held[receiver, piece].any(axis=1)
    if onto_nothing.any():
        raise CollectiveError(15, f"{program.operation}: a rank adds to a piece that it does not hold", _REPORT)
    after[receiver[kept], piece[kept]] = read[kept]
    np.add.at(after, (receiver[reduce], piece[reduce]), read[reduce])
    return after
