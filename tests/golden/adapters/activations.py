"""Activations of training: inputs of matrix products kept, or made again from what is kept anyway."""

from __future__ import annotations

from meshwright.sweep.study import run_study
from tests.golden.context import Row
from tests.golden.registry import answers


@answers(
    "study run recompute-products",
    {
        "answer.gated_product_bytes": "G10-105",
        "answer.rebuilt_multiplications": "G10-106",
        "answer.norm_output_bytes": "G10-107",
        "answer.layer.avoided_bytes": "G10-108",
        "answer.stage.avoided_bytes": "G10-109 G10-110",
        "answer.layer.product_inputs_bytes": "G10-111",
        "answer.attention_inputs_bytes": "G10-112",
        "answer.stage.product_inputs_bytes": "G10-113 G10-115",
        "answer.stage.kept_inputs_bytes": "G10-114 G10-116",
        "answer.one_by_one_bytes": "G10-117",
        "answer.waiting_avoided_bytes": "G10-118 G10-119",
    },
)
def studied(row: Row) -> object:
    return row.select(run_study(row.subject, row.settings))
