"""The finalists of a training plan: their simulated step beside the estimate, and what it decides."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from meshwright.base.errors import JobError
from meshwright.base.units import Bytes, Seconds, Share
from meshwright.cost.training_state import state_columns
from meshwright.job.train import TrainJob
from meshwright.layout.layout import Layout, read_fixed
from meshwright.layout.layouts import table
from meshwright.model.reader import read_model
from meshwright.scenarios import _training_simulated
from meshwright.scenarios._training_options import TrainOptions, checked_options
from meshwright.scenarios._training_simulated import step_plan
from meshwright.scenarios.training import plan_train
from meshwright.system.system import read_systems

DAY = 86400
QWEN = read_model("Qwen/Qwen3-8B")
CHAPTER = TrainJob(tokens=10**11, sequence=8192, global_batch=384, deadline=Seconds(30 * DAY), reserve=Seconds(5 * DAY))
KNOWN = TrainOptions(
    efficiency=Share(0.4),
    input_wait=Seconds(0.5),
    activation_budget=Bytes(10 * 2**30),
    usable_memory=Bytes(22 * 2**30),
    layout=read_fixed("dp_shard=48,zero=3,micro_batch=1,recompute=full"),
)
TINY = read_model("tiny-qwen3")


def cards(count):
    return read_systems(f"rtx4090-host x{count // 8}")[0]


def test_the_chapters_step_is_simulated_as_estimated_but_for_the_exchanges_of_the_first_layer():
    result = plan_train(QWEN, cards(48), CHAPTER, KNOWN)
    assert result.best is not None
    measures = result.best.measures
    rows = table([layout_of(result.best)])
    state = state_columns(QWEN, rows, CHAPTER.recipe, shards=KNOWN.shards)
    plan, _ = step_plan(QWEN, cards(48), CHAPTER, KNOWN, rows, np.array([8]), state)
    simulated = measures["simulated"]
    layer = plan.modules.gather_each_s[0] + plan.modules.reduce_each_s[0]
    assert round(measures["step"]["total_s"], 2) == 52.80
    assert simulated["step_s"] - measures["step"]["total_s"] == pytest.approx(layer, rel=1e-6)
    assert simulated["over_estimate"] == pytest.approx(layer / measures["step"]["total_s"], rel=1e-6)
    assert abs(simulated["over_estimate"]) < 0.0005
    assert simulated["compute_s"] == pytest.approx(measures["step"]["compute_s"])


def layout_of(candidate):
    return Layout(**{item.name: candidate.layout[item.name] for item in fields(Layout)})


def test_a_budget_decides_whether_a_finalist_fits_and_its_peak_is_told():
    result = plan_train(QWEN, cards(48), CHAPTER, KNOWN)
    assert result.best is not None
    assert result.best.fits
    assert result.best.measures["simulated"]["peak_bytes"] > result.best.memory["capacity_bytes"]
    alive = result.best.measures["peak_alive"]
    assert sum(item["bytes"] for item in alive) == result.best.measures["simulated"]["peak_bytes"]
    assert [item["bytes"] for item in alive] == sorted((item["bytes"] for item in alive), reverse=True)


def test_a_simulated_peak_below_the_bound_is_told_and_the_bound_decides():
    """A small model with room to spare, so that memory between peak and bound is memory that a device has."""
    job = TrainJob(tokens=10**9, sequence=512, global_batch=64)
    fixed = "tp=1,cp=1,pp=1,dp_shard=8,zero=3,micro_batch=2,recompute=none,offload=none"
    options = TrainOptions(efficiency=Share(0.4), layout=read_fixed(fixed))
    system = read_systems("dgx-h100 x1")[0]
    first = plan_train(TINY, system, job, options).candidates[0]
    peak, bound = first.measures["simulated"]["peak_bytes"], first.memory["per_rank_bytes"]
    assert peak < bound
    between = plan_train(TINY, system, job, replace(options, usable_memory=Bytes((peak + bound) // 2)))
    assert between.verdict.answer == "no"
    assert any("may fit: a simulated peak of" in text for text in between.warnings)
    below = plan_train(TINY, system, job, replace(options, usable_memory=Bytes(peak - 1)))
    assert below.verdict.answer == "no"
    assert not any("a simulated peak of" in text for text in below.warnings)
    assert below.candidates[0].excluded is not None
    assert below.candidates[0].excluded.code == "LAY020"


def test_a_simulated_peak_above_the_memory_is_a_veto(monkeypatch):
    job = TrainJob(tokens=10**9, sequence=512, global_batch=64)
    system, options = read_systems("dgx-h100 x1")[0], TrainOptions(efficiency=Share(0.4), layout=read_fixed("zero=1"))
    first = plan_train(TINY, system, job, options).candidates[0]
    assert first.fits
    inside = _training_simulated.simulated_step

    def larger(*given):
        step = inside(*given)
        return replace(step, peak_bytes=step.peak_bytes + system.accelerator.memory)

    monkeypatch.setattr(_training_simulated, "simulated_step", larger)
    result = plan_train(TINY, system, job, options)
    known = result.candidates[0]
    assert known.id == first.id
    assert not known.fits
    assert known.excluded.code == "LAY020"
    assert any("does not fit: a simulated peak of" in text for text in result.warnings)


def test_finalists_are_simulated_and_keep_the_order_of_their_estimate():
    job = TrainJob(tokens=10**9, sequence=512, global_batch=64)
    options = TrainOptions(efficiency=Share(0.4), keep=12, finalists=5, layout=read_fixed("zero=1"))
    result = plan_train(TINY, read_systems("dgx-h100 x1")[0], job, options)
    finals = [item.measures["simulated"] for item in result.candidates]
    assert [known is not None for known in finals] == [place < 5 for place in range(len(finals))]
    assert result.best is result.candidates[0]
    steps = [known["step_s"] for known in finals[:5]]
    sooner = [text for text in result.warnings if "has the shortest simulated step" in text]
    assert bool(sooner) == (min(steps) < steps[0] * 0.999)
    assert all(result.candidates[int(np.argmin(steps))].id in text for text in sooner)
    estimated = plan_train(TINY, read_systems("dgx-h100 x1")[0], job, replace(options, finalists=0))
    assert [item.id for item in estimated.candidates] == [item.id for item in result.candidates]


def test_of_a_deadline_between_estimate_and_simulation_the_estimate_decides_and_the_other_is_told():
    first = plan_train(QWEN, cards(48), CHAPTER, KNOWN).candidates[0].measures
    assert first["finish_s"] < first["simulated"]["finish_s"]
    between = Seconds((first["finish_s"] + first["simulated"]["finish_s"]) / 2)
    result = plan_train(QWEN, cards(48), replace(CHAPTER, deadline=between), KNOWN)
    assert result.verdict.answer == "yes"
    assert any("by simulation, late: the estimate decides" in text for text in result.warnings)
    assert not any("the estimate decides" in text for text in plan_train(QWEN, cards(48), CHAPTER, KNOWN).warnings)


def test_parts_of_a_simulated_step_add_up():
    job = TrainJob(tokens=10**9, sequence=512, global_batch=64)
    options = TrainOptions(efficiency=Share(0.4), layout=read_fixed("pp=2,tp=2,zero=2,schedule=one_f_one_b"))
    known = plan_train(TINY, read_systems("dgx-h100 x1")[0], job, options).candidates[0].measures["simulated"]
    parts = sum(known[name] for name in ("compute_s", "exposed_comm_s", "bubble_s", "update_s"))
    assert parts == pytest.approx(known["step_s"])


def test_fewer_than_no_finalists_are_refused():
    with pytest.raises(JobError, match="--finalists -1"):
        checked_options(replace(KNOWN, finalists=-1))
