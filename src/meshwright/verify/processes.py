"""A function goes in and runs as every rank of a group of local processes; what each rank returned comes out.

Ranks are forked, so that torch is loaded once; they meet through a file and talk by gloo. Every wait has an end: a rank
that fails or hangs ends all, and is named.
"""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist

from meshwright.base.errors import RunError

T = TypeVar("T")
_GRACE_S = 5.0


def in_processes(work: Callable[[int], T], ranks: int, timeout_s: float) -> list[T]:
    """What `work(rank)` returned, by rank; it finds the default process group there, and must return what pickles.

    timeout_s: for all of it, and for every wait of a rank for others. Raises RUN040 where a rank fails or is late.
    """
    context = multiprocessing.get_context("fork")
    with TemporaryDirectory(prefix="meshwright-") as folder:
        pipes = [cast("tuple[Connection, Connection]", context.Pipe()) for _ in range(ranks)]
        place = _Place(ranks=ranks, meeting=Path(folder) / "store", timeout_s=timeout_s, pipes=pipes)
        started = [context.Process(target=_rank, args=(work, rank, place), daemon=True) for rank in range(ranks)]
        try:
            for process in started:
                process.start()
            for _, theirs in pipes:
                theirs.close()
            return cast("list[T]", _answers([own for own, _ in pipes], monotonic() + timeout_s + _GRACE_S))
        finally:
            for process in started:
                if process.pid is not None:
                    process.kill()
                    process.join()
            for own, _ in pipes:
                own.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """What all ranks share. pipes: by rank, the caller's end and the rank's."""

    ranks: int
    meeting: Path
    timeout_s: float
    pipes: Sequence[tuple[Connection, Connection]]


def _rank(work: Callable[[int], Any], rank: int, place: _Place) -> None:
    """A rank answers and then stays, as others may still take from it what it sent; the caller ends it."""
    for number, (own, theirs) in enumerate(place.pipes):
        own.close()
        if number != rank:
            theirs.close()
    to = place.pipes[rank][1]
    torch.set_num_threads(1)
    try:
        limit = timedelta(seconds=place.timeout_s)
        dist.init_process_group(
            "gloo", init_method=f"file://{place.meeting}", rank=rank, world_size=place.ranks, timeout=limit
        )
        answer = (True, work(rank))
    except BaseException as problem:  # noqa: BLE001 - whatever it is, the caller is told
        answer = (False, traceback.format_exception_only(problem)[-1].strip())
    to.send(answer)
    to.poll(None)


def _answers(pipes: Sequence[Connection], until: float) -> list[Any]:
    """By rank. The first rank that fails ends it: others then fail because of it."""
    found: dict[int, Any] = {}
    while len(found) < len(pipes):
        left = [pipe for rank, pipe in enumerate(pipes) if rank not in found]
        ready = wait(left, max(0.0, until - monotonic()))
        if not ready:
            late = next(rank for rank in range(len(pipes)) if rank not in found)
            raise RunError(40, f"rank {late} of {len(pipes)} has not answered in time", "look for what it waits for")
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
