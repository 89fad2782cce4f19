"""What does one fault cost each layout? Sessions and a fault go in; finishes, shares and costs with and without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from meshwright.base.numbers import Floats
from meshwright.cost.collectives import check_choice
from meshwright.cost.money import finish_s, turns
from meshwright.job.faults import Fault
from meshwright.job.serve import MOST_TOKENS, ServeJob, check_range, checked
from meshwright.model.model import Model
from meshwright.scenarios._serving_faults import FaultTable, energy_j, fault_table
from meshwright.scenarios._serving_table import ServeOptions, ServingTable, serving_table
from meshwright.scenarios._shared import check_resident
from meshwright.system.system import System

LEFT_OUT: Final = (
    "losing the cached context: only the running steps are replayed, once connections stand again (reconnect)",
    "moving sessions to replicas that run: each stays where it was dealt",
    "more than one fault, and when one comes: the fault is given, not drawn",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One way it goes. cost_per_on_time_gpu_s is None when nobody is on time; energy_j without the system's power."""

    finish_times_s: tuple[float, ...]
    last_finish_s: float
    on_time_count: int
    on_time_share: float
    cost_gpu_s: float
    cost_per_on_time_gpu_s: float | None
    energy_j: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultCost:
    """One layout that fits. cost_ratio: an on-time session with the fault against one without; None where none is."""

    id: str
    stopped_replicas: tuple[int, ...]
    without: Served
    with_fault: Served
    cost_ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultCosts:
    """Every layout that fits, by id, and what the replay leaves out."""

    layouts: tuple[FaultCost, ...]
    not_modelled: tuple[str, ...]


def fault_cost(model: Model, system: System, job: ServeJob, fault: Fault, options: ServeOptions) -> FaultCosts:
    """One stop replayed on every layout. Raises JOB001, JOB002 (job), JOB005 (fault), COL001, LAY002.. (space).

    The plan's own table, with `fault` (that of `options` is not read) and without. Source: chapter "Supernodes",
    section 6.7.2, equation 6-13.
    """
    checked(job)
    check_resident(model, job.sessions, job.last_position, options.workspace)
    check_choice(options.all_reduce)
    check_range(fault.domain, fault.index, 0, MOST_TOKENS)
    table = serving_table(model, system, job, options)
    struck = fault_table(system, job, fault, table)
    plain = finish_s(table.service_s[:, None], turns(table.layouts.degree("replicas"), job.sessions))
    found: list[FaultCost] = []
    for row in sorted(np.flatnonzero(table.fits).tolist(), key=lambda row: table.rows[row].id):
        without, with_fault = (
            _served(system, job, table, costs, times, row)
            for costs, times in ((table, plain), (struck, struck.finish_s))
        )
        both = without.on_time_count and with_fault.on_time_count
        ratio = struck.cost_per_on_time_gpu_s[row] / table.cost_per_on_time_gpu_s[row] if both else None
        found.append(
            FaultCost(
                id=table.rows[row].id,
                stopped_replicas=tuple(np.flatnonzero(struck.stopped[row]).tolist()),
                without=without,
                with_fault=with_fault,
                cost_ratio=None if ratio is None else float(ratio),
            )
        )
    return FaultCosts(layouts=tuple(found), not_modelled=LEFT_OUT)


def _served(  # noqa: PLR0917 - a row of the table, with the fault or without
    system: System, job: ServeJob, table: ServingTable, costs: ServingTable | FaultTable, finish: Floats, row: int
) -> Served:
    count, each = int(costs.on_time_count[row]), float(costs.cost_per_on_time_gpu_s[row])
    last = float(finish[row].max())
    return Served(
        finish_times_s=tuple(finish[row].tolist()),
        last_finish_s=last,
        on_time_count=count,
        on_time_share=count / job.sessions,
        cost_gpu_s=float(costs.cost_gpu_s[row]),
        cost_per_on_time_gpu_s=each if count else None,
        energy_j=energy_j(system, table, last),
    )
