"""What measured steps say of a network, and what every rank holds that builds the whole model before it is sharded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meshwright.base.errors import UserError
from meshwright.job.recipe import Recipe, read_recipe
from meshwright.job.train import TrainJob
from meshwright.model.model import parameter_counts
from meshwright.model.reader import read_model
from meshwright.scenarios._initialisation import initialisation
from meshwright.scenarios._training_options import TrainOptions
from meshwright.scenarios.slow_exchange import slow_exchange
from meshwright.scenarios.training import plan_train
from meshwright.system.system import read_system

_MODEL = "Qwen/Qwen2.5-7B"
_BOXES = "hgx-a800 x12"


def _asked(**changes):
    given = {
        "model": read_model(_MODEL),
        "system": read_system(_BOXES),
        "recipe": Recipe(),
        "zero": 3,
        "sequence": 4096,
        "micro_batch": 1,
        "micro_batches": 1,
        "alone_devices": 8,
        "alone_s": 2.0,
        "step_s": 12.0,
    }
    return slow_exchange(**(given | changes))


def test_what_is_sent_and_expected_is_that_of_the_plan_of_the_same_layout():
    job = TrainJob(tokens=10**9, sequence=4096, global_batch=96)
    layout = {"dp_shard": 96, "zero": 3, "micro_batch": 1, "recompute": "none"}
    plan = plan_train(read_model(_MODEL), read_system(_BOXES), job, TrainOptions(layout=layout))
    measures = plan.candidates[0].measures
    found = _asked()
    assert (found.sent_bytes, found.expected_s) == (measures["sent_bytes"], measures["channel_s"])


def test_the_implied_rate_is_what_is_sent_over_what_is_waited():
    found = _asked()
    assert found.implied_bytes_per_s == pytest.approx(found.sent_bytes / 10.0)
    assert found.rate_share == pytest.approx(found.expected_s / 10.0)


def test_the_diagnosis_follows_the_share_of_the_datasheet_rate():
    expected = _asked().expected_s
    for share, diagnosis in ((0.6, "as_the_network_allows"), (0.3, "slow_network"), (0.05, "network_not_used")):
        assert _asked(step_s=2.0 + expected / share).diagnosis == diagnosis


def test_a_network_of_a_hundredth_of_the_rate_is_itself_used():
    system = read_system(_BOXES)
    slow = replace(system.scale_out, bandwidth=system.scale_out.bandwidth / 100)
    assert _asked(system=replace(system, scale_out=slow)).diagnosis == "as_the_network_allows"


def test_a_step_as_long_as_alone_implies_no_rate():
    found = _asked(step_s=2.0)
    assert (found.rate_share, found.implied_bytes_per_s, found.speed_up) == (None, None, 12.0)


def test_times_of_nothing_are_refused():
    with pytest.raises(UserError, match="JOB085"):
        _asked(alone_s=0.0)
    with pytest.raises(UserError, match="JOB001"):
        _asked(alone_devices=97)


def test_a_rank_that_builds_the_whole_model_holds_four_bytes_a_parameter_whatever_the_layout():
    model = read_model("meta-llama/Llama-2-7b-hf")
    job = TrainJob(tokens=10**6, sequence=512, global_batch=8)
    parameters = parameter_counts(model)["total"]
    found = initialisation(model, job, 24 * 10**9)
    assert (found.fp32_bytes, found.parameters_bytes) == (4 * parameters, 2 * parameters)
    assert (found.fp32_fits, found.parameters_fit) == (False, True)
    single = initialisation(model, replace(job, recipe=read_recipe("fsdp2-adamw")), 24 * 10**9)
    assert (single.parameters_bytes, single.parameters_fit) == (4 * parameters, False)


def test_fused_norms_and_gated_units_keep_less_of_a_plan():
    job = TrainJob(tokens=10**9, sequence=4096, global_batch=8)
    layout = {"dp_shard": 8, "zero": 3, "micro_batch": 1, "recompute": "none"}
    kept = [
        plan_train(read_model(_MODEL), read_system("hgx-a800"), job, TrainOptions(layout=layout, elementwise=word))
        .candidates[0]
        .memory["activations_bytes"]
        for word in ("eager", "fused")
    ]
    assert 0.5 * kept[0] < kept[1] < 0.9 * kept[0]
