"""What a model is: parameters, bytes, cached state, and what its layers weigh."""

from __future__ import annotations

from meshwright.scenarios.inspect import InspectOptions, inspect
from meshwright.sweep.study import run_study
from tests.golden.context import Row
from tests.golden.registry import answers


@answers(
    "inspect",
    {
        "parameter_bytes.total": "G6-011 G6-012 G6-047 G6-057 G6-058",
        "parameter_bytes.experts": "G6-156",
        "kv_bytes_per_token": "G6-014 G6-048 G6-059 G6-060",
        "weight_bytes_per_step": "G6-033 G6-065 G6-066 G6-067 G6-068 G6-120",
        "flops_per_token": "G6-123",
    },
)
def inspected(row: Row) -> object:
    return row.select(inspect(row.model(), row.record(InspectOptions)))


@answers("study run cached-bytes", {"answer": "G6-015 G6-016 G6-049 G6-063 G6-064 G6-096"})
@answers(
    "study run layer-bytes",
    {
        "answer.attention": "G6-115",
        "answer.layer": "G6-116",
        "answer.kv_read": "G6-117",
        "answer.head": "G6-118",
    },
)
def studied(row: Row) -> object:
    return row.select(run_study(row.subject, row.settings))
