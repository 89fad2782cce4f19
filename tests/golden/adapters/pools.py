"""Borrowed memory: who holds what, at which rate it is read, and when fetching it once pays."""

from __future__ import annotations

from meshwright.scenarios.memory_pool import PoolOptions, pool
from meshwright.sweep.study import run_study
from tests.golden.context import Row
from tests.golden.registry import answers


@answers(
    "pool",
    {
        "demand_bytes": "G6-392",
        "capacity_bytes": "G6-393",
        "nodes[0].shortfall_bytes": "G6-394",
        "free_elsewhere_before_bytes": "G6-395",
        "used_bytes": "G6-396",
        "free_after_bytes": "G6-397",
        "window.round_trip_s": "G6-398",
        "window.in_flight_bytes": "G6-400",
        "window.window_bytes_per_s": "G6-401 G6-403",
        "window.least_requests": "G6-402",
        "window.usable_bytes_per_s": "G6-404",
        "reads.periods[0].average_bytes_per_s": "G6-405 G6-406 G6-407",
        "reads.read_s": "G6-408 G6-410",
        "reads.periods[0].idle_s": "G6-409",
        "reads.remote_s": "G6-411",
        "reads.local_scans_s": "G6-412",
        "reads.fetched_s": "G6-413",
        "reads.saving_s": "G6-414",
        "reads.average_span": "G6-547",
    },
)
def borrowed(row: Row) -> object:
    return row.select(pool(row.record(PoolOptions)))


@answers("study run row-bytes", {"answer": "G6-399"})
@answers("study run latent-cache", {"answer.share": "G6-565"})
def studied(row: Row) -> object:
    return row.select(run_study(row.subject, row.settings))
