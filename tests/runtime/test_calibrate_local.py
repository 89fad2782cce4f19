"""`calibrate local` on four real processes: real steps lie in the interval that is stated for them; nobody is left."""

from __future__ import annotations

import os
import time

import pytest
import torch

from meshwright.base.errors import RunError
from meshwright.base.result import as_json
from meshwright.layout.layout import Layout
from meshwright.model.reader import read_arithmetic, read_model
from meshwright.runtime.loop.trainer import Batch
from meshwright.runtime.train import check_devices
from meshwright.verify.calibrate import calibrate_local
from meshwright.verify.local.cases import COLLECTIVES, KINDS, LocalOptions
from meshwright.verify.local.runs import RealRun

_LAYOUTS = ({"dp_shard": 4, "zero": 2}, {"tp": 2, "pp": 2})
_PATIENCE_S = 300.0


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """As ranks have it: a parent that forks must not hold threads of its own."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def answer():
    """Predicted and measured side by side, in one random order; once more where the load changed meanwhile."""
    model, arithmetic = read_model("tiny-qwen3"), read_arithmetic("tiny-qwen3")
    runs = [
        RealRun(
            model=model,
            arithmetic=arithmetic,
            layout=Layout(attention="data_parallel", **fields),
            batch=Batch(global_batch=8, sequence=32),
        )
        for fields in _LAYOUTS
    ]
    for seed in range(2):
        result, found = calibrate_local(LocalOptions(nproc=4, depth="quick", seed=seed, timeout=_PATIENCE_S), runs)
        if result.verdict.answer == "yes":
            break
    return result, found


def test_the_step_of_a_real_run_of_four_processes_stands_beside_its_interval(answer):
    result, _ = answer
    checks = result.body["checks"]
    assert [row.id for row in checks] == [Layout(**fields).id for fields in _LAYOUTS]
    for row in checks:
        assert 0 < row.predicted_low_s <= row.predicted_s <= row.predicted_high_s
        assert row.time_s > 0
    inside = all(row.predicted_low_s <= row.time_s <= row.predicted_high_s for row in checks)
    assert result.verdict.answer == ("yes" if inside else "no")


@pytest.mark.campaign
def test_the_step_of_a_real_run_of_four_processes_lies_in_its_interval(answer, record_property):
    """Of the campaign: a machine whose load changes while it is measured is beyond any interval."""
    result, _ = answer
    record_property("cases", len(_LAYOUTS))
    for row in result.body["checks"]:
        assert row.predicted_low_s <= row.time_s <= row.predicted_high_s, row
        assert row.predicted_high_s < 20 * row.predicted_low_s, "an interval that says something"


def test_every_figure_has_its_spread_and_count(answer):
    result, found = answer
    for row in result.body["rows"]:
        assert 0 <= row.low <= row.high
        assert row.count >= 3
    assert {(line.operation, line.ranks) for line in found.exchange} == {
        (name, n) for name in COLLECTIVES for n in (2, 4)
    }
    assert [item.kind for item in found.overhead] == list(KINDS)
    assert all(line.bandwidth > 0 for line in found.exchange)


def test_both_ends_of_an_overlap_are_inside_its_finish(answer):
    result, _ = answer
    (row,) = result.body["overlaps"]
    assert row.message_bytes == 4 * 2**20
    assert row.finish_s >= max(row.communication_together_s, row.computation_together_s)
    assert row.saving_s == pytest.approx(row.communication_alone_s + row.computation_alone_s - row.finish_s)


def test_the_answer_holds_no_host_no_path_and_no_clock(answer):
    text = str(as_json(answer[0]))
    assert os.uname().nodename not in text
    assert time.strftime("%Y-%m-%d") not in text
    assert "/" + "tmp" not in text


# ------------------------------------------------------------------------------------------------------------ processes


def test_cuda_that_is_not_there_is_refused():
    with pytest.raises(RunError, match="RUN002"):
        check_devices("cuda", torch.cuda.device_count() + 1)
