"""The computed reserve on shapes whose bytes can be said by hand, and its laws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshwright.cost.reserve import ReserveRule, reserve
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.model.reader import read_model

MODEL = read_model("Qwen/Qwen3-32B")
MIXTURE = read_model("Qwen/Qwen3-235B-A22B")
ROWS, KIB = 2048, 1024


def _reserve(model=MODEL, sessions=1, *, layout=None, **rule):
    layouts = table([layout or Layout()])
    found = reserve(model, layouts, ReserveRule(max_batched_tokens=ROWS, **rule), np.array([sessions]))
    return {name: int(getattr(found, name)[0]) for name in (*found.__dataclass_fields__, "total", "outside_pool")}


def test_activations_are_the_residual_and_every_tensor_of_the_widest_block():
    hidden, heads, keys, width = 5120, 64 * 128, 8 * 128, 25600
    block = hidden + 2 * heads + 2 * keys + 2 * width
    assert _reserve()["activations"] == ROWS * 2 * (hidden + block)


def test_tensor_parallelism_cuts_all_but_the_hidden_rows():
    hidden, heads, keys, width = 5120, 64 * 128, 8 * 128, 25600
    block = hidden + (2 * heads + 2 * keys + 2 * width) // 4
    assert _reserve(layout=Layout(tp=4), sampled_rows=1)["activations"] == ROWS * 2 * (hidden + block)


def test_rows_visit_top_k_experts_each():
    visits, expert = 8 * ROWS, 1536
    hidden, heads, keys = 4096, 64 * 128, 4 * 128
    whole = ROWS * 2 * (2 * hidden + 2 * heads + 2 * keys) + visits * 2 * (2 * expert + hidden)
    assert _reserve(MIXTURE)["activations"] == whole


def test_many_sampled_rows_make_the_logits_the_peak():
    vocab, hidden = 151936, 5120
    few, many = _reserve(sampled_rows=1)["activations"], _reserve(sampled_rows=ROWS)["activations"]
    assert few < many == ROWS * 2 * hidden + ROWS * vocab * (2 + 4)


def test_no_more_rows_are_sampled_than_are_batched():
    assert _reserve(sampled_rows=ROWS)["activations"] == _reserve(sampled_rows=10 * ROWS)["activations"]


def test_only_groups_of_more_than_one_rank_have_buffers():
    one = 16 * 4 * KIB * KIB
    found = [_reserve(layout=layout)["comm_buffers"] for layout in (Layout(), Layout(tp=2), Layout(tp=2, pp=2))]
    assert found == [0, one, 2 * one]
    assert _reserve(layout=Layout(tp=2), comm_channels=32, comm_buffer=KIB)["comm_buffers"] == 32 * KIB


def test_a_middle_stage_receives_and_sends_and_an_outer_one_does_one_of_both():
    row = ROWS * 5120 * 2
    assert [_reserve(layout=Layout(pp=pp))["in_flight"] for pp in (1, 2, 4, 8)] == [0, row, 2 * row, 2 * row]


def test_a_session_leaves_at_most_a_page_less_one_position_unused():
    token = 64 * 2 * 8 * 128 * 2
    assert _reserve(sessions=5)["padding"] == 5 * 15 * token
    assert _reserve(sessions=5, page_tokens=1)["padding"] == 0
    assert _reserve(sessions=5, layout=Layout(tp=4))["padding"] == 5 * 15 * token // 4


def test_a_vocabulary_that_is_no_multiple_is_padded_in_embedding_and_head():
    odd = replace(MODEL, vocab=151_937)
    row = 5120 * 2
    assert _reserve(odd, sessions=0)["padding"] == 2 * 63 * row
    assert _reserve(odd, sessions=0, layout=Layout(pp=2))["padding"] == 63 * row
    assert _reserve(replace(odd, tied=True), sessions=0)["padding"] == 63 * row


def test_the_items_add_up_and_only_padding_lies_inside_weights_and_pages():
    found = _reserve(sessions=3, layout=Layout(tp=4, pp=4))
    items = [found[name] for name in ("comm_buffers", "activations", "workspace", "padding", "in_flight")]
    assert all(items)
    assert found["total"] == sum(items) == found["outside_pool"] + found["padding"]


@pytest.mark.parametrize("model", [MODEL, MIXTURE])
def test_columns_are_the_rows_one_by_one(model):
    layouts = [Layout(tp=tp, pp=pp, etp=tp if model is MIXTURE else 1) for tp in (1, 2, 4, 8) for pp in (1, 2, 3)]
    sessions = np.arange(1, len(layouts) + 1)
    rule = ReserveRule()
    whole = reserve(model, table(layouts), rule, sessions)
    alone = [reserve(model, table([item]), rule, sessions[row : row + 1]) for row, item in enumerate(layouts)]
    assert whole.total.tolist() == [int(item.total[0]) for item in alone]
