"""What experts do with a batch: how many are read, who is busiest, what is dropped and sent."""

from __future__ import annotations

from meshwright.scenarios.experts import ExpertsOptions, experts
from meshwright.sweep.study import run_study
from tests.golden.context import Row
from tests.golden.registry import answers


@answers(
    "experts",
    {
        "choices_per_layer": "G6-177 G10-267",
        "mean_expert_rows": "G10-268",
        "layers[0].max_expert_rows": "G6-178 G6-179 G10-269",
        "layers[0].min_expert_rows": "G10-270",
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


@answers(
    "study run expert-capacity",
    {
        "answer.dispatches": "G10-250",
        "answer.mean_group_rows": "G10-251",
        "answer.balanced_saving_fraction": "G10-252",
        "answer.capacity_rows": "G10-253 G10-256 G10-259 G10-262 G10-271 G10-275 G10-279 G10-283",
        "answer.dropped[0]": "G10-254 G10-257 G10-260 G10-263 G10-272 G10-276 G10-280 G10-284",
        "answer.padding": "G10-255 G10-258 G10-261 G10-264",
        "answer.dropped_fraction": "G10-265 G10-273 G10-277 G10-281 G10-285",
        "answer.padding_fraction": "G10-266 G10-274 G10-278 G10-282 G10-286",
    },
)
@answers(
    "study run token-dispatch",
    {"answer.homes[0]": "G6-151", "answer.each_bytes": "G6-152", "answer.once_bytes": "G6-153"},
)
@answers(
    "study run replicated-attention",
    {
        "answer.experts_per_group": "G6-160",
        "answer.expert_width": "G6-161",
        "answer.kv_heads": "G6-162",
        "answer.attention_copies": "G6-163",
        "answer.weight_bytes": "G6-165",
        "answer.all_weight_bytes": "G6-166",
        "answer.repeated_bytes": "G6-167",
        "answer.kv_bytes": "G6-168",
        "answer.all_kv_bytes": "G6-169",
        "answer.kv_copies": "G6-170",
        "answer.row_bytes": "G6-171",
        "answer.sent_bytes": "G6-174 G6-176",
        "answer.all_sent_bytes": "G6-175",
    },
)
@answers("study run routing-record", {"answer": "G10-445 G10-446"})
@answers("study run top-experts", {"answer.chosen[1]": "G10-447 G10-448"})
def study(row: Row) -> object:
    return row.select(run_study(row.subject, row.settings))
