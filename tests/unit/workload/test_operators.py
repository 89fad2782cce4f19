"""The operator table and the messages of a step."""

from __future__ import annotations

import pytest

from meshwright.model.model import parameter_counts
from meshwright.model.reader import read_model
from meshwright.workload.activations import activations, logits
from meshwright.workload.attention import score_flops
from meshwright.workload.messages import boundary_bytes, messages, row_bytes
from meshwright.workload.operators import operators

DENSE, SPARSE = read_model("Qwen/Qwen3-32B"), read_model("Qwen/Qwen3-235B-A22B")


def test_a_dense_block_has_four_projections_attention_and_three_matrices():
    names = [item.name for item in operators(DENSE)]
    assert names == [
        *(f"self_attn.{name}_proj" for name in "qkvo"),
        "attention",
        *(f"mlp.{name}_proj" for name in ("gate", "up", "down")),
        "lm_head",
    ]
    assert {item.count for item in operators(DENSE)[:-1]} == {64}
    assert operators(DENSE)[0].shape == (8192, 5120)
    assert operators(DENSE)[4].shape is None


@pytest.mark.parametrize("model", [DENSE, SPARSE])
def test_operators_multiply_by_every_matrix_but_the_embedding(model):
    counts = parameter_counts(model)
    multiplied = sum(item.count * weight.elements for item in operators(model) for weight in item.weights)
    assert multiplied == counts["total"] - counts["embedding"] - counts["norms"]


def test_routed_operators_say_of_how_many_experts_each_row_visits_how_many():
    routed = [item for item in operators(SPARSE) if item.rows == "routed"]
    assert [item.name for item in routed] == [f"mlp.experts.{name}_proj" for name in ("gate", "up", "down")]
    assert {(item.experts, item.top_k) for item in routed} == {(128, 8)}


def test_a_layer_has_two_all_reduces_and_a_stage_boundary_one_send():
    found = messages(DENSE)
    assert [(item.operation, item.axis, item.count) for item in found] == [
        ("all_reduce", "tp", 64),
        ("all_reduce", "tp", 64),
        ("send_recv", "pp", 0),
    ]
    assert {item.per_row_bytes for item in found} == {10240}


def test_bytes_of_rows_and_of_a_boundary():
    """Chapter "Supernodes", sections 6.1.3 and 6.3.1: 8 KiB, 64 MiB; 16 KiB cross when both cards send the full row."""
    assert row_bytes(1, 4096, 2) == 8 * 2**10
    assert row_bytes(8192, 4096, 2) == 64 * 2**20
    assert boundary_bytes(1, 4096, 2, 2) == 16 * 2**10


def test_scores_are_four_flops_a_column_and_pair():
    assert score_flops(8192, 8192, 131065) == 4 * 8192 * 131065
    assert isinstance(score_flops(8192, 8192, 131065), int)


def test_activations_of_a_block_name_what_it_makes():
    made = {item.name: item.shape for item in activations(DENSE, 0, 2, 16)}
    assert made == {
        "hidden": (2, 16, 5120),
        "query": (2, 16, 8192),
        "mixed": (2, 16, 8192),
        "key": (2, 16, 1024),
        "value": (2, 16, 1024),
        "gate": (2, 16, 25600),
        "up": (2, 16, 25600),
    }
    assert {item.name for item in activations(SPARSE, 0, 2, 16)} == {"hidden", "query", "mixed", "key", "value"}
    assert logits(DENSE, 2, 1).shape == (2, 1, 151936)
