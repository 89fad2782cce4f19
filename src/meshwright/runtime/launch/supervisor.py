"""A function, what it is given and a number of ranks go in; what every rank returned comes out.

Ranks are forks of this process, which has imported torch already, with gloo between them. None outlives the call.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from datetime import timedelta
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import torch
import torch.distributed as dist

from meshwright.base.errors import RunError, UserError

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

T = TypeVar("T")
P = TypeVar("P")
_STOP_S: Final = 5.0


def launch(function: Callable[[int, P], T], payload: P, world_size: int, *, timeout_s: float = 60.0) -> list[T]:
    """`function(rank, payload)` on every rank, by rank.

    Raises RUN020 for a rank that fails or ends without an answer, RUN021 where all are not done in time; coded errors
    of a rank are raised as they are.
    """
    torch.set_num_threads(1)
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory(prefix="meshwright-") as folder:
        ends: list[Any] = []
        ranks: list[Any] = []
        try:
            for rank in range(world_size):
                receives, sends = context.Pipe(duplex=False)
                given = (function, payload, rank, world_size, Path(folder) / "store", timeout_s, sends)
                process = context.Process(target=_rank, args=given, daemon=True)
                process.start()
                sends.close()
                ends.append(receives)
                ranks.append(process)
            return _answers(ends, time.monotonic() + timeout_s)
        finally:
            for process in ranks:
                process.join(_STOP_S if process.exitcode is None and _answered(ends) else 0)
                if process.is_alive():
                    process.kill()
                process.join(_STOP_S)
            for end in ends:
                end.close()


def _answered(ends: list[Any]) -> bool:
    return all(not end.poll() for end in ends)


def _answers(ends: list[Any], until: float) -> list[Any]:
    """By rank; the first that fails ends the wait."""
    found: dict[int, Any] = {}
    while len(found) < len(ends):
        open_ends = [end for rank, end in enumerate(ends) if rank not in found]
        ready = cast("list[Any]", wait(open_ends, timeout=max(until - time.monotonic(), 0)))
        if not ready:
            late = [str(rank) for rank in range(len(ends)) if rank not in found]
            raise RunError(21, f"no answer in time from rank {', '.join(late)}", "give more time, or a smaller job")
        for end in ready:
            rank = ends.index(end)
            try:
                kind, value = end.recv()
            except EOFError as problem:
                raise RunError(20, f"rank {rank} ended without an answer", "see what it wrote on stderr") from problem
            if kind == "coded":
                branch, code, *said = value
                raise branch(int(code.removeprefix(branch.prefix)), *said)
            if kind == "failed":
                raise RunError(20, f"rank {rank}: {value}", "see the trace on stderr")
            found[rank] = value
    return [found[rank] for rank in range(len(ends))]


def _rank(  # noqa: PLR0917 - what a process is given
    function: Callable[[int, Any], Any],
    payload: Any,
    rank: int,
    world_size: int,
    store: Path,
    timeout_s: float,
    sends: Connection,
) -> None:
    """The life of one rank."""
    code = 0
    try:
        torch.set_num_threads(1)
        address = f"file://{store}"
        dist.init_process_group(
            "gloo", init_method=address, rank=rank, world_size=world_size, timeout=timedelta(seconds=timeout_s)
        )
        sends.send(("answer", function(rank, payload)))
        dist.destroy_process_group()
    except UserError as problem:
        sends.send(("coded", (type(problem), problem.code, problem.cause, problem.fix)))
        code = 1
    except BaseException as problem:  # noqa: BLE001 - whatever it is, the parent is to know
        import traceback  # noqa: PLC0415 - only a failure needs it

        traceback.print_exc()
        sends.send(("failed", f"{type(problem).__name__}: {problem}"))
        code = 1
    finally:
        sends.close()
        os._exit(code)
