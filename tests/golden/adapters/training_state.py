"""What training keeps of a parameter, on a rank and in which format, and where it fits."""

from __future__ import annotations

from meshwright.scenarios.catalog import catalog
from meshwright.scenarios.inspect import InspectOptions, inspect
from meshwright.sweep.study import run_study
from tests.golden.context import Row
from tests.golden.registry import answers


@answers("inspect", {"parameters.total": "G10-044"})
def inspected(row: Row) -> object:
    return row.select(inspect(row.model(), row.record(InspectOptions)))


@answers("list accelerators", {"items[id={accelerator}].memory_bytes": "G10-139"})
def listed(row: Row) -> object:
    return row.select(catalog(row.subject))


@answers(
    "study run model-state",
    {
        "answer.rows[name=parameters].bytes": "G10-001 G10-038 G10-069",
        "answer.rows[name=gradients].bytes": "G10-039",
        "answer.rows[name=master].bytes": "G10-040",
        "answer.rows[name=first_moment].bytes": "G10-041",
        "answer.rows[name=second_moment].bytes": "G10-042",
        "answer.total_bytes": "G10-002 G10-043 G10-045",
        "answer.bytes_per_parameter": "G10-046 G10-047 G10-070",
        "answer.weight_copies": "G10-003 G10-048",
    },
)
@answers("study run matrix-state", {"answer.bytes_per_parameter": "G10-514"})
@answers(
    "study run bit-format",
    {
        "answer.smallest_normal": "G10-051",
        "answer.smallest_subnormal": "G10-052",
        "answer.smallest_normal_exponent": "G10-053",
    },
)
@answers(
    "study run number-format",
    {
        "answer.mantissa_bits": "G10-054 G10-058",
        "answer.exponent_bits": "G10-055 G10-056 G10-057",
        "answer.largest": "G10-059",
    },
)
@answers("study run published-figure", {"answer.value": "G10-060 G10-061 G10-062 G10-063 G10-066"})
@answers(
    "study run block-scaled",
    {
        "answer.block_elements": "G10-064 G10-065",
        "answer.bytes_per_parameter": "G10-067",
        "answer.copy_bytes": "G10-068",
    },
)
@answers(
    "study run zero-residency",
    {
        "answer.stages[0].state_bytes": "G10-092 G10-093 G10-094 G10-095",
        "answer.stages[0].sharded_bytes_per_parameter": "G10-096 G10-097",
    },
)
@answers(
    "study run state-and-peak",
    {
        "answer.state_bytes": "G10-098",
        "answer.even_state_bytes": "G10-099",
        "answer.peak_bytes": "G10-100 G10-101 G10-503 G10-504",
        "answer.peak_reduction": "G10-102",
        "answer.remainder_bytes": "G10-103 G10-104",
    },
)
@answers(
    "study run capacity-fit",
    {
        "answer.rows[0].state_bytes": "G10-140 G10-144 G10-146 G10-149",
        "answer.rows[0].left_bytes": "G10-141",
        "answer.rows[0].total_bytes": "G10-142 G10-145 G10-147 G10-150",
        "answer.rows[0].shortfall_bytes": "G10-143",
        "answer.rows[0].reserve_bytes": "G10-148 G10-151",
    },
)
def studied(row: Row) -> object:
    return row.select(run_study(row.subject, row.settings))
