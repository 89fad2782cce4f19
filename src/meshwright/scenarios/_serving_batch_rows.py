"""Rows of a table of continuous batches go in, best first; candidates of the front door come out."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from meshwright.base.result import Candidate, Excluded
from meshwright.base.units import show_seconds
from meshwright.cost import batching
from meshwright.cost.estimate import Step, flops, read_bytes, state_bytes, weight_bytes
from meshwright.job.serve import ServeJob
from meshwright.layout.layout import fields_of
from meshwright.layout.placement import instance_size
from meshwright.scenarios._serving_batches import BatchTable, within
from meshwright.scenarios._serving_rows import broken_exclusion, groups, known_cell
from meshwright.scenarios._shared import reserve_row
from meshwright.scenarios.fit import capacity_exclusion, memory_row
from meshwright.search.rank import order
from meshwright.system.system import System

_MILLION: Final = 10**6


def candidates(system: System, job: ServeJob, table: BatchTable, ranked: list[int]) -> tuple[Candidate, ...]:
    """Every row as a candidate; numbers of a row against a rule are null."""
    columns = _columns(table)
    bound_by = step_bound(table.running.step)
    nearest = _smallest_that_fits(table)
    found: list[Candidate] = []
    for row in ranked:
        layout, known = table.space.rows[row], bool(table.valid[row])
        memory = memory_row(table.ledger, row, system, counted=True) | reserve_row(table.reserve, row)
        measures: dict[str, Any] = {name: known_cell(column, row, known=known) for name, column in columns.items()}
        measures["limited_by"] = table.limited_by[row] if table.fits[row] else None
        measures["step_bound"] = bound_by[row] if known else None
        rows = -(-int(table.running.batch[row]) // int(table.running.micro_batches[row]))
        measures["groups"] = groups(table.running.step, layout, row, rows) if known else []
        found.append(
            Candidate(
                id=layout.id,
                layout=fields_of(layout),
                fits=bool(table.fits[row]),
                excluded=_excluded(job, table, row, memory, nearest),
                memory=memory if table.space.broken[row] is None else {},
                measures=measures,
            )
        )
    return tuple(found)


def _columns(table: BatchTable) -> dict[str, Any]:
    """What stands beside every candidate. A step is one micro-batch through all stages of one replica."""
    running, step = table.running, table.running.step
    whole = batching.throughput_tokens_per_s(table.in_flight, running.mixed_turn_s)
    return {
        "batch": running.batch,
        "in_flight": table.in_flight,
        "micro_batches": running.micro_batches,
        "capacity_batch": table.capacity,
        "tpot_s": running.tpot_s,
        "ttft_s": table.prompt.ttft_s,
        "tokens_per_s": table.tokens_per_s,
        "tokens_per_s_per_gpu": table.tokens_per_gpu_s,
        "tokens_per_s_per_user": batching.throughput_tokens_per_s(1, running.tpot_s),
        "cost_gpu_s_per_million_tokens": batching.token_gpu_s(_MILLION, table.tokens_per_gpu_s),
        "tpot_with_prefill_s": running.mixed_tpot_s,
        "tokens_per_s_per_gpu_with_prefill": batching.device_tokens_per_gpu_s(whole, table.space.paid),
        "step_time_s": step.total_s,
        "local_time_s": step.local_s,
        "exchange_time_s": step.exchange_s,
        "weight_bytes_per_step": weight_bytes(step),
        "state_bytes_per_step": state_bytes(step),
        "read_bytes_per_step": read_bytes(step),
        "flops_per_step": flops(step),
        "idle_devices": table.space.idle,
    }


def step_bound(step: Step) -> list[str]:
    """What takes most of each row's step: reading weights, reading the cache, computing, or exchanging."""
    parts = {name: np.zeros(len(step.total_s)) for name in ("weights", "kv_cache", "compute")}
    for work in step.work:
        read = "kv_cache" if work.operator.scores.dims else "weights"
        parts["compute"] = parts["compute"] + np.where(work.compute_bound, work.seconds, 0.0)
        parts[read] = parts[read] + np.where(work.compute_bound, 0.0, work.seconds)
    parts["exchange"] = step.exchange_s
    most = np.argmax(np.stack(list(parts.values())), axis=0)
    return [list(parts)[part] for part in most.tolist()]


def _excluded(
    job: ServeJob, table: BatchTable, row: int, memory: dict[str, Any], nearest: str | None
) -> Excluded | None:
    against_a_rule = broken_exclusion(table.space.broken[row], table.space.layouts, row, valid=bool(table.valid[row]))
    if against_a_rule is not None:
        return against_a_rule
    if not table.fits[row]:
        room = int(table.capacity[row]) * int(table.space.layouts.degree("replicas")[row])
        return capacity_exclusion(memory, f"concurrency={room}" if room and job.concurrency is not None else nearest)
    if table.eligible[row]:
        return None
    times = (("tpot", job.tpot, table.running.tpot_s), ("ttft", job.ttft, table.prompt.ttft_s))
    for name, bound, column in times:
        if bound is not None and not within(bound, column[[row]])[0]:
            reached = float(column[row])
            reason = (
                f"{name} {show_seconds(reached)} at batch {table.running.batch[row]}, {show_seconds(bound)} allowed"
            )
            return Excluded(code="JOB008", reason=reason, nearest=f"{name}={reached!r}s", limit="time")
    return None


def _smallest_that_fits(table: BatchTable) -> str | None:
    """The fitting layout with the fewest devices an instance."""
    fitting = np.flatnonzero(table.fits)
    if not len(fitting):
        return None
    size = instance_size(table.space.layouts)[fitting]
    names = [table.space.rows[row].id for row in fitting.tolist()]
    return names[int(order([size, table.running.tpot_s[fitting]], names)[0])]
