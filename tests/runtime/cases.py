"""Choices of a grid go in; how far real processes are from one process comes out, many cases in one start of ranks."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import torch
import torch.distributed as dist

from meshwright.model.reader import read_arithmetic, read_model
from meshwright.runtime.loop.trainer import Batch, Recipe
from meshwright.runtime.modules.rotation import turns
from meshwright.runtime.parallel.shards import Precision
from meshwright.runtime.parallel.tensor import enter
from meshwright.scenarios.slot_orders import slot_orders
from meshwright.verify import parity
from meshwright.verify.parity import Case, compared, whole_run
from meshwright.verify.parity_grid import GLOBAL_BATCH, MODELS, SEQUENCE, grid, micro_batches
from meshwright.workload.slots import Shape

DOUBLE = Precision(compute=torch.float64, kept=torch.float64, reduced=torch.float64)
SINGLE = Precision(compute=torch.float32, kept=torch.float32, reduced=torch.float32)
HALF = Precision(compute=torch.bfloat16, kept=torch.float32, reduced=torch.float32)
TOLERANCE = 1e-9
MULTIPLE = 2.0
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


def bf16_parity_of(rank, payload):
    """As `parity_of`, in bf16 over float32: multiples of the error that one process in bf16 has."""
    double = [whole_run(replace(case, recipe=Recipe(precision=DOUBLE)), CPU) for case in payload]
    single = [whole_run(case, CPU) for case in payload]
    both = zip(payload, double, single, strict=True)
    return [compared(case, rank, CPU, whole, MULTIPLE, rounded) for case, whole, rounded in both]


def block_of(rank, payload):
    """The rows behind a block in float32, all positions, and its bits."""
    case, tokens = payload
    trainer = parity._trainer(case, rank, CPU)
    stage = trainer.stages[0, 0]
    tp = trainer.world.tensor_group
    with torch.no_grad():
        rows = stage.model.embed_tokens(tokens)
        cut = tp.size if tp.cuts_positions else 1
        positions = torch.arange(rows.shape[1] * cut)
        rows = stage.blocks[0](rows, *turns(stage.rotation, stage.head_dim, positions, rows.dtype))
        return (enter(rows, tp) if tp.cuts_positions else rows).numpy()
