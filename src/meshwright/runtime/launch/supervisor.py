"""A function, a payload and a crew go in; every rank runs it in a process of its own; what each returns comes out.

On Linux and a CPU processes are forked from this one, which has imported torch once; elsewhere, and for CUDA, which
does not survive a fork, they are started anew, so that function and payload are pickled. All talk through a store of
this process on a free port of 127.0.0.1. No process outlives the call: they are killed on any way out of it, and end
themselves where their parent is gone.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
import time
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing.connection import wait
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import torch
import torch.distributed as dist

from meshwright.runtime.launch.blame import Ended, error_of, is_of_others, named
from meshwright.runtime.launch.member import Files, Function, Seat, Told, process
from meshwright.runtime.launch.whereabouts import Board, Place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

Start: TypeAlias = Literal["fork", "spawn"]
LOG: Final = logging.getLogger(__name__)
_LOOK_S: Final = 0.2
_SETTLE_S: Final = 1.0
_LEAVE_S: Final = 10.0
_MARGIN_S: Final = 1.0
_TAIL: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """places: of every rank.   devices: `cpu` or `cuda`.   timeout_s: the longest a rank may stand in one place."""

    places: tuple[Place, ...]
    devices: Literal["cpu", "cuda"]
    timeout_s: float

    @property
    def start(self) -> Start:
        """How processes come to be."""
        return "fork" if sys.platform == "linux" and self.devices == "cpu" else "spawn"


def launch(function: Function, payload: Any, crew: Crew, told: Told, start: Start | None = None) -> tuple[Any, ...]:
    """What the function returns on each rank. told: takes what ranks tell meanwhile.   start: instead of the crew's.

    Raises RUN010 where a rank is killed, leaves or raises, RUN011 where one stands still for longer than the timeout,
    and an error of ours that a rank raises. The last lines of the rank to blame go to the log.
    """
    torch.set_num_threads(1)  # threads of a pool do not survive a fork, and ranks share the cores
    with TemporaryDirectory(prefix="meshwright-") as name:
        run = _Run(crew=crew, folder=Path(name), told=told)
        try:
            run.start(function, payload, crew.start if start is None else start)
            return run.watch()
        finally:
            run.end()


@dataclass(slots=True, kw_only=True)
class _Run:
    """Processes, and what is known of them. failed: how ranks ended that did not return."""

    crew: Crew
    folder: Path
    told: Told
    processes: list[BaseProcess] = field(default_factory=list["BaseProcess"])
    pipes: dict[Connection, int] = field(default_factory=dict["Connection", int])
    found: dict[int, Any] = field(default_factory=dict[int, Any])
    failed: dict[int, Ended] = field(default_factory=dict[int, Ended])
    board: Board | None = None
    store: dist.TCPStore | None = None

    def start(self, function: Function, payload: Any, start: Start) -> None:
        """All ranks, and then the store: a thread of it must not be there when a process is forked."""
        crew, context = self.crew, multiprocessing.get_context(start)
        self.board = Board(self.folder / "board", len(crew.places))
        for rank in range(len(crew.places)):
            seat = Seat(rank=rank, local_rank=rank, places=crew.places, devices=crew.devices, timeout_s=crew.timeout_s)
            own, its = context.Pipe(duplex=False)
            given = (seat, self._files(rank), its, function, payload)
            started = context.Process(target=process, args=given, name=f"meshwright rank {rank}", daemon=True)
            started.start()
            its.close()
            self.processes.append(started)
            self.pipes[own] = rank
        self.store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=_span(crew))
        written = self.folder / "port.new"
        written.write_text(str(self.store.port), encoding="ascii")
        written.rename(self.folder / "port")

    def watch(self) -> tuple[Any, ...]:
        """Until every rank has returned, or one has failed."""
        while len(self.found) < len(self.processes):
            self._look(_LOOK_S)
            if self.failed or self._stands():
                self._settle()
                raise self._error()
        limit = time.monotonic() + _LEAVE_S
        for item in self.processes:
            item.join(max(0.0, limit - time.monotonic()))
        return tuple(self.found[rank] for rank in range(len(self.processes)))

    def end(self) -> None:
        """Kill what is left, and wait until it is gone."""
        for item in self.processes:
            item.kill()
        for item in self.processes:
            item.join()
            item.close()
        for pipe in self.pipes:
            pipe.close()
        if self.board is not None:
            self.board.close()
        self.store = None

    def _files(self, rank: int) -> Files:
        return Files(
            board=self.folder / "board",
            port=self.folder / "port",
            log=self.folder / f"rank-{rank}.log",
            parent=os.getpid(),
        )

    def _look(self, seconds: float) -> None:
        """Take what ranks have sent, and see who has ended."""
        open_pipes = [pipe for pipe in self.pipes if not pipe.closed]
        ends = {item.sentinel: rank for rank, item in enumerate(self.processes) if not self._known(rank)}
        ready = wait([*open_pipes, *ends], seconds)
        for pipe in [item for item in open_pipes if item in ready]:
            self._receive(pipe)
        for sentinel in [item for item in ends if item in ready]:
            self._ended(ends[sentinel])

    def _known(self, rank: int) -> bool:
        return rank in self.found or rank in self.failed

    def _receive(self, pipe: Connection) -> None:
        """All that lies in a pipe."""
        rank = self.pipes[pipe]
        try:
            while pipe.poll():
                kind, *rest = pipe.recv()
                if kind == "told":
                    self.told(rest[0])
                elif kind == "found":
                    self.found[rank] = rest[0]
                else:
                    self.failed[rank] = Ended(raised=rest[0], coded=rest[1])
        except (EOFError, OSError):
            pipe.close()

    def _ended(self, rank: int) -> None:
        """A process is gone: what it still said counts first."""
        for pipe in [item for item, sender in self.pipes.items() if sender == rank and not item.closed]:
            self._receive(pipe)
        self.processes[rank].join()
        code = self.processes[rank].exitcode or 0
        if not self._known(rank):
            self.failed[rank] = Ended(signal=-code) if code < 0 else Ended(code=code)

    def _stands(self) -> bool:
        """Whether a rank has stood in one place for too long."""
        assert self.board is not None
        limit = time.monotonic() - self.crew.timeout_s - _MARGIN_S
        notes = self.board.notes()
        return any(note.at_s < limit for rank, note in enumerate(notes) if rank not in self.found)

    def _settle(self) -> None:
        """Where a rank failed because of another, let that one be seen too."""
        assert self.board is not None
        limit = time.monotonic() + _SETTLE_S
        while time.monotonic() < limit and all(
            is_of_others(how, note) for how, note in self._failures(self.board.notes())
        ):
            self._look(_LOOK_S)

    def _failures(self, notes: Sequence[Any]) -> list[tuple[Ended, Any]]:
        return [(how, notes[rank]) for rank, how in self.failed.items()]

    def _error(self) -> Exception:
        assert self.board is not None
        rank, error = error_of(self.failed, self.board.notes(), self.crew.places, self.crew.timeout_s)
        self._log(rank, self.failed)
        return error

    def _log(self, blamed: int, failed: Mapping[int, Ended]) -> None:
        """The last lines of the rank to blame; of one that waited for it where it says nothing itself."""
        for rank in (blamed, *failed):
            file = self.folder / f"rank-{rank}.log"
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else []
            if lines:
                LOG.error("%s wrote:\n%s", named(rank, self.crew.places), "\n".join(lines[-_TAIL:]))
                return


def _span(crew: Crew) -> timedelta:
    return timedelta(seconds=crew.timeout_s)
