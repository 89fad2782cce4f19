"""One layer's experts worked out on paper: four tokens that choose two of eight experts, and every number of it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from meshwright.base.result import as_json
from meshwright.model.reader import read_model
from meshwright.scenarios.experts import ExpertsOptions, experts
from meshwright.system.system import read_system

MODEL, BOX = read_model("tiny-qwen3-moe"), read_system("hgx-h100")
HOT = ((0, 1),) * 4
"""Every token chooses the first two experts."""


@pytest.fixture
def asked(tmp_path):
    def ask(choices, **given):
        path = tmp_path / "trace.parquet"
        rows = [(token, expert) for token, chosen in enumerate(choices) for expert in chosen]
        token, expert = zip(*rows, strict=True)
        pq.write_table(pa.table({"token": token, "expert": expert}), path)
        options = {"tokens": len(choices), "routing": str(path), "placement": "contiguous", **given}
        return as_json(experts(MODEL, BOX, ExpertsOptions(**options)))

    return ask


def sent(found):
    return {row["id"]: row["dispatch_rows"] / found["layer_count"] for row in found["exchange"]}


def test_rows_leave_their_rank_once_a_choice_or_once_a_rank(asked):
    """Experts 0 to 3 lie on rank 0, the others on rank 1; tokens 0 and 1 stand on rank 0."""
    found = asked(((4, 5), (0, 6), (0, 1), (4, 7)), ep=2)
    assert sent(found) == {"none": 2 + 1 + 2, "rank": 1 + 1 + 1, "node": 1 + 1 + 1}
    layer = found["layers"][0]
    assert layer["expert_rows"] == [2, 1, 0, 0, 2, 1, 1, 1]
    assert layer["group_rows"] == [3, 5]
    assert (layer["distinct_experts"], layer["even_over_read"]) == (6, 8 / 6)


def test_an_even_batch_reads_no_more_experts_than_it_has_choices(asked):
    """Four choices of two experts: dealt evenly they would read four of the eight."""
    assert asked(((0, 1), (0, 1)))["layers"][0]["even_over_read"] == 4 / 2


def test_a_token_goes_to_the_rank_of_a_group_that_stands_as_its_own_does(asked):
    """Two ranks cut each expert: token t stands on rank t, and token 3 has its experts in its own group."""
    found = asked(((4, 5), (6, 7), (0, 1), (4, 7)), ep=2, etp=2)
    assert sent(found)["rank"] == 3
    whole = asked(((4, 5), (6, 7), (0, 1), (4, 7)), ep=2)
    assert found["weight_bytes"] == whole["weight_bytes"]


def test_ranks_that_cut_an_expert_gather_rows_in_one_format_and_add_up_in_another(asked):
    plain, wide = (asked(HOT, ep=2, etp=2, combine=name)["layers"][0]["etp_s"] for name in ("plain", "fp32"))
    assert 0 < plain < wide


def test_the_rank_that_sends_most_is_none_that_receives_most(asked):
    """Every token is on a rank of its own, and all choose the two experts of rank 0."""
    found = asked(HOT, ep=4)
    rows = {row["id"]: row for row in found["exchange"]}
    size = found["dispatch_row_bytes"] * found["layer_count"]
    assert (rows["none"]["dispatch_bytes"], rows["none"]["most_sent_bytes"]) == (6 * size, 2 * size)
    assert (rows["rank"]["dispatch_bytes"], rows["rank"]["most_sent_bytes"]) == (3 * size, size)


def test_a_placement_gains_over_experts_in_order(asked):
    layer = asked(HOT, ep=4, placement="greedy")["layers"][0]
    assert (layer["contiguous_rows"], layer["round_robin_rows"], layer["busiest_rows"]) == (8, 4, 4)
    assert layer["gain_fraction"] == 0.5


def test_a_capacity_drops_the_later_choices_and_fills_up_every_expert(asked):
    """floor(2 x 4 x 2 / 8) = 2 rows of each of eight experts: 4 of 8 choices run, beside 12 rows of zeros."""
    found = asked(HOT, ep=2, capacity_factor=2.0)
    layer = found["layers"][0]
    assert (layer["capacity_rows"], layer["dropped"], layer["padding"]) == (2, 4, 12)
    assert (layer["dropped_fraction"], layer["padding_fraction"]) == (0.5, 0.75)
    assert layer["skipped_tokens"] == 2
    assert (layer["distinct_experts"], layer["slots_read"], layer["run_rows"]) == (2, 8, 8)


def test_a_token_of_which_one_choice_runs_is_not_skipped(asked):
    found = asked(((0, 1), (0, 2), (0, 3), (0, 4)), capacity_factor=1.0)
    assert found["layers"][0]["dropped"] == 3
    assert found["layers"][0]["skipped_tokens"] == 0


def test_rows_in_fp8_take_less_time_out_than_plain_ones_back():
    options = ExpertsOptions(tokens=4096, ep=8, dispatch="fp8")
    layer = as_json(experts(MODEL, BOX, options))["layers"][0]
    assert 0 < layer["dispatch_s"] < layer["combine_s"]


def test_the_whole_is_the_sum_of_its_layers():
    found = as_json(experts(MODEL, BOX, ExpertsOptions(tokens=2, ep=2)))
    layers = found["layers"]
    assert len({row["weight_bytes"] for row in layers}) > 1
    for name in ("weight_bytes", "time_s"):
        assert found[name] == pytest.approx(sum(row[name] for row in layers), rel=1e-12)
    for row in layers:
        parts = [row[name] for name in ("dispatch_s", "etp_s", "experts_s", "combine_s")]
        assert row["time_s"] == pytest.approx(sum(parts), rel=1e-12)
