"""Several systems, several changes for the worse, the fewest boxes, and what limits a plan."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from meshwright.base.errors import JobError, SystemSpecError
from meshwright.cost import training_activations
from meshwright.job.recipe import read_recipe
from meshwright.job.train import TrainJob
from meshwright.model.reader import read_model
from meshwright.scenarios import _training_boxes
from meshwright.scenarios._training_boxes import least_boxes
from meshwright.scenarios._training_limits import binding_limit, limits_of
from meshwright.scenarios._training_options import TrainOptions
from meshwright.scenarios.training import plan_train
from meshwright.scenarios.training_degradations import training_degradations
from meshwright.scenarios.training_summary import training_summary
from meshwright.scenarios.training_systems import plan_train_systems
from meshwright.system.system import read_system
from meshwright.workload.saved import NOT_MODELLED as KEPT_LEFT_OUT

_LAYOUT = {"zero": 3, "micro_batch": 1, "tp": 1, "cp": 1, "pp": 1, "dp_replicate": 1, "recompute": "none"}
_OPTIONS = TrainOptions(
    efficiency=0.4,
    input_wait=0.5,
    activation_budget=10 * 2**30,
    usable_memory=22 * 2**30,
    card_mtbf=337.07 * 86400,
    storage_write=7e9,
    layout=_LAYOUT,
)
_JOB = TrainJob(tokens=10**11, sequence=8192, global_batch=384, deadline=30 * 86400.0, reserve=5 * 86400.0)
_CHANGES = {
    "half PCIe": "system.scale_up.bandwidth=16 GB/s",
    "no prefetch": "options.prefetch=off",
    "variation": "options.straggler_sigma=2%",
}


@pytest.fixture(scope="module")
def model():
    return read_model("Qwen/Qwen3-8B")


@pytest.fixture(scope="module")
def four():
    return read_system("rtx4090-host x4")


@pytest.fixture(scope="module")
def six():
    return read_system("rtx4090-host x6")


def test_one_system_of_a_list_is_the_plan_of_that_system(model, six):
    assert plan_train_systems(model, (six,), _JOB, _OPTIONS) == plan_train(model, six, _JOB, _OPTIONS)


def test_the_order_of_systems_changes_no_number(model, four, six):
    one, other = (plan_train_systems(model, pair, _JOB, _OPTIONS) for pair in ((four, six), (six, four)))
    assert one.best == other.best
    assert one.candidates == other.candidates
    assert one.body["systems"] == tuple(reversed(other.body["systems"]))


def test_a_system_in_time_stands_before_a_cheaper_one_that_is_late(model, four, six):
    for objective in ("date", "cost", "gpu_hours"):
        plan = plan_train_systems(model, (four, six), _JOB, replace(_OPTIONS, objective=objective, price=1.0))
        assert plan.best.measures["system"] == six.id
        assert plan.verdict.answer == "yes"


def test_a_system_is_named_once(model, six):
    with pytest.raises(SystemSpecError, match="SYS013"):
        plan_train_systems(model, (six, six), _JOB, _OPTIONS)


def test_a_summary_has_the_numbers_of_the_plans(model, four, six):
    rows = training_summary(model, (four, six), _JOB, _OPTIONS)
    plans = [plan_train(model, system, _JOB, _OPTIONS) for system in (four, six)]
    assert [row.finish_s for row in rows] == [plan.best.measures["finish_s"] for plan in plans]
    assert [row.hosts * 8 for row in rows] == [row.devices for row in rows]
    assert [row.in_time for row in rows] == [False, True]


def test_every_combination_of_changes_is_told_once_and_mending_adds_up(model, six):
    rows = {row.changes: row for row in training_degradations(model, six, _JOB, _OPTIONS, _CHANGES)}
    assert len(rows) == 2 ** len(_CHANGES)
    for row in rows.values():
        for name, saved in row.mending_saves_s.items():
            rest = " + ".join(item for item in row.changes.split(" + ") if item != name) or "none"
            assert row.step_s - rows[rest].step_s == saved
            assert saved > 0


def test_no_change_for_the_worse_makes_a_run_end_sooner(model, six):
    rows = training_degradations(model, six, _JOB, _OPTIONS, _CHANGES)
    assert all(row.finish_s >= rows[0].finish_s for row in rows)
    assert rows[0].changes == "none"


@pytest.mark.parametrize("change", ["prefetch=off", "options.prefetch", "job.tokens=1B", "system=other"])
def test_what_is_no_change_is_refused(model, six, change):
    with pytest.raises(JobError, match="JOB028"):
        training_degradations(model, six, _JOB, _OPTIONS, {"odd": change})


@pytest.mark.parametrize("count", [0, 7])
def test_none_and_too_many_changes_are_refused(model, six, count):
    with pytest.raises(JobError, match="JOB028"):
        training_degradations(model, six, _JOB, _OPTIONS, {str(item): "options.nic=shared" for item in range(count)})


def test_the_efficiency_that_is_needed_is_just_enough(model, four):
    needed = plan_train(model, four, _JOB, _OPTIONS).body["limits"]["efficiency_needed"]
    for share, answer in ((needed * 0.9999, "no"), (needed * 1.0001, "yes")):
        assert plan_train(model, four, _JOB, replace(_OPTIONS, efficiency=share)).verdict.answer == answer


def test_the_step_limit_ends_at_the_deadline(model, six):
    plan = plan_train(model, six, _JOB, _OPTIONS)
    limits, best = plan.body["limits"], plan.best.measures
    step = limits["step_limit_s"] * plan.body["steps"] * (1 + best["overhead_fraction"])
    assert step + _JOB.reserve == pytest.approx(_JOB.deadline, rel=1e-12)
    assert limits["left_s"] == _JOB.deadline - best["finish_s"]


def test_the_step_without_overlap_is_that_of_prefetch_off(model, six):
    said = plan_train(model, six, _JOB, _OPTIONS).body["limits"]["step_without_overlap_s"]
    off = plan_train(model, six, _JOB, replace(_OPTIONS, prefetch="off")).best.measures["step"]["total_s"]
    assert said == pytest.approx(off, rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        ({}, "compute"),
        ({"efficiency": 0.3}, "compute"),
        ({"input_wait": 16.0}, "input"),
        ({"input_wait": 60.0}, "input"),
        ({"straggler_sigma": 0.2}, "stragglers"),
        ({"prefetch": "off", "nic": "shared"}, "communication"),
    ],
)
def test_the_limit_that_binds_is_named(model, six, changes, limit):
    plan = plan_train(model, six, _JOB, replace(_OPTIONS, **changes))
    assert plan.body["binding"]["limit"] == limit
    assert plan.body["binding"] == binding_limit(plan.best, limits_of(_JOB, _OPTIONS, plan.best))


def test_a_plan_that_no_single_part_would_save_is_limited_by_its_deadline(model, six):
    worse = replace(_OPTIONS, input_wait=14.0, prefetch="off", straggler_sigma=0.1)
    binding = plan_train(model, six, _JOB, worse).body["binding"]
    assert binding["limit"] == "deadline"
    assert "no part" in binding["text"]


def test_no_boxes_are_looked_for_where_what_no_layout_shards_is_larger_than_a_device(monkeypatch, model, six):
    def tried(*given):
        raise AssertionError(given)

    monkeypatch.setattr(_training_boxes, "training_table", tried)
    small = replace(six, accelerator=replace(six.accelerator, memory=2**30))
    assert least_boxes(model, small, _JOB, TrainOptions(workspace=2 * 2**30)) is None


def test_larger_memory_needs_fewer_boxes():
    mixture, box = read_model("Qwen/Qwen3-235B-A22B"), read_system("hgx-h100")
    job = TrainJob(tokens=10**12, sequence=4096, global_batch=512)
    found = []
    for layout in ({"tp": 8, "cp": 1, "zero": 3}, {"tp": 8, "cp": 1, "zero": 3, "recompute": "none"}):
        row = plan_train(mixture, box, job, TrainOptions(layout=layout)).body["systems"][0]
        found.append(row["least_boxes"])
    assert all(few <= many for few, many in pairwise(found))
    assert found[0] > 1


def test_a_plan_says_what_its_memory_leaves_out_and_at_which_rate_fp8_is_charged_where_there_is_none(model):
    options = TrainOptions(layout={"tp": 1, "cp": 1, "pp": 1, "zero": 3}, flips="none", runs=0, finalists=0, keep=1)
    job = replace(_JOB, recipe=read_recipe("fp8-adamw"))
    found = plan_train(model, read_system("hgx-a100"), job, options)
    assert {*training_activations.NOT_MODELLED, *KEPT_LEFT_OUT} <= {*found.not_modelled}
    assert any("no fp8 matrix rate" in note for note in found.notes)
    assert not any("fp8" in note for note in plan_train(model, read_system("hgx-h100"), job, options).notes)
