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
import struct
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

    from meshwright.runtime.pipeline.orders import Turn

Place: TypeAlias = Mapping[str, int]
"""The coordinate of a rank along every axis that is told."""

_ROOM: Final = 512
_ROOM_A_RANK: Final = 8
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
    """A rank's notes. board: who reads them, as `Board.line` of the rank; None where nobody does."""

    __slots__ = ("board", "counts", "note", "step")

    def __init__(self, board: Line | None = None) -> None:
        self.board, self.note, self.step = board, Note(), ""
        self.counts: dict[tuple[int, ...], int] = {}

    def does(self, doing: str) -> None:
        """What comes now, in words."""
        self._write(Note(at_s=time.monotonic(), doing=doing))

    def enters_step(self, number: int) -> None:
        """A step begins; what follows is told as part of it."""
        self.step = f"step {number}"
        self.does(self.step)

    def turns_to(self, turn: Turn | None) -> None:
        """A slot begins, or the last one has ended."""
        if self.board is None:
            return
        if turn is None:
            self.does(f"{self.step}, after its slots")
            return
        what = f"{_SLOTS[turn.kind]} of micro-batch {turn.micro_batch} on virtual stage {turn.virtual_stage}"
        self.does(f"{self.step}, {what}" + (" (second direction)" if turn.direction else ""))

    def enters(self, call: str, peers: tuple[int, ...]) -> None:
        """An exchange begins that may wait for `peers`."""
        if self.board is None:
            return
        number = self.counts[peers] = self.counts.get(peers, 0) + 1
        now, doing = time.monotonic(), self.note.doing
        self._write(Note(at_s=now, doing=doing, call=call, peers=peers, number=number, inside=True))

    def leaves(self) -> None:
        """It is done. It is not said of one that failed."""
        if self.board is not None:
            self.board.leave()

    def _write(self, note: Note) -> None:
        self.note = note
        if self.board is not None:
            self.board.write(note)


class Line:
    """A rank's own line of a board. Its head is apart, so that an exchange that ends is a few bytes."""

    __slots__ = ("memory", "room", "start")

    def __init__(self, memory: Any, start: int, room: int) -> None:
        self.memory, self.start, self.room = memory, start, room

    def write(self, note: Note) -> None:
        """The note in place of the last."""
        text = json.dumps((note.doing, note.call, note.peers, note.number)).encode()[: self.room - _HEAD.size]
        first = self.start + _HEAD.size
        self.memory[first : first + len(text)] = text
        _HEAD.pack_into(self.memory, self.start, len(text), note.at_s, note.inside)

    def leave(self) -> None:
        """The exchange that stands there has ended, now."""
        _SINCE.pack_into(self.memory, self.start + _LENGTH.size, time.monotonic(), _OUT)

    def read(self) -> Note:
        """What stands there; what is just being written is read again."""
        for _ in range(_TRIES):
            line = bytes(self.memory[self.start : self.start + self.room])
            length, at_s, inside = _HEAD.unpack_from(line)
            with suppress(ValueError):
                doing, call, peers, number = json.loads(line[_HEAD.size : _HEAD.size + length])
                if at_s:  # struct clears a head before it fills it: a rank that is interrupted there stands since 0
                    return Note(at_s=at_s, doing=doing, call=call, peers=tuple(peers), number=number, inside=inside)
            time.sleep(_MOMENT_S)
        return Note(at_s=time.monotonic(), doing="an unknown place")


class Board:
    """A file in memory with a line a rank: each writes its own, anyone reads all. A new one has all at their start."""

    def __init__(self, file: Path, ranks: int) -> None:
        room, new = _ROOM + _ROOM_A_RANK * ranks, not file.exists()
        if new:
            file.write_bytes(bytes(room * ranks))
        with file.open("r+b") as stream:
            self.memory = mmap.mmap(stream.fileno(), room * ranks)
        self.lines = [Line(self.memory, room * rank, room) for rank in range(ranks)]
        if new:
            for line in self.lines:
                line.write(Note(at_s=time.monotonic()))

    def notes(self) -> list[Note]:
        """Every rank's."""
        return [line.read() for line in self.lines]

    def close(self) -> None:
        """Let go of the memory."""
        self.memory.close()


_LENGTH: Final = struct.Struct("<I")
_SINCE: Final = struct.Struct("<d?")
_HEAD: Final = struct.Struct("<Id?")
_OUT: Final = False
_TRIES: Final = 20
_MOMENT_S: Final = 0.001
