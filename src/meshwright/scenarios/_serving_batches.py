"""The column table of continuous batches: the four nouns go in; the batch of every layout, evaluated, comes out.

A batch is the sessions that one replica decodes together. Each holds its prompt and all of its new tokens in memory;
a step is timed at their mean length, because sessions are spread evenly over their generation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from meshwright.base.numbers import Bools, Floats, Ints, minimum
from meshwright.cost import batching
from meshwright.cost.estimate import Step, estimate_step
from meshwright.cost.memory import Ledger, serving_ledger
from meshwright.cost.stages import slowest_stage_s
from meshwright.job.serve import ServeJob
from meshwright.layout.layouts import Layouts
from meshwright.model.model import Model
from meshwright.scenarios._serving_table import ServeOptions, Space, space
from meshwright.search.largest import largest
from meshwright.system.system import System
from meshwright.workload.batches import decode, prefill

MOST_BATCH = 2**20
"""Beyond it no batch is looked at: where a session's state takes (nearly) no memory."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prompt:
    """Columns of one session's prompt, alone on a replica: through all stages, and on the slowest of them."""

    ttft_s: Floats
    slowest_s: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Running:
    """Columns of batches that run on and on, one row a layout and batch.

    batch: sessions of one replica.   step: of its largest micro-batch, at the mean length.   tpot_s: between two
    tokens of a session.   turn_s: what a session takes up a token, its prompt included where prompts run between
    steps; the same without.   mixed_tpot_s, mixed_turn_s: both as if prompts ran between steps.
    """

    batch: Ints
    micro_batches: Ints
    step: Step
    tpot_s: Floats
    turn_s: Floats
    mixed_tpot_s: Floats
    mixed_turn_s: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchTable:
    """Columns, one row a layout; those of `Space` stand in `space`.

    capacity: the largest batch that memory holds.   share: the batch that would take every session that is asked for.
    in_flight: sessions over all replicas.   limited_by: what keeps the batch from growing.   late: breaks a bound.
    """

    space: Space
    prompt: Prompt
    capacity: Ints
    share: Ints
    running: Running
    ledger: Ledger
    in_flight: Ints
    tokens_per_s: Floats
    tokens_per_gpu_s: Floats
    limited_by: tuple[str, ...]
    valid: Bools
    fits: Bools
    eligible: Bools


