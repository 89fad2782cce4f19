"""A table of continuous batches goes in; the front of tokens a second per GPU against per user comes out.

Every layout that keeps the rules is tried at batches 1, 2, 4, ... up to the one that memory limits, and at its own of
the plan. Points that break a bound of the job are on the front like others, and say what they break.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from meshwright.base.numbers import Ints
from meshwright.base.traced import cell, values
from meshwright.cost import batching
from meshwright.job.serve import ServeJob
from meshwright.model.model import Model
from meshwright.scenarios._serving_batches import BatchTable, Prompt, run, within
from meshwright.scenarios._serving_table import ServeOptions
from meshwright.search.pareto import front
from meshwright.system.system import System

MOST_BATCH: Final = 2**20
"""Beyond it no batch is looked at: where a session's state takes nearly no memory."""
GOALS: Final = ("tokens_per_s_per_gpu", "tokens_per_s_per_user")


def pareto(
    model: Model, system: System, job: ServeJob, options: ServeOptions, table: BatchTable
) -> list[dict[str, Any]]:
    """Points that no other beats in both goals, the fastest for a user first; every batch fills all replicas."""
    found = points(model, system, job, options, table)
    on_front = front([found[goal] for goal in GOALS])[::-1].tolist()
    return [_point(job, table, found, row) for row in on_front]


def points(model: Model, system: System, job: ServeJob, options: ServeOptions, table: BatchTable) -> dict[str, Any]:
    """Columns of every point that is looked at; `row` is its layout's row of the table."""
    rows, batch = tried(table)
    layouts = table.space.layouts.take(rows)
    prompt = Prompt(ttft_s=table.prompt.ttft_s[rows], slowest_s=table.prompt.slowest_s[rows])
    running = run(model, system, job, options, layouts, prompt, batch)
    in_flight = batch * layouts.degree("replicas")
    whole = batching.throughput_tokens_per_s(in_flight, running.turn_s)
    return {
        "row": rows,
        "batch": batch,
        "in_flight": in_flight,
        "tpot_s": running.tpot_s,
        "ttft_s": prompt.ttft_s,
        "tokens_per_s": whole,
        "tokens_per_s_per_gpu": batching.device_tokens_per_gpu_s(whole, table.space.paid),
        "tokens_per_s_per_user": batching.throughput_tokens_per_s(1, running.tpot_s),
    }


def tried(table: BatchTable) -> tuple[Ints, Ints]:
    """Rows and batches of all points: powers of two within memory, the batch that fills it, and the plan's own."""
    most = np.minimum(values(table.capacity), MOST_BATCH)
    powers = 2 ** np.arange(MOST_BATCH.bit_length(), dtype=np.int64)
    row, place = np.nonzero((powers[None, :] <= most[:, None]) & table.valid[:, None])
    full, own = np.flatnonzero(table.valid & (most >= 1)), np.flatnonzero(table.fits)
    pairs = np.stack(
        [
            np.concatenate([row, full, own]),
            np.concatenate([powers[place], most[full], values(table.running.batch)[own]]),
        ]
    )
    rows, batch = np.unique(pairs, axis=1)
    return rows, batch


def _point(job: ServeJob, table: BatchTable, found: dict[str, Any], point: int) -> dict[str, Any]:
    row, batch = int(found["row"][point]), int(found["batch"][point])
    own = bool(table.fits[row]) and batch == int(table.running.batch[row])
    full = "capacity" if batch == int(table.capacity[row]) else None
    bounds = (("tpot", job.tpot), ("ttft", job.ttft))
    breaks = [name for name, bound in bounds if not within(bound, found[f"{name}_s"][[point]])[0]]
    measured = {name: cell(column, point) for name, column in found.items() if name != "row"}
    limited = table.limited_by[row] if own and full is None else full
    return {"id": table.space.rows[row].id, **measured, "limited_by": limited, "breaks": breaks}
