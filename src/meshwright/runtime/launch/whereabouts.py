"""What a rank is about to do goes in; what it stands in, as its supervisor reads it, comes out.

A rank notes where it is before it may block: its step, its slot, and the exchange with the ranks that it needs for it.
A note is one write of some hundred bytes into memory that the supervisor maps too, so that it outlives a killed rank.
Exchanges are named where they are called, by `watched`, which stands around the functions of `torch.distributed`: that
is one Python call more for each, it sees FSDP2's exchanges as ours, and the axis follows from the group's ranks.
A dispatch mode would see every operator of a step for the few that exchange; a flight recorder dies with its process.
"""

from __future__ import annotations

import json
import mmap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

    from meshwright.runtime.pipeline.orders import Turn

Place: TypeAlias = Mapping[str, int]
"""The coordinate of a rank along every axis that is told."""

_ROOM: Final = 512
_ROOM_A_RANK: Final = 8
_LENGTH: Final = 4
_SLOTS: Final = ("forward", "backward", "input gradient", "weight gradient")


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Where a rank is. at_s: since when, by the monotonic clock of its machine.   doing: in words.

    call: the exchange it stands in, or that it came out of last; "" for none.   peers: the ranks that it needs for it.
    number: which of the exchanges with these it is.   inside: whether it is still in it.
    """

    at_s: float = 0.0
    doing: str = "its start"
    call: str = ""
    peers: tuple[int, ...] = ()
    number: int = 0
    inside: bool = False

    def meets(self, other: Note) -> bool:
        """Whether two ranks stand in one exchange."""
        return self.inside and other.inside and (self.call, self.number) == (other.call, other.number)

    @property
    def words(self) -> str:
        """`step 2, forward of micro-batch 3 on virtual stage 1, in all_reduce over tp`."""
        return f"{self.doing}, in {self.call}" if self.inside else self.doing


def as_text(note: Note) -> str:
    """A note as JSON: its fields in their order."""
    return json.dumps((note.at_s, note.doing, note.call, note.peers, note.number, note.inside))


def note_of(text: str) -> Note:
    """A note from its JSON."""
    at_s, doing, call, peers, number, inside = json.loads(text)
    return Note(at_s=at_s, doing=doing, call=call, peers=tuple(peers), number=number, inside=inside)


class Whereabouts:
    """A rank's notes. tell: takes each; None where nobody reads them."""

    __slots__ = ("counts", "note", "step", "tell")

    def __init__(self, tell: Callable[[Note], None] | None = None) -> None:
        self.tell, self.note, self.step = tell, Note(), ""
        self.counts: dict[tuple[int, ...], int] = {}

    def does(self, doing: str) -> None:
        """What comes now, in words."""
        self._write(Note(doing=doing))

    def enters_step(self, number: int) -> None:
        """A step begins; what follows is told as part of it."""
        self.step = f"step {number}"
        self.does(self.step)

    def turns_to(self, turn: Turn | None) -> None:
        """A slot begins, or the last one has ended."""
        if self.tell is None:
            return
        if turn is None:
            self.does(f"{self.step}, after its slots")
            return
        what = f"{_SLOTS[turn.kind]} of micro-batch {turn.micro_batch} on virtual stage {turn.virtual_stage}"
        self.does(f"{self.step}, {what}" + (" (second direction)" if turn.direction else ""))

    def enters(self, call: str, peers: Sequence[int]) -> None:
        """An exchange begins that may wait for `peers`."""
        if self.tell is None:
            return
        key = tuple(peers)
        self.counts[key] = self.counts.get(key, 0) + 1
        self._write(replace(self.note, call=call, peers=key, number=self.counts[key], inside=True))

    def leaves(self) -> None:
        """It is done. It is not said of one that failed."""
        if self.tell is not None:
            self._write(replace(self.note, inside=False))

    def _write(self, note: Note) -> None:
        if self.tell is not None:
            self.note = replace(note, at_s=time.monotonic())
            self.tell(self.note)


class Board:
    """A file in memory with a line a rank: each writes its own, anyone reads all."""

    def __init__(self, file: Path, ranks: int) -> None:
        self.room = _ROOM + _ROOM_A_RANK * ranks
        self.ranks = ranks
        if not file.exists():
            file.write_bytes(bytes(self.room * ranks))
        with file.open("r+b") as stream:
            self.memory = mmap.mmap(stream.fileno(), self.room * ranks)

    def write(self, rank: int, note: Note) -> None:
        """A rank's note in place of its last."""
        line = as_text(note).encode()[: self.room - _LENGTH]
        start = self.room * rank
        self.memory[start : start + _LENGTH + len(line)] = len(line).to_bytes(_LENGTH, "little") + line

    def notes(self) -> list[Note]:
        """Every rank's; one that is just being written is read again."""
        return [self._read(rank) for rank in range(self.ranks)]

    def close(self) -> None:
        """Let go of the memory."""
        self.memory.close()

    def _read(self, rank: int) -> Note:
        for _ in range(_TRIES):
            line: Any = self.memory[self.room * rank : self.room * (rank + 1)]
            length = int.from_bytes(line[:_LENGTH], "little")
            try:
                return note_of(line[_LENGTH : _LENGTH + length].decode()) if length else Note(at_s=time.monotonic())
            except (ValueError, TypeError, KeyError):
                time.sleep(_MOMENT_S)
        return Note(at_s=time.monotonic(), doing="an unknown place")


_TRIES: Final = 20
_MOMENT_S: Final = 0.001