def batch_table(model: Model, system: System, job: ServeJob, options: ServeOptions) -> BatchTable:
    """Every layout with its batch: what `concurrency` says, or the largest that memory and `tpot` let in.

    Raises the codes of `space`.
    """
    found = space(model, system, options)
    layouts, replicas = found.layouts, found.layouts.degree("replicas")
    prompt = prompt_of(model, system, job, options, layouts)
    capacity = ledger_of(model, system, job, options, layouts, np.ones(len(layouts), dtype=np.int64)).max_sessions
    share = -(-asked(job) // replicas)
    batch = _batches(model, system, job, options, layouts, prompt, minimum(capacity, share), share)
    running = run(model, system, job, options, layouts, prompt, batch)
    ledger = ledger_of(model, system, job, options, layouts, batch)
    in_flight = minimum(batch * replicas, asked(job))
    whole = batching.throughput_tokens_per_s(in_flight, running.turn_s)
    valid = np.array([item is None for item in found.broken], dtype=np.bool_) & ~np.isnan(running.tpot_s)
    fits = valid & (ledger.total <= system.accelerator.memory)
    return BatchTable(
        space=found,
        prompt=prompt,
        capacity=capacity,
        share=share,
        running=running,
        ledger=ledger,
        in_flight=in_flight,
        tokens_per_s=whole,
        tokens_per_gpu_s=batching.device_tokens_per_gpu_s(whole, found.devices),
        limited_by=_limits(job, batch, share, capacity),
        valid=valid,
        fits=fits,
        eligible=fits & within(job.tpot, running.tpot_s) & within(job.ttft, prompt.ttft_s),
    )


def asked(job: ServeJob) -> Any:
    """Sessions that are to be in flight over all replicas, at most."""
    return job.sessions if job.concurrency is None else job.concurrency


def within(bound_s: Any, seconds: Floats) -> Bools:
    """Which times keep a bound; all of them when there is none."""
    return np.ones(len(seconds), dtype=np.bool_) if bound_s is None else seconds <= bound_s


def prompt_of(model: Model, system: System, job: ServeJob, options: ServeOptions, layouts: Layouts) -> Prompt:
    """One prompt alone on a replica of every layout."""
    step = estimate_step(model, system, layouts, prefill(max(job.context, 1)), options.prompt_assumptions)
    return Prompt(ttft_s=step.total_s, slowest_s=slowest_stage_s(model, layouts, step))


def ledger_of(  # noqa: PLR0917 - the four nouns and a column
    model: Model, system: System, job: ServeJob, options: ServeOptions, layouts: Layouts, batch: Ints
) -> Ledger:
    """Memory with a batch of sessions at their final length on every replica."""
    return serving_ledger(
        model,
        layouts,
        sessions=batch,
        tokens=job.last_position,
        workspace_bytes=options.workspace,
        capacity_bytes=system.accelerator.memory,
    )


def run(  # noqa: PLR0917 - the four nouns, the layouts, and what runs on them
    model: Model,
    system: System,
    job: ServeJob,
    options: ServeOptions,
    layouts: Layouts,
    prompt: Prompt,
    batch: Ints,
) -> Running:
    """A batch of every row, decoded without end. Rows are independent: each gives the same bits in any table."""
    micro = batching.micro_batch_count(batch, layouts.degree("pp"))
    large, small = -(-batch // micro), batch // micro
    large_count = batch - micro * small + micro * (large == small)
    step = estimate_step(model, system, layouts, decode(job.context, job.new_tokens, large), options.assumptions)
    large_s = small_s = slowest_stage_s(model, layouts, step)
    if not np.array_equal(large, small):
        other = estimate_step(model, system, layouts, decode(job.context, job.new_tokens, small), options.assumptions)
        small_s = slowest_stage_s(model, layouts, other)
    busy = batching.busy_s(step.total_s, large_s, small_s, large_count, micro)
    tpot = batching.interval_s(step.total_s, busy)
    mixed_tpot, mixed_turn = _between_steps(job, prompt, batch, step.total_s, busy)
    apart = options.prefill == "cached"
    return Running(
        batch=batch,
        micro_batches=micro,
        step=step,
        tpot_s=tpot if apart else mixed_tpot,
        turn_s=tpot if apart else mixed_turn,
        mixed_tpot_s=mixed_tpot,
        mixed_turn_s=mixed_turn,
    )


def _between_steps(
    job: ServeJob, prompt: Prompt, batch: Ints, chain_s: Floats, busy_s: Floats
) -> tuple[Floats, Floats]:
    """Interval and turn when a prompt runs whole, between two steps, in the place of each session that ends.

    While a session decodes, the prompts of all others of its batch run once.
    """
    tokens = job.new_tokens
    others = batching.prompts_s(prompt.slowest_s, batch - 1, tokens)
    interval = batching.interval_s(chain_s, busy_s + others)
    own = batching.prompts_s(prompt.ttft_s, 1, tokens)
    full = busy_s + batching.prompts_s(prompt.slowest_s, batch, tokens)
    return interval, batching.turn_s(interval, own, full)


def _batches(  # noqa: PLR0917 - the four nouns, the layouts, and what bounds a batch
    model: Model,
    system: System,
    job: ServeJob,
    options: ServeOptions,
    layouts: Layouts,
    prompt: Prompt,
    most: Ints,
    share: Ints,
) -> Ints:
    """The batch of every row, at least 1; whether memory and bounds allow it is judged afterwards."""
    if job.concurrency is not None:
        return np.maximum(share, 1)
    if job.tpot is None:
        return np.maximum(most, 1)

    def in_time(batch: Ints, rows: Ints) -> Bools:
        own = Prompt(ttft_s=prompt.ttft_s[rows], slowest_s=prompt.slowest_s[rows])
        return within(job.tpot, run(model, system, job, options, layouts.take(rows), own, batch).tpot_s)

    return np.maximum(largest(in_time, most), 1)


def _limits(job: ServeJob, batch: Ints, share: Ints, capacity: Ints) -> tuple[str, ...]:
    """What keeps each batch from growing: no more sessions, no more memory, or the next one would break `tpot`."""
    asked_for = "sessions" if job.concurrency is None else "concurrency"
    found = np.where(batch >= share, asked_for, np.where(batch >= capacity, "capacity", "tpot"))
    return tuple(found.tolist())
