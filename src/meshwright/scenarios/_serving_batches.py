"""The column table of continuous batches: the four nouns go in; the batch of every layout, evaluated, comes out.

A batch is the sessions that one replica decodes together. Each holds its prompt and all of its new tokens in memory;
a step is timed at their mean length, because sessions are spread evenly over their generation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from meshwright.base.numbers import Bools, Floats, Ints, divide_up, is_nan, maximum, minimum
from meshwright.base.result import Basis
from meshwright.base.traced import stated, values
from meshwright.cost import batching
from meshwright.cost.estimate import Step, estimate_step
from meshwright.cost.memory import Ledger
from meshwright.cost.reserve import Reserve
from meshwright.cost.stages import slowest_stage_s
from meshwright.job.serve import ServeJob
from meshwright.layout.layouts import Layouts
from meshwright.model.model import Model
from meshwright.scenarios._resident import resident_ledger
from meshwright.scenarios._serving_table import ServeOptions, Space, space
from meshwright.search.largest import largest
from meshwright.system.system import System
from meshwright.workload.batches import decode, prefill

Question: TypeAlias = Callable[[Ints], tuple[System, ServeJob, ServeOptions]]
"""The nouns as they stand for some rows of a table: numbers of them may be columns, one value a row asked for."""


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
class Decided:
    """Columns that decide a plan, one row a layout.

    in_flight: sessions over all replicas.   fits: memory holds the batch.   eligible: and it keeps the job's bounds.
    """

    running: Running
    in_flight: Ints
    tokens_per_s: Floats
    tokens_per_gpu_s: Floats
    fits: Bools
    eligible: Bools


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchTable:
    """Columns, one row a layout; those of `Space` stand in `space`.

    capacity: the largest batch that memory holds.   limited_by: what keeps the batch from growing.   valid: keeps the
    rules.   The rest as in `Decided`.
    """

    space: Space
    prompt: Prompt
    capacity: Ints
    running: Running
    ledger: Ledger
    reserve: Reserve | None
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
    layouts = found.layouts
    prompt = prompt_of(model, system, job, options, layouts)
    capacity = capacity_of(model, system, job, options, layouts)
    chosen = decided(model, lambda _: (system, job, options), layouts, prompt, capacity, found.paid)
    valid = np.array([item is None for item in found.broken], dtype=np.bool_) & ~is_nan(chosen.running.tpot_s)
    memory = system.accelerator.memory
    ledger, computed = resident_ledger(model, layouts, options, chosen.running.batch, job.last_position, memory)
    return BatchTable(
        space=found,
        prompt=prompt,
        capacity=capacity,
        running=chosen.running,
        ledger=ledger,
        reserve=computed,
        in_flight=chosen.in_flight,
        tokens_per_s=chosen.tokens_per_s,
        tokens_per_gpu_s=chosen.tokens_per_gpu_s,
        limited_by=_limits(job, chosen.running.batch, divide_up(asked(job), layouts.degree("replicas")), capacity),
        valid=valid,
        fits=valid & chosen.fits,
        eligible=valid & chosen.eligible,
    )


def decided(  # noqa: PLR0917 - what is asked, the layouts, and what bounds a batch
    model: Model, asked_on: Question, layouts: Layouts, prompt: Prompt, capacity: Ints, paid: float
) -> Decided:
    """The batch of every row, and whether it keeps the bounds. paid: devices, see `Space`."""
    system, job, options = asked_on(np.arange(len(layouts)))
    replicas = layouts.degree("replicas")
    batch = _batches(model, asked_on, layouts, prompt, capacity)
    running = run(model, system, job, options, layouts, prompt, batch)
    in_flight = minimum(batch * replicas, asked(job))
    whole = batching.throughput_tokens_per_s(in_flight, running.turn_s)
    fits = batch <= capacity
    return Decided(
        running=running,
        in_flight=in_flight,
        tokens_per_s=whole,
        tokens_per_gpu_s=batching.device_tokens_per_gpu_s(whole, paid),
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


def capacity_of(model: Model, system: System, job: ServeJob, options: ServeOptions, layouts: Layouts) -> Ints:
    """The largest batch that memory holds, each session at its final length; the memory may be a column."""
    one = np.ones(len(layouts), dtype=np.int64)
    ledger, _ = resident_ledger(model, layouts, options, one, job.last_position, system.accelerator.memory)
    return ledger.max_sessions


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
    large, small = divide_up(batch, micro), batch // micro
    large_count = batch - micro * small + micro * (large == small)
    step = estimate_step(model, system, layouts, decode(job.context, job.new_tokens, large), options.assumptions)
    large_s = small_s = slowest_stage_s(model, layouts, step)
    if not np.array_equal(values(large), values(small)):
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


def _batches(model: Model, asked_on: Question, layouts: Layouts, prompt: Prompt, capacity: Ints) -> Ints:
    """The batch of every row, at least 1; whether memory and bounds allow it is judged afterwards."""
    _, job, _ = asked_on(np.arange(len(layouts)))
    share = divide_up(asked(job), layouts.degree("replicas"))
    if job.concurrency is not None:
        return share
    most = minimum(capacity, share)
    if job.tpot is None:
        return maximum(most, 1)

    def tpot_s(batch: Ints, rows: Ints) -> Floats:
        system, own_job, options = asked_on(rows)
        own = Prompt(ttft_s=prompt.ttft_s[rows], slowest_s=prompt.slowest_s[rows])
        return values(run(model, system, own_job, options, layouts.take(rows), own, batch).tpot_s)

    found = np.maximum(largest(tpot_s, values(job.tpot), values(most)), 1)
    return stated(found, share, "largest_batch_within_tpot", basis=Basis.FORMULA.value, source="found by search")


def _limits(job: ServeJob, batch: Ints, share: Ints, capacity: Ints) -> tuple[str, ...]:
    """What keeps each batch from growing: no more sessions, no more memory, or the next one would break `tpot`."""
    asked_for = "sessions" if job.concurrency is None else "concurrency"
    found = np.where(batch >= share, asked_for, np.where(batch >= capacity, "capacity", "tpot"))
    return tuple(found.tolist())
