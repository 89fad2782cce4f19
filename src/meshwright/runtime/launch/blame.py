"""How the ranks of a run ended, and where each stood, go in; the error that names who held up the others comes out."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshwright.base import errors
from meshwright.base.errors import MeshwrightError, RunError, UserError

if TYPE_CHECKING:
    from meshwright.runtime.launch.whereabouts import Note, Place

_OF_OTHERS: Final = (
    "timed out",
    "timeout",
    "connection closed",
    "connection reset",
    "connection refused",
    "reset by peer",
    "broken pipe",
    "connectfullmesh",
    "failed to recv",
    "socket",
)
"""What an exchange says that failed because of another rank."""
_LONGEST: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a rank ended. signal: that killed it, 0 for none.   code: its exit code, 0 where it did not exit by itself.

    raised: what it raised, as `Type: text`.   coded: an error of ours: its class, number, cause and fix.
    """

    signal: int = 0
    code: int = 0
    raised: str = ""
    coded: tuple[str, int, str, str] | None = None


def is_of_others(ended: Ended, note: Note) -> bool:
    """Whether a rank only failed because an exchange with other ranks did."""
    text = ended.raised.lower()
    return bool(text) and ended.coded is None and note.inside and any(word in text for word in _OF_OTHERS)


def error_of(
    ended: Mapping[int, Ended], notes: Sequence[Note], places: Sequence[Place], timeout_s: float
) -> tuple[int, MeshwrightError]:
    """The rank to blame, and the error. ended: ranks that failed; none where the supervisor saw that nothing moves.

    An error of ours is told as it is; RUN010 is a rank that was killed, left or raised, RUN011 one that stood still.
    """
    own = {rank: how for rank, how in sorted(ended.items()) if not is_of_others(how, notes[rank])}
    coded = [(rank, how.coded) for rank, how in own.items() if how.coded is not None]
    if coded:
        return coded[0][0], again(coded[0][1])
    killed = [rank for rank, how in own.items() if not how.raised]
    if own:
        rank = (killed or list(own))[0]
        cause = f"{named(rank, places)} {_how(own[rank])} in {notes[rank].words}{_waiting(rank, notes, places)}"
        return rank, RunError(10, cause, _FIX_OF_DEATH)
    rank = held_up_by(notes)
    stood = f"stood still for {timeout_s:g} s in {notes[rank].words}"
    return rank, RunError(11, f"{named(rank, places)} {stood}{_waiting(rank, notes, places)}", _FIX_OF_HANG)


_FIX_OF_DEATH: Final = "its last lines are in the log above; a rank that is killed may have run out of memory"
_FIX_OF_HANG: Final = "look at that rank; where it only needs longer, give a longer --timeout"


def named(rank: int, places: Sequence[Place]) -> str:
    """`rank 3 (pp 1, dp_replicate 0, dp_shard 0, tp 1)`."""
    inside = ", ".join(f"{axis} {number}" for axis, number in places[rank].items())
    return f"rank {rank} ({inside})" if inside else f"rank {rank}"


def held_up_by(notes: Sequence[Note]) -> int:
    """Who is waited for and does not wait; where all wait, the first whom the longest wait is for.

    The ranks that an exchange still waits for are its peers that stand elsewhere.
    """
    waiting = [rank for rank, note in enumerate(notes) if note.inside]
    busy = [rank for rank, note in enumerate(notes) if not note.inside]
    wanted = {peer for rank in waiting for peer in _missing(rank, notes)}
    culprits = [rank for rank in busy if rank in wanted] or ([] if waiting else busy)
    if culprits:
        return min(culprits, key=lambda rank: (notes[rank].at_s, rank))
    longest = min(waiting, key=lambda rank: (notes[rank].at_s, rank))
    return next(iter(_missing(longest, notes)), longest)


def again(coded: tuple[str, int, str, str]) -> MeshwrightError:
    """An error of ours, as it was raised in another process."""
    name, number, cause, fix = coded
    kind: type[UserError] = getattr(errors, name)
    return kind(number, cause, fix)


def coded_of(problem: BaseException) -> tuple[str, int, str, str] | None:
    """An error of ours as plain values; None for any other."""
    if not isinstance(problem, UserError):
        return None
    return (type(problem).__name__, int(problem.code.removeprefix(problem.prefix)), problem.cause, problem.fix)


def _missing(rank: int, notes: Sequence[Note]) -> list[int]:
    note = notes[rank]
    return [peer for peer in note.peers if peer != rank and not note.meets(notes[peer])]


def _how(ended: Ended) -> str:
    if ended.raised:
        return f"raised {ended.raised[:_LONGEST]}"
    if ended.signal:
        return f"was killed by {_signal(ended.signal)}"
    return f"left with exit code {ended.code}"


def _signal(number: int) -> str:
    known = {item.value: item.name for item in signal.Signals}
    return known.get(number, f"signal {number}")


def _waiting(rank: int, notes: Sequence[Note], places: Sequence[Place]) -> str:
    """Who waited for the rank, and in what: the one that waited longest."""
    waiters = [other for other, note in enumerate(notes) if note.inside and rank in _missing(other, notes)]
    if not waiters:
        return ""
    first = min(waiters, key=lambda other: (notes[other].at_s, other))
    more = f" and {len(waiters) - 1} more" if len(waiters) > 1 else ""
    return f"; {named(first, places)}{more} waited for it in {notes[first].call} ({notes[first].doing})"
