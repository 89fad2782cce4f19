"""A function goes in and runs as every rank of a group of local processes; what each rank returned comes out.

Ranks are forked, so that torch is loaded once; they meet through a file and talk by gloo. Every wait has an end: a rank
that fails or hangs ends all, and is named.
"""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
import torch.distributed as dist

from meshwright.base.errors import RunError

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

T = TypeVar("T")
_GRACE_S = 5.0


def in_processes(work: Callable[[int], T], ranks: int, timeout_s: float) -> list[T]:
    """What `work(rank)` returned, by rank; it finds the default process group there, and must return what pickles.

    timeout_s: for all of it, and for every wait of a rank for others. Raises RUN040 where a rank fails or is late.
    """
    context = multiprocessing.get_context("fork")
    with TemporaryDirectory(prefix="meshwright-") as folder:
        meeting = Path(folder) / "store"
        pipes = [context.Pipe(duplex=False) for _ in range(ranks)]
        started = [
            context.Process(target=_rank, args=(work, rank, ranks, meeting, timeout_s, pipes[rank][1]), daemon=True)
            for rank in range(ranks)
        ]
        try:
            for process in started:
                process.start()
            for _, end in pipes:
                end.close()
            return cast("list[T]", _answers([own for own, _ in pipes], monotonic() + timeout_s + _GRACE_S))
        finally:
            _end(started)


def _rank(work: Callable[[int], Any], rank: int, ranks: int, meeting: Path, timeout_s: float, to: Connection) -> None:  # noqa: PLR0917 - of a process
    torch.set_num_threads(1)
    limit = timedelta(seconds=timeout_s)
    try:
        store = dist.FileStore(str(meeting), ranks)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks, timeout=limit)
        found = work(rank)
        dist.destroy_process_group()
    except BaseException as problem:  # noqa: BLE001 - whatever it is, the caller is told
        cause = traceback.format_exception_only(problem)[-1].strip()
        to.send((False, cause))
    else:
        to.send((True, found))
    to.close()


def _answers(pipes: list[Connection], until: float) -> list[Any]:
    """By rank. The first rank that fails ends it: others then fail because of it."""
    found: dict[int, Any] = {}
    while len(found) < len(pipes):
        left = [pipe for rank, pipe in enumerate(pipes) if rank not in found]
        ready = wait(left, max(0.0, until - monotonic()))
        if not ready:
            late = [rank for rank in range(len(pipes)) if rank not in found]
            raise RunError(40, f"rank {late[0]} of {len(pipes)} has not answered in time", "look for what it waits for")
        for pipe in cast("list[Connection]", ready):
            rank = pipes.index(pipe)
            try:
                good, answer = pipe.recv()
            except EOFError:
                good, answer = False, "it ended without an answer"
            if not good:
                raise RunError(40, f"rank {rank} of {len(pipes)} failed: {answer}", "mend what it names, and run again")
            found[rank] = answer
    return [found[rank] for rank in range(len(pipes))]


def _end(processes: list[BaseProcess]) -> None:
    for process in processes:
        if process.pid is None:
            continue
        process.join(_GRACE_S if process.exitcode is None else 0)
        if process.is_alive():
            process.kill()
            process.join()
