import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from meshwright.base.errors import JobError, LayoutError
from meshwright.base.result import as_json
from meshwright.model.reader import read_model
from meshwright.scenarios.experts import ExpertsOptions, experts
from meshwright.system.system import read_system
from meshwright.workload.messages import messages

MODEL = read_model("tiny-qwen3-moe")
WHOLE = read_model("Qwen/Qwen3-235B-A22B")
LARGE = replace(WHOLE, groups=(replace(WHOLE.groups[0], count=2),))
BOX, BOXES = read_system("hgx-h100"), read_system("hgx-h100 x4")


def asked(model=MODEL, system=BOX, **given):
    return as_json(experts(model, system, ExpertsOptions(**{"tokens": 64, **given})))


@pytest.mark.parametrize("routing", ["uniform", "even", "zipf:1.2", "counts:2x5,2x1"])
@pytest.mark.parametrize("factor", [None, 0.5, 1.0, 1.25])
def test_loads_add_up_to_tokens_times_k_and_what_runs_to_that_minus_drops(routing, factor):
    found = asked(ep=2, routing=routing, capacity_factor=factor, replicas=2)
    for row in found["layers"]:
        choices = 64 * found["top_k"]
        assert sum(row["expert_rows"]) == sum(row["group_rows"]) == choices
        if factor is None:
            assert (row["dropped"], row["padding"], row["capacity_rows"]) == (0, 0, None)
        else:
            slots = found["slots_per_group"] * 2
            assert slots * row["capacity_rows"] == choices - row["dropped"] + row["padding"]
            assert row["run_rows"] == row["capacity_rows"] * found["slots_per_group"]


def test_the_least_capacity_factor_drops_nothing_and_less_does():
    for row in asked(ep=2, routing="zipf:1")["layers"]:
        factor = row["least_capacity_factor"]
        both = [asked(ep=2, routing="zipf:1", capacity_factor=value) for value in (factor, factor * 0.999)]
        assert both[0]["layers"][row["layer"]]["dropped"] == 0 < both[1]["layers"][row["layer"]]["dropped"]


@pytest.mark.parametrize("placement", ["greedy", "exact"])
def test_a_placement_that_knows_the_loads_is_never_worse_than_round_robin(placement):
    for seed in range(5):
        for row in asked(LARGE, BOX, ep=8, routing="zipf:0.8", placement=placement, seed=seed)["layers"]:
            assert row["bound_rows"] <= row["busiest_rows"] <= min(row["round_robin_rows"], row["contiguous_rows"])


def test_hot_experts_that_are_spread_are_read_as_much_and_run_in_equal_parts():
    """Chapter "Supernodes", section 6.3.2: all 64 tokens choose the same eight experts."""
    heaped, spread = (
        asked(LARGE, ep=4, routing="counts:8x64", placement=name)["layers"][0] for name in ("contiguous", "greedy")
    )
    assert (heaped["busiest_rows"], spread["busiest_rows"]) == (512, 128)
    assert heaped["weight_bytes"] == spread["weight_bytes"] == 288 * 2**20


def test_a_row_a_rank_is_never_more_than_a_row_a_choice_and_a_box_is_crossed_less():
    found = {row["id"]: row for row in asked(LARGE, BOXES, tokens=256, ep=32)["exchange"]}
    assert found["rank"]["dispatch_bytes"] < found["none"]["dispatch_bytes"]
    assert found["node"]["between_bytes"] < found["rank"]["between_bytes"]
    assert found["node"]["dispatch_bytes"] >= found["rank"]["dispatch_bytes"]


