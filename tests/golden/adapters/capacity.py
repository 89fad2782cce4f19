"""What one rank holds, what is left of it, and how many sessions still fit."""

from __future__ import annotations

from meshwright.layout.layout import Layout
from meshwright.scenarios.fit import FitOptions, fit
from tests.golden.context import Row
from tests.golden.registry import answers


@answers(
    "fit",
    {
        "memory.weights_over_capacity": "G6-013",
        "memory.workspace_bytes": "G6-017",
        "memory.parameters_bytes": "G6-019 G6-020",
        "memory.parameters_by_part_bytes.experts": "G6-157",
        "memory.kv_cache_bytes": "G6-021 G6-022",
        "memory.per_rank_bytes": "G6-018 G6-023 G6-050 G6-051 G6-053 G6-431 G6-432 G6-433",
        "memory.free_bytes": "G6-026",
        "memory.all_ranks_bytes": "G6-024",
        "memory.all_ranks_free_bytes": "G6-025",
        "memory.max_sessions": "G6-027 G6-052 G6-054 G6-055 G6-056 G6-464 G6-560",
    },
)
def fitted(row: Row) -> object:
    return row.select(fit(row.model(), row.system(), row.record(Layout), row.record(FitOptions)))
