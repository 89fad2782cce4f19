"""A function of a rank goes in; what it returns on each of several forked processes comes out.

The parent has imported torch already, so that a rank starts in milliseconds; it must not have used a CUDA device.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import torch
import torch.distributed as dist

from meshwright.base.errors import RunError

if TYPE_CHECKING:
    from multiprocessing.context import ForkProcess

    from meshwright.verify.local.cases import Devices

T = TypeVar("T")
_BACKENDS: Final = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl"}
_GRACE_S: Final = 5.0


def check_devices(count: int, devices: Devices) -> None:
    """Nothing, where every process has a device. Raises RUN030."""
    there = torch.cuda.device_count() if devices == "cuda" else count
    if there < count:
        cause = f"--devices cuda with {count} processes: {there} CUDA devices are here"
        raise RunError(30, cause, f"--nproc {there}" if there > 1 else "--devices cpu")


def on_ranks(count: int, devices: Devices, body: Callable[[int], T], timeout_s: float) -> list[T]:
    """What `body` returns on every rank, in their order; all have a process group, and one thread each.

    Raises RUN032 for the first rank that failed, RUN033 for one that is not done in time; none is left behind.
    """
    context = get_context("fork")
    with TemporaryDirectory() as folder:
        store = str(Path(folder) / "store")
        ends: list[Any] = []
        started: list[ForkProcess] = []
        try:
            for rank in range(count):
                near, far = context.Pipe(duplex=False)
                given = (rank, count, devices, store, timeout_s, body, far)
                started.append(context.Process(target=_rank, args=given, daemon=True))
                started[-1].start()
                far.close()
                ends.append(near)
            return _gathered(ends, timeout_s)
        finally:
            for process in started:
                process.join(_GRACE_S if process.exitcode is not None else 0)
                process.kill()
                process.join()
            for end in ends:
                end.close()


def _rank(  # noqa: PLR0917 - what a process is started with
    rank: int, count: int, devices: Devices, store: str, timeout_s: float, body: Callable[[int], Any], told: Connection
) -> None:
    """In the child: join the others, run, tell."""
    try:
        torch.set_num_threads(1)
        if devices == "cuda":
            torch.cuda.set_device(rank)
        dist.init_process_group(
            _BACKENDS[devices],
            store=dist.FileStore(store, count),  # pyright: ignore[reportPrivateImportUsage] - torch documents it there
            rank=rank,
            world_size=count,
            timeout=timedelta(seconds=timeout_s),
        )
        told.send((True, body(rank)))
    except BaseException as problem:  # noqa: BLE001 - told to the parent, whatever it is
        told.send((False, f"{type(problem).__name__}: {problem}\n{traceback.format_exc()}"))


def _gathered(ends: list[Any], timeout_s: float) -> list[Any]:
    found: dict[int, Any] = {}
    until = time.monotonic() + timeout_s
    while len(found) < len(ends):
        missing = [end for rank, end in enumerate(ends) if rank not in found]
        ready = wait(missing, max(0.0, until - time.monotonic()))
        if not ready:
            rank = next(rank for rank in range(len(ends)) if rank not in found)
            raise RunError(33, f"rank {rank} was not done after {timeout_s:g} s", "free the machine, or take --quick")
        for end in ready:
            rank = ends.index(cast("Connection", end))
            found[rank] = _told(rank, cast("Connection", end))
    return [found[rank] for rank in range(len(ends))]


def _told(rank: int, end: Connection) -> Any:
    try:
        good, value = end.recv()
    except EOFError as problem:
        raise RunError(32, f"rank {rank} ended without an answer", "free memory, or take fewer --nproc") from problem
    if not good:
        raise RunError(32, f"rank {rank} failed: {str(value).partition(chr(10))[0]}", "take fewer --nproc, or --quick")
    return value