def test_fp8_halves_the_rows_sent_but_for_their_scales_and_leaves_those_returned():
    plain, narrow = (asked(LARGE, ep=8, dispatch=name) for name in ("plain", "fp8"))
    assert (plain["dispatch_row_bytes"], narrow["dispatch_row_bytes"]) == (8192, 4096 + 4096 // 128 * 4)
    assert plain["exchange"][0]["combine_bytes"] == narrow["exchange"][0]["combine_bytes"]


def test_one_group_sends_nothing():
    found = asked()
    assert found["exchange"] == found["merges"] == []
    assert found["layers"][0]["dispatch_s"] == found["layers"][0]["combine_s"] == 0


def test_replicated_attention_sums_in_three_steps_and_sends_nothing():
    """Chapter "Supernodes", section 6.3.1: TP2 x EP4, FP32 rows of 16 KiB: 16 + 16 + 24 KiB a card."""
    found = asked(LARGE, tokens=1, ep=4, etp=2, attention="replicated", combine="fp32")
    assert [(row["axis"], row["ranks"], row["sent_bytes"]) for row in found["merges"]] == [
        ("tp", 2, 16384),
        ("etp", 2, 16384),
        ("ep", 4, 24576),
    ]
    assert (found["merge_bytes"], found["all_merge_bytes"]) == (56 * 1024, 448 * 1024)
    assert found["exchange"] == []
    assert found["inputs"]["layout"]["dp_replicate"] == 4


def test_a_pool_of_experts_has_no_local_rows():
    beside = asked(LARGE, BOXES, tokens=256, ep=8, attention="pool", attention_ranks=8)
    mixed = asked(LARGE, BOXES, tokens=256, ep=8)
    assert beside["exchange"][0]["dispatch_rows"] == 256 * 8 * 2
    assert mixed["exchange"][0]["dispatch_rows"] < beside["exchange"][0]["dispatch_rows"]


def test_experts_that_work_in_columns_of_their_own_are_sent_these():
    """Chapter "Supernodes", section 6.3.3: projected before it is sent, a row of Kimi K3 is 7 KiB and not 14."""
    model = read_model("moonshotai/Kimi-K3")
    found = experts(model, BOXES, ExpertsOptions(tokens=16, ep=16)).body
    assert (found["dispatch_row_bytes"], found["combine_row_bytes"]) == (7 * 1024, 7 * 1024)
    sent = {item.where: item.per_row_bytes for item in messages(model) if item.operation == "all_to_all"}
    assert sent == {"dealt": 7 * 1024}


def test_ranks_that_cut_an_expert_gather_its_rows_and_add_up_its_outputs():
    found = asked(LARGE, tokens=256, ep=4, etp=2)
    assert found["layers"][0]["etp_s"] > 0
    assert asked(LARGE, tokens=256, ep=4)["layers"][0]["etp_s"] == 0


def test_a_trace_is_answered_as_recorded(tmp_path):
    path = tmp_path / "trace.parquet"
    rows = [(layer, token, (token + layer + place) % 4) for layer in (0, 1) for token in range(6) for place in (0, 1)]
    layer, token, expert = zip(*rows, strict=True)
    pq.write_table(pa.table({"layer": layer, "token": token, "expert": expert}), path)
    found = asked(ep=2, tokens=4, routing=str(path))
    assert [row["expert_rows"] for row in found["layers"]] == [[2, 2, 2, 2, 0, 0, 0, 0]] * 2
    assert found["basis"]["layers[].expert_rows"].startswith("measured")
    assert found["inputs"]["options"]["routing"] == "trace.parquet"
    assert str(tmp_path) not in json.dumps(found)
    with pytest.raises(JobError, match="JOB128"):
        asked(tokens=7, routing=str(path))


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"tokens": 0}, "JOB124"),
        ({"replicas": -1}, "JOB124"),
        ({"capacity_factor": 0.0}, "JOB124"),
        ({"tokens": 2**24, "routing": "uniform"}, "JOB125"),
        ({"attention_ranks": 2}, "LAY043"),
        ({"attention": "pool"}, "LAY043"),
        ({"attention": "pool", "attention_ranks": 8, "ep": 2}, "LAY043"),
        ({"ep": 2, "tp": 3}, "LAY043"),
        ({"ep": 2, "replicas": 1}, "LAY040"),
        ({"ep": 3}, "LAY007"),
        ({"ep": 4, "etp": 4}, "LAY043"),
        ({"attention": "pool", "attention_ranks": 0}, "JOB124"),
    ],
)
def test_what_cannot_be_is_refused(given, code):
    model = LARGE if code == "JOB125" else MODEL
    with pytest.raises((JobError, LayoutError)) as raised:
        asked(model, **given)
    assert raised.value.code == code


@pytest.mark.parametrize(
    ("given", "axis", "nearest"),
    [({"ep": 3}, "ep", 2), ({"ep": 2, "etp": 3}, "etp", 2), ({"ep": 8, "etp": 2, "tp": 16}, "tp", 8)],
)
def test_the_fix_of_a_rule_is_an_option_of_this_question_and_keeps_it(given, axis, nearest):
    with pytest.raises(LayoutError) as raised:
        asked(system=BOXES, **given)
    assert raised.value.fix == f"--{axis} {nearest}"
    assert asked(system=BOXES, **{**given, axis: nearest})["verdict"]["answer"] == "yes"


def test_where_no_one_degree_mends_a_layout_the_fix_says_so():
    with pytest.raises(LayoutError) as raised:
        asked(ep=3, etp=1, tp=3)
    assert "change several" in raised.value.fix


def test_experts_that_are_chosen_and_bytes_that_are_read_are_told_apart_where_they_differ():
    def told(**given):
        return asked(routing="even", ep=2, **given)["verdict"]["text"]

    assert "8.0 experts a layer are read" in told()
    assert "8.0 experts a layer are chosen, 0 B are read" in told(capacity_factor=0.001)
    assert "1.0 experts a layer are chosen" not in told(tokens=1)


def test_mixtures_that_differ_have_no_one_answer():
    block = MODEL.groups[0].block
    other = replace(block, feed_forward=replace(block.feed_forward, experts=4))
    with pytest.raises(JobError, match="JOB140"):
        asked(replace(MODEL, groups=(MODEL.groups[0], replace(MODEL.groups[0], block=other))))


def test_a_dense_model_has_no_experts():
    with pytest.raises(JobError, match="JOB007"):
        asked(read_model("tiny-qwen3"))


def test_a_large_batch_is_drawn_for_as_many_layers_as_take_seconds(monkeypatch):
    monkeypatch.setattr("meshwright.scenarios.experts.DRAWN_AT_MOST", 64 * 128 * 3)
    result = experts(WHOLE, BOX, ExpertsOptions(tokens=64, ep=8))
    assert result.body["layer_count"] == 3
    assert any("3 of 94 layers with experts are drawn" in line for line in result.warnings)
    assert experts(WHOLE, BOX, ExpertsOptions(tokens=64, ep=8, routing="even")).body["layer_count"] == 94
