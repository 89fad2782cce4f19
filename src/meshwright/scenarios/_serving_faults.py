"""A serving table and a fault go in; when each session then finishes, what it costs, and the energy, come out.

The plan itself is judged without the fault: what the fault does to each layout stands beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from meshwright.base.numbers import Bools, Floats, Ints, is_nan, where
from meshwright.base.traced import cell, values
from meshwright.cost import money
from meshwright.cost.faults import faulted_finish_s, stopped
from meshwright.job.faults import Fault, unknown_domain, unknown_index
from meshwright.job.serve import ServeJob
from meshwright.scenarios._serving_table import ServingTable
from meshwright.system.domains import cards_of, domain_count, domain_names
from meshwright.system.system import System


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FaultTable:
    """Columns under the fault, rows as in the table. stopped: [rows, replicas].   finish_s: [rows, sessions]."""

    stopped: Bools
    finish_s: Floats
    on_time_count: Ints
    cost_gpu_s: Floats
    cost_per_on_time_gpu_s: Floats


def fault_table(system: System, job: ServeJob, fault: Fault, table: ServingTable) -> FaultTable:
    """Every layout under the fault. Raises JOB005 for a part that the system does not have."""
    if fault.domain not in domain_names(system):
        raise unknown_domain(fault, domain_names(system))
    if fault.index >= domain_count(system, fault.domain):
        raise unknown_index(fault, domain_count(system, fault.domain))
    replicas = table.layouts.degree("replicas")
    cards = cards_of(system, fault.domain, int(fault.index))
    hit = stopped(table.layouts.plain(), cards, int(system.devices_per_node))
    turn = money.turns(replicas, job.sessions)
    own = np.arange(int(job.sessions))[None, :] % values(replicas)[:, None]
    service = table.service_s[:, None]
    struck = np.take_along_axis(hit, own, axis=1)
    away_s = fault.stall + fault.reconnect if fault.reconnect > 0 else fault.stall
    finish = where(struck, faulted_finish_s(service, turn, fault.at, away_s), money.finish_s(service, turn))
    deadline = np.inf if job.deadline is None else job.deadline
    count = np.count_nonzero(finish <= deadline, axis=1).astype(np.int64)
    occupied = money.occupied_gpu_s(table.devices, finish.max(axis=1))
    return FaultTable(
        stopped=hit,
        finish_s=finish,
        on_time_count=count,
        cost_gpu_s=occupied,
        cost_per_on_time_gpu_s=money.per_on_time_gpu_s(occupied, count),
    )


def fault_cells(system: System, table: ServingTable, faulted: FaultTable, row: int) -> dict[str, Any]:
    """One row under the fault, as a candidate's `fault`."""
    finish = faulted.finish_s[row]
    cost, last = cell(faulted.cost_per_on_time_gpu_s, row), cell([finish.max()], 0)
    return {
        "stopped_replicas": np.flatnonzero(faulted.stopped[row]).tolist(),
        "finish_times_s": finish.tolist(),
        "last_finish_s": last,
        "on_time_count": int(faulted.on_time_count[row]),
        "cost_gpu_s": cell(faulted.cost_gpu_s, row),
        "cost_per_on_time_gpu_s": None if is_nan(cost) else cost,
        "energy_j": energy_j(system, table, last),
    }


def energy_j(system: System, table: ServingTable, occupied_s: Any) -> Any:
    """Joules of every powered box at its full power; None when the system's file does not say that power."""
    if system.node_power is None:
        return None
    boxes = table.devices // system.devices_per_node
    return money.energy_j(boxes * system.node_power, occupied_s)


def curve(job: ServeJob, table: ServingTable, finish_s: Floats, row: int) -> list[dict[str, Any]]:
    """Cost per on-time session from the deadline at which enough are on time, at each finish that changes it."""
    assert job.deadline is not None
    times = np.sort(finish_s[row])
    start = max(times[max(table.needed, 1) - 1], job.deadline_from or 0.0)
    if start > job.deadline:
        return []
    steps = np.unique(np.concatenate([[start], times[(times > start) & (times <= job.deadline)]]))
    occupied = money.occupied_gpu_s(table.devices, times[-1])
    counts = np.searchsorted(cast("Floats", values(times)), cast("Floats", values(steps)), side="right")
    costs = money.per_on_time_gpu_s(np.full(len(steps), occupied), counts)
    cells = zip(steps.tolist(), counts.tolist(), costs.tolist(), strict=True)
    return [{"deadline_s": at, "on_time_count": count, "cost_per_on_time_gpu_s": cost} for at, count, cost in cells]
