"""What the catalog knows of devices and links, and how their rates are stated."""

from __future__ import annotations

from meshwright.scenarios.catalog import catalog
from meshwright.sweep.study import run_study
from tests.golden.context import Row
from tests.golden.registry import answers


@answers(
    "list accelerators",
    {
        "items[id={accelerator}].memory_bytes": "G6-004",
        "items[id={accelerator}].memory_bytes_per_s": "G6-005",
        "items[id={accelerator}].peak_flops_per_s.bf16": "G6-006",
    },
)
@answers(
    "list links",
    {
        "items[id={link}].latency_s": "G6-205 G6-235",
        "items[id={link}].measured_bytes_per_s": "G6-234 G6-236",
        "items[id={link}].port_bytes_per_s": "G6-550",
    },
)
def listed(row: Row) -> object:
    return row.select(catalog(row.subject))


@answers("study run port-bandwidth", {"answer": "G6-007 G6-009"})
@answers("study run both-ways", {"answer": "G6-008"})
@answers("study run one-way", {"answer": "G6-010"})
def studied(row: Row) -> object:
    return row.select(run_study(row.subject, row.settings))
