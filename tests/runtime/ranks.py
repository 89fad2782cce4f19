"""A function and a payload go in; what each of several real processes returned comes out. No process is left behind."""

from __future__ import annotations

import multiprocessing as mp
import os
import tempfile
import traceback
from datetime import timedelta
from multiprocessing.connection import wait
from pathlib import Path
from time import monotonic

PATIENCE_S = 120.0
_LONGEST_CALL_S = 60

_SERVER = mp.get_context("forkserver")


class RankError(AssertionError):
    """Some rank raised, died or hung; the text names all that did not finish."""


def run_ranks(world_size, function, payload, patience_s=PATIENCE_S):
    """`function(rank, payload)` on every rank of a gloo group; what they return, in order of rank."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    _SERVER.set_forkserver_preload(["tests.runtime.preload"])
    folder = tempfile.TemporaryDirectory()
    meeting = str(Path(folder.name) / "ranks")
    pipes, ranks = [], []
    for rank in range(world_size):
        mine, theirs = _SERVER.Pipe(duplex=False)
        place = (rank, world_size, meeting)
        process = _SERVER.Process(target=_rank, args=(place, function, payload, theirs), daemon=True)
        process.start()
        theirs.close()
        pipes.append(mine)
        ranks.append(process)
    try:
        return _collected(pipes, ranks, patience_s)
    finally:
        for process in ranks:
            if process.is_alive():
                process.kill()
            process.join()
        folder.cleanup()


def _collected(pipes, ranks, patience_s):
    found, deadline = {}, monotonic() + patience_s
    while len(found) < len(ranks):
        ready = wait([pipe for rank, pipe in enumerate(pipes) if rank not in found], deadline - monotonic())
        if not ready:
            silent = [rank for rank in range(len(ranks)) if rank not in found]
            raise RankError(f"ranks {silent} said nothing for {patience_s:g} s")
        for pipe in ready:
            rank = pipes.index(pipe)
            try:
                found[rank], text = pipe.recv()
            except EOFError:
                ranks[rank].join()
                raise RankError(f"rank {rank} died with {ranks[rank].exitcode}") from None
            if text is not None:
                raise RankError(f"rank {rank}:\n{text}")
    return [found[rank] for rank in range(len(ranks))]


def _rank(place, function, payload, pipe):
    import torch.distributed as dist

    rank, world_size, meeting = place
    try:
        if world_size > 1:
            dist.init_process_group(
                "gloo",
                store=dist.FileStore(meeting, world_size),
                rank=rank,
                world_size=world_size,
                timeout=timedelta(seconds=_LONGEST_CALL_S),
            )
        answer, text = function(rank, payload), None
    except BaseException:  # noqa: BLE001 - whatever it was, the test tells it
        answer, text = None, traceback.format_exc()
    pipe.send((answer, text))
    pipe.close()
    os._exit(0)
