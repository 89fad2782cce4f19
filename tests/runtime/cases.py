"""Choices of a grid go in; how far real processes are from one process comes out, many cases in one start of ranks."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch
import torch.distributed as dist

from meshwright.model.reader import read_arithmetic, read_model
from meshwright.runtime.loop.trainer import Batch, Recipe
from meshwright.runtime.parallel.shards import Precision
from meshwright.scenarios.slot_orders import slot_orders
from meshwright.verify.parity import Case, compared, whole_run
from meshwright.verify.parity_grid import GLOBAL_BATCH, MODELS, SEQUENCE, grid, micro_batches
from meshwright.workload.slots import Shape

DOUBLE = Precision(compute=torch.float64, kept=torch.float64, reduced=torch.float64)
TOLERANCE = 1e-9
CPU = torch.device("cpu")


@cache
def choices():
    return grid({name: read_model(name) for name in MODELS})


def case_of(choice, recipe=None):
    layout = choice.layout
    shape = Shape(
        stages=layout.pp,
        micro_batches=micro_batches(layout, GLOBAL_BATCH),
        virtual_stages=layout.virtual_stages,
    )
    return Case(
        model=read_model(choice.model),
        arithmetic=read_arithmetic(choice.model),
        layout=layout,
        slots=slot_orders(layout.schedule, shape),
        batch=Batch(global_batch=GLOBAL_BATCH, sequence=SEQUENCE),
        recipe=recipe or Recipe(precision=DOUBLE),
    )


def parity_of(rank, payload):
    """On one rank: the difference of every case. payload: cases of one world size, and a folder.

    What one process finds depends on the model alone: the first rank runs it and leaves it in the folder for all.
    """
    cases, folder = payload
    names = sorted({case.model.name for case in cases})
    if rank == 0:
        for name in names:
            first = next(case for case in cases if case.model.name == name)
            torch.save(whole_run(first, CPU), Path(folder) / f"{name}.pt")
    if dist.is_initialized():
        dist.barrier()
    wholes = {name: torch.load(Path(folder) / f"{name}.pt", weights_only=False) for name in names}
    return [compared(case, rank, CPU, wholes[case.model.name], TOLERANCE) for case in cases]
