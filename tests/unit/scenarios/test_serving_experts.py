"""Copies of attention and routings in a serving plan, through the scenario itself."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from meshwright.base.errors import JobError, LayoutError, ModelError
from meshwright.job.routing import read_expert_reads, read_token_routing
from meshwright.job.serve import ServeJob
from meshwright.job.train import TrainJob
from meshwright.model.reader import read_model
from meshwright.scenarios._engine_pool import EngineOptions
from meshwright.scenarios._training_options import TrainOptions
from meshwright.scenarios.serving import ServeOptions, plan_serve
from meshwright.scenarios.training import plan_train
from meshwright.system.system import read_system

MODEL, BOX = read_model("tiny-qwen3-moe"), read_system("hgx-h100")
JOB = ServeJob(sessions=64, context=512, new_tokens=8, concurrency=64)
COPIES = {"dp_replicate": 8, "tp": 1, "pp": 1, "ep": 8}


def planned(job=JOB, **options):
    return plan_serve(MODEL, BOX, job, ServeOptions(flips="none", **options))


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """Layer 0 chooses experts 0 and 1, the others 6 and 7."""
    path = tmp_path_factory.mktemp("trace") / "trace.parquet"
    rows = [(layer, token, place + 6 * (layer > 0)) for layer in range(4) for token in range(8) for place in (0, 1)]
    layer, token, expert = zip(*rows, strict=True)
    pq.write_table(pa.table({"layer": layer, "token": token, "expert": expert}), path)
    return str(path)


def test_one_copy_of_attention_is_the_plan_as_it_was_and_any_is_both():
    one, several, both = (planned(attention=way) for way in ("replicated", "data_parallel", "any"))
    ids = [{item.id for item in result.candidates} for result in (one, several, both)]
    assert ids[0] | ids[1] == ids[2]
    assert not ids[0] & ids[1]
    assert {item.layout["dp_replicate"] for item in one.candidates} == {1}
    own = {item.id: item.measures["tpot_s"] for item in one.candidates}
    assert own.items() <= {item.id: item.measures["tpot_s"] for item in both.candidates}.items()


def test_every_row_of_a_copy_of_attention_and_of_the_experts_is_told():
    found = planned(layout={**COPIES, "attention": "data_parallel"}).best
    assert found is not None
    assert found.measures["batch"] == 64
    exchanged = {item["after"]: item for item in found.measures["groups"]}
    assert set(exchanged) == {"router", "experts"}
    for item in exchanged.values():
        assert (item["operation"], item["axis"], item["ranks"]) == ("all_to_all", "ep", 8)
        assert item["message_bytes"] == 8 * MODEL.hidden * 2  # of the eight sessions of a copy
        assert item["calls_per_step"] == MODEL.layers


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_what_an_engine_takes_of_copies_shares_all_experts_or_none(engine):
    plan = planned(attention="any", engine=EngineOptions(name=engine))
    found = [item for item in plan.candidates if item.layout["dp_replicate"] > 1]
    taken = [item.layout for item in found if item.excluded is None]
    assert taken
    for layout in taken:
        ranks = layout["dp_replicate"] * layout["tp"]
        assert layout["ep"] * layout["etp"] == ranks
        assert engine == "sglang" or layout["ep"] in {1, ranks}


def test_a_recorded_trace_reads_two_experts_and_one_rank_gets_all_rows(trace):
    reads = read_expert_reads(trace)
    asked = {"layout": {**COPIES, "ep": 4, "attention": "data_parallel"}, "dedup": "none"}
    hot, even = (planned(expert_reads=way, **asked).best for way in (reads, "expected"))
    assert hot is not None
    assert even is not None
    whole = pytest.approx(even.measures["weight_bytes_per_step"], rel=1e-6)  # all of a group's two
    assert hot.measures["weight_bytes_per_step"] == whole
    assert hot.measures["flops_per_step"] > even.measures["flops_per_step"]
    assert hot.measures["exchange_time_s"] > even.measures["exchange_time_s"]


def test_a_recorded_trace_trains_on_the_rank_that_gets_all_rows(trace):
    job = TrainJob(tokens=10**6, sequence=512, global_batch=32)
    layout = {"dp_shard": 8, "ep": 4, "tp": 1, "pp": 1, "cp": 1, "zero": 1, "recompute": "none", "micro_batch": 1}
    options = TrainOptions(routing=read_token_routing(trace), flips="none", runs=0, finalists=0, layout=layout)
    result = plan_train(MODEL, BOX, job, options)
    assert result.body["experts"]["busiest_over_even"] == pytest.approx(4.0)
    assert not any(text.startswith(("ep: skewed", "uneven")) for text in result.not_modelled)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"expert_reads": read_expert_reads("counts:9x1")}, JobError),
        ({"dispatch": "int3"}, ModelError),
        ({"layout": {"dp_replicate": 16, "tp": 1, "pp": 1}}, LayoutError),
        ({"layout": {"dp_replicate": 8, "tp": 1, "pp": 1, "ep": 16}, "attention": "data_parallel"}, LayoutError),
    ],
)
def test_what_no_plan_can_have_is_refused(options, error):
    with pytest.raises(error):
        planned(**options)
