"""Rows of a serving table go in, best first; candidates of the front door come out, each with why it is out."""

from __future__ import annotations

from typing import Any

import numpy as np

from meshwright.base.result import Candidate, Excluded
from meshwright.base.traced import cell
from meshwright.cost.estimate import Step, estimate_step, flops, read_bytes
from meshwright.cost.forward_exchange import calls
from meshwright.cost.money import finish_s, turns
from meshwright.job.serve import ServeJob
from meshwright.layout.context import by_weights
from meshwright.layout.layout import fields_of
from meshwright.layout.layouts import Layouts
from meshwright.layout.placement import instance_size
from meshwright.layout.rules import Broken
from meshwright.model.model import Model
from meshwright.scenarios._engine import limit_of
from meshwright.scenarios._serving_faults import energy_j, fault_cells, fault_table
from meshwright.scenarios._serving_table import OUT_OF_POWER, ServeOptions, ServingTable
from meshwright.scenarios._shared import reserve_row
from meshwright.scenarios.fit import capacity_exclusion, memory_row
from meshwright.search.rank import order
from meshwright.system.system import System
from meshwright.workload.batches import prefill


def candidates(  # noqa: PLR0917 - the four nouns and what was made of them
    model: Model, system: System, job: ServeJob, options: ServeOptions, table: ServingTable, ranked: list[int]
) -> tuple[Candidate, ...]:
    """Every row as a candidate; numbers of a row against a rule are null."""
    prompt = estimate_step(model, system, table.layouts, prefill(max(job.context, 1)), options.prompt_assumptions)
    columns: dict[str, Any] = {
        "step_time_s": table.first.total_s,
        "local_time_s": table.first.local_s,
        "exchange_time_s": table.first.exchange_s,
        "service_time_s": table.service_s,
        "last_finish_s": table.last_finish_s,
        "on_time_count": table.on_time_count,
        "cost_gpu_s": table.cost_gpu_s,
        "cost_per_on_time_gpu_s": table.cost_per_on_time_gpu_s,
        "idle_devices": table.idle,
        "sessions_per_replica": table.resident,
        "read_bytes_per_step": read_bytes(table.first),
        "flops_per_step": flops(table.first),
        "prefill_time_s": prompt.total_s,
    }
    faulted = None if options.fault is None else fault_table(system, job, options.fault, table)
    finishes = finish_s(table.service_s[:, None], turns(table.layouts.degree("replicas"), job.sessions))
    nearest = _smallest_that_fits(table)
    found: list[Candidate] = []
    for row in ranked:
        memory = memory_row(table.ledger, row, system, counted=True) | reserve_row(table.reserve, row)
        layout = table.rows[row]
        known = bool(table.valid[row])
        measures: dict[str, Any] = {name: known_cell(column, row, known=known) for name, column in columns.items()}
        measures["finish_times_s"] = finishes[row].tolist() if known else []
        measures["energy_j"] = energy_j(system, table, measures["last_finish_s"]) if known else None
        measures["sessions_per_s"] = job.sessions / measures["last_finish_s"] if known else None
        measures["fault"] = fault_cells(system, table, faulted, row) if known and faulted is not None else None
        measures["groups"] = groups(table.first, table.layouts, row, 1) if known else []
        found.append(
            Candidate(
                id=layout.id,
                layout=fields_of(layout),
                fits=bool(table.fits[row]),
                excluded=_excluded(job, table, row, memory, nearest),
                memory=memory if table.broken[row] is None else {},
                measures=measures,
            )
        )
    return tuple(found)


def known_cell(column: Any, row: int, *, known: bool) -> Any:
    """A number of a column; null where the row breaks a rule or the number does not exist."""
    value = cell(column, row)
    return value if known and value == value else None  # noqa: PLR0124 - NaN is the one number that differs from itself


def _excluded(
    job: ServeJob, table: ServingTable, row: int, memory: dict[str, Any], nearest: str | None
) -> Excluded | None:
    against_a_rule = broken_exclusion(table.broken[row], table.layouts, row, valid=bool(table.valid[row]))
    if against_a_rule is not None:
        return against_a_rule
    if not table.fits[row]:
        return capacity_exclusion(memory, nearest)
    if table.eligible[row]:
        return None
    met, needed = int(table.on_time_count[row]), max(table.needed, 1)
    finish = float(table.service_s[row]) * -(-needed // int(table.layouts.degree("replicas")[row]))
    reason = f"{met} of {job.sessions} on time, {needed} needed"
    return Excluded(code="JOB003", reason=reason, nearest=f"deadline={finish!r}s", limit="time")


def broken_exclusion(broken: Broken | None, layouts: Layouts, row: int, *, valid: bool) -> Excluded | None:
    """Why a row is against a rule of the layout, of the devices or of the algorithm; None when it is not."""
    if broken is not None:
        limit = {"LAY002": "devices", OUT_OF_POWER: "power"}.get(broken.code, limit_of(broken))
        return Excluded(code=broken.code, reason=broken.reason, nearest=broken.nearest, limit=limit)
    if valid:
        return None
    reason = f"the chosen all_reduce does not take {by_weights(layouts).degree('tp')[row]} ranks"
    return Excluded(code="COL002", reason=reason, nearest="all-reduce=ring", limit="rule")


def _smallest_that_fits(table: ServingTable) -> str | None:
    """The fitting layout with the fewest devices an instance."""
    fitting = np.flatnonzero(table.fits)
    if not len(fitting):
        return None
    size = instance_size(table.layouts)[fitting]
    names = [table.rows[row].id for row in fitting.tolist()]
    return names[int(order([size, table.last_finish_s[fitting]], names)[0])]


def groups(step: Step, layouts: Layouts, row: int, sessions: int) -> list[dict[str, Any]]:
    """The exchanges of a candidate whose steps have `sessions` rows a copy of attention: algorithm, time, calls a step.

    message_bytes: of these rows, each once.
    """
    found: list[dict[str, Any]] = []
    one = layouts.take([row])
    for message, exchange in step.exchanges:
        times = int(calls(message, one)[0])
        seen = one if message.axis == "cp" else by_weights(one)
        each: Any = message.per_row_bytes if message.kind is None else round(float(message.per_row_bytes[row]))
        measured = exchange.measured[row]
        entry = {
            "axis": message.axis,
            "operation": message.operation,
            "after": message.after,
            "ranks": 2 if message.boundary else int(seen.degree(message.axis)[0]),
            "algorithm": str(exchange.algorithm[row]),
            "rounds": cell(exchange.rounds, row),
            "message_bytes": each * sessions,
            "calls_per_step": times,
            "time_s": cell(exchange.seconds, row),
            "basis": str(exchange.basis[row]),
            "archived_bytes": None if measured is None else measured.size,
            "platform": None if measured is None else measured.platform,
        }
        found += [entry] if times else []
    return found
