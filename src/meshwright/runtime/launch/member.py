"""One process of a run: it joins the others, runs a function of its rank, and tells its supervisor how that ended."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import torch
import torch.distributed as dist

from meshwright.runtime.launch.blame import coded_of
from meshwright.runtime.launch.watched import watched
from meshwright.runtime.launch.whereabouts import Board, Place, Whereabouts

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

Told: TypeAlias = Callable[[Any], None]
"""Takes what a rank tells while it runs."""
_LOOKS_S: Final = 0.5
BACKENDS: Final = {"cpu": "gloo", "cuda": "nccl"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """What the function of a rank is given. tell: something for whoever watches the run."""

    rank: int
    ranks: int
    device: torch.device
    where: Whereabouts
    tell: Told


Function: TypeAlias = Callable[[Member, Any], Any]
"""What a rank runs, with the payload that all are given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """What a process is told of its place. local_rank: which device of its machine is its own."""

    rank: int
    local_rank: int
    places: tuple[Place, ...]
    devices: str
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Of a run's folder. port: where the supervisor writes that of its store.   log: of this rank."""

    board: Path
    port: Path
    log: Path
    parent: int


def process(seat: Seat, files: Files, pipe: Connection, function: Function, payload: Any) -> None:
    """The whole life of a local process: its output goes to its log, and what it finds to its supervisor."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the supervisor ends the rest
    _write_to(files.log)
    threading.Thread(target=_end_with, args=(files.parent,), daemon=True).start()
    board = Board(files.board, len(seat.places))
    where = Whereabouts(lambda note: board.write(seat.rank, note))
    try:
        where.does("joining the others")
        store = dist.TCPStore("127.0.0.1", _port(files.port), is_master=False, timeout=_timeout(seat))
        with joined(seat, store, where) as device:
            tell = _teller(pipe)
            member = Member(rank=seat.rank, ranks=len(seat.places), device=device, where=where, tell=tell)
            found = function(member, payload)
            where.does("its end")
            pipe.send(("found", found))
    except Exception as problem:  # noqa: BLE001 - whatever it is, the supervisor is told
        traceback.print_exc()
        sys.stderr.flush()
        pipe.send(("raised", f"{type(problem).__name__}: {problem}", coded_of(problem)))
        pipe.close()
        os._exit(1)  # no destructor may wait for ranks that are gone


@contextmanager
def joined(seat: Seat, store: dist.Store, where: Whereabouts) -> Generator[torch.device]:
    """The process group of all ranks, and this rank's device. Every exchange inside is noted."""
    device = torch.device(seat.devices, seat.local_rank) if seat.devices == "cuda" else torch.device(seat.devices)
    if seat.devices == "cuda":
        torch.cuda.set_device(device)
    with watched(where, seat.places, _timeout(seat)):
        where.enters("the process group", tuple(range(len(seat.places))))
        dist.init_process_group(
            BACKENDS[seat.devices], store=store, rank=seat.rank, world_size=len(seat.places), timeout=_timeout(seat)
        )
        where.leaves()
        yield device
        dist.barrier()  # nobody leaves while another still needs it
        dist.destroy_process_group()


def _teller(pipe: Connection) -> Told:
    return lambda told: pipe.send(("told", told))


def _timeout(seat: Seat) -> timedelta:
    return timedelta(seconds=seat.timeout_s)


def _write_to(log: Path) -> None:
    """Nothing of this process reaches the output of the program, nor the warnings filter of its parent."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(file, stream)
    sys.stdout = sys.stderr = os.fdopen(file, "w", buffering=1, encoding="utf-8", errors="replace")
    warnings.resetwarnings()


def _end_with(parent: int) -> None:
    """A process whose supervisor is gone, however it went, ends itself."""
    while os.getppid() == parent:
        time.sleep(_LOOKS_S)
    os._exit(1)


def _port(file: Path) -> int:
    """Of the store, once the supervisor has opened it."""
    while not file.exists():
        time.sleep(_SOON_S)
    return int(file.read_text(encoding="ascii"))


_SOON_S: Final = 0.01
