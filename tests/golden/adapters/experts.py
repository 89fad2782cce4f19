"""What experts do with a batch: how many are read, who is busiest, what is dropped and sent."""

from __future__ import annotations

from meshwright.scenarios.experts import ExpertsOptions, experts
from tests.golden.context import Row
from tests.golden.registry import answers


@answers(
    "experts",
    {
        "choices_per_layer": "G6-177",
        "layers[0].max_expert_rows": "G6-178 G6-179",
        "layers[0].weight_bytes": "G6-180 G6-181",
        "layers[0].even_over_read": "G6-182",
        "layers[0].busiest_rows": "G6-183 G6-184 G6-186",
        "layers[0].busiest_over_mean": "G6-185",
        "layers[0].expected_distinct_experts": "G6-187",
        "layers[0].expected_weight_bytes": "G6-188",
    },
)
def batch(row: Row) -> object:
    return row.select(experts(row.model(), row.system(), row.record(ExpertsOptions)))
