"""What `--layout` fixes is searched or judged by its code; a search that is interrupted answers with what it found."""

from __future__ import annotations

import pytest

from meshwright.base.errors import LayoutError, ScheduleError
from meshwright.job.train import TrainJob
from meshwright.layout.layout import read_fixed
from meshwright.model.reader import read_model
from meshwright.scenarios import _training_search, training
from meshwright.scenarios._training_options import TrainOptions
from meshwright.scenarios._training_search import search_training
from meshwright.scenarios._training_space import chunks, training_space
from meshwright.scenarios._training_table import training_table
from meshwright.scenarios.training import plan_train
from meshwright.scenarios.training_systems import plan_train_systems
from meshwright.system.system import read_system
from meshwright.workload.context_split import ContextPlan

DENSE, MIXTURE = "Qwen/Qwen3-8B", "Qwen/Qwen3-30B-A3B"


def plan(fixed, *, name=DENSE, on="hgx-h100", sequence=4096, batch=16, progress=None):
    job = TrainJob(tokens=10**9, sequence=sequence, global_batch=batch)
    return plan_train(read_model(name), read_system(on), job, TrainOptions(layout=read_fixed(fixed)), progress)


@pytest.mark.parametrize(
    ("fixed", "changed", "code", "nearest"),
    [
        ("tp=3", {"on": "hgx-h100 x3", "batch": 24}, "LAY003", "tp=2"),
        ("ep=3", {"name": MIXTURE, "on": "hgx-h100 x3", "batch": 24, "sequence": 512}, "LAY007", "ep=2"),
        ("ep=2", {}, "LAY008", "ep=1"),
        ("cp=8", {"sequence": 4100}, "LAY036", "cp=2"),
        ("micro_batch=3", {}, "LAY033", "micro_batch=2"),
        ("micro_batch=3,dp_shard=8", {}, "LAY033", "micro_batch=2"),
        ("pp=4,schedule=interleaved,micro_batch=8", {}, "SCH001", "--layout micro_batch=4"),
        ("pp=4,schedule=interleaved,virtual_stages=12", {}, "LAY037", "fewer of pp or virtual_stages"),
        ("schedule=one_f_one_b,virtual_stages=2", {}, "LAY037", "schedule=interleaved,virtual_stages=2"),
        ("virtual_stages=18", {}, "LAY037", "schedule=interleaved,virtual_stages=18"),
        ("pp=1,schedule=fill_drain", {}, "LAY037", "leave schedule out, or pp"),
    ],
)
def test_a_fixed_field_that_breaks_a_rule_is_refused_by_its_code_with_what_works(fixed, changed, code, nearest):
    with pytest.raises((LayoutError, ScheduleError)) as caught:
        plan(fixed, **changed)
    assert caught.value.code == code
    assert nearest in caught.value.fix


@pytest.mark.parametrize(
    ("fixed", "works"),
    [
        ("dp_shard=3", "dp_shard=2"),
        ("dp_shard=8,tp=2", "dp_shard=4"),
        ("dp_shard=2,dp_replicate=2,tp=1,cp=1,pp=1", "dp_shard=4"),
        ("tp=16", "tp=8"),
    ],
)
def test_degrees_that_are_not_the_devices_name_the_nearest_that_are(fixed, works):
    with pytest.raises(LayoutError) as caught:
        plan(fixed)
    assert caught.value.code == "LAY002"
    assert f"--layout {works}," in caught.value.fix
    mended = read_fixed(fixed) | read_fixed(works)
    assert plan(",".join(f"{name}={value}" for name, value in mended.items())).candidates


def test_a_schedule_without_a_formula_is_refused_with_what_runs_it():
    with pytest.raises(ScheduleError) as caught:
        plan("schedule=dualpipe_declared")
    assert caught.value.code == "SCH011"


@pytest.mark.parametrize(
    "fixed",
    [
        *("zero=0,dp_shard=8", "zero=3,dp_shard=1", "sp=true,tp=1"),
        *("recompute=uniform_100", "recompute=every_3,pp=2", "micro_batch=16,tp=8", "schedule=interleaved"),
    ],
)
def test_a_fixed_field_that_harms_nothing_is_kept(fixed):
    result = plan(fixed)
    given = read_fixed(fixed)
    for item in result.candidates:
        assert {name: item.layout[name] for name in given} == given
        assert item.excluded is None or item.excluded.limit == "capacity"


def test_wide_experts_are_searched_where_they_are_fixed():
    result = plan("tp=1,etp=8", name=MIXTURE, batch=8, sequence=512)
    assert {item.layout["etp"] for item in result.candidates} == {8}


def test_every_virtual_stage_and_micro_batch_is_in_the_space():
    model = read_model(DENSE)
    space = training_space(
        model, read_system("hgx-h100"), TrainJob(tokens=10**9, sequence=4096, global_batch=128), {}, ContextPlan()
    )
    pieces = {count for name, count in space.lines if name == "interleaved"}
    assert pieces == set(range(2, model.layers // 2 + 1))
    assert set(space.choices.degree("micro_batch").tolist()) == {1, 2, 4, 8, 16, 32, 64, 128}


@pytest.mark.parametrize("calls", [1, 3])
def test_an_interrupted_search_answers_with_what_it_found(calls):
    seen = []

    def told(done, total):
        seen.append((done, total))
        if len(seen) == calls:
            raise KeyboardInterrupt

    result = plan("", progress=told, batch=128)
    assert result.verdict.answer == "yes"
    assert result.best is not None
    assert not result.body["searched"].complete
    assert any("interrupted" in text for text in result.warnings)
    whole = plan("", batch=128)
    assert whole.body["searched"].complete
    assert whole.best.measures["finish_s"] <= result.best.measures["finish_s"]
    assert not any("interrupted" in text for text in whole.warnings)


def test_a_search_interrupted_before_its_first_layout_blames_no_rule(monkeypatch):
    def interrupted(*_given):
        raise KeyboardInterrupt

    monkeypatch.setattr(_training_search, "least_goals", interrupted)
    with pytest.raises(KeyboardInterrupt):
        plan("", batch=128)


def _interrupt_at(calls):
    seen = []

    def told(done, _total):
        seen.append(done)
        if len(seen) == calls:
            raise KeyboardInterrupt

    return told


def test_a_no_of_an_interrupted_search_is_not_known():
    job = TrainJob(tokens=10**9, sequence=4096, global_batch=128, deadline=1.0)
    result = plan_train(read_model(DENSE), read_system("hgx-h100"), job, TrainOptions(runs=0), _interrupt_at(1))
    assert result.verdict.answer == "unknown"
    assert result.verdict.text.startswith("interrupted")
    assert result.candidates


@pytest.mark.parametrize("step", ["plan_of", "training_flips"])
def test_a_plan_interrupted_after_its_search_keeps_the_best_layout(monkeypatch, step):
    whole = plan("tp=1", batch=128)
    own, calls = getattr(training, step), []

    def interrupted(*given):
        calls.append(given)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return own(*given)

    monkeypatch.setattr(training, step, interrupted)
    found = plan("tp=1", batch=128)
    assert found.best.id == whole.best.id
    assert found.inputs == whole.inputs
    assert whole.flips
    assert "interrupted" in found.warnings[-1]
    if step == "training_flips":
        assert not found.flips
        assert found.best == whole.best


def test_an_interrupt_ends_the_search_of_all_systems_and_the_answer_says_which_it_left_out():
    systems = tuple(read_system(text) for text in ("hgx-h100", "hgx-h100 x2"))
    job = TrainJob(tokens=10**9, sequence=4096, global_batch=128)
    result = plan_train_systems(read_model(DENSE), systems, job, TrainOptions(runs=0), _interrupt_at(1))
    assert result.best is not None
    assert [row["id"] for row in result.body["systems"]] == ["hgx-h100"]
    assert "hgx-h100 x2 not searched" in result.verdict.text
    assert "interrupted: hgx-h100 x2 is not searched" in result.warnings
    assert not result.body["searched"].complete


@pytest.mark.parametrize("step", ["plan_of", "training_flips"])
def test_an_interrupt_after_the_search_of_one_system_ends_that_of_the_others_too(monkeypatch, step):
    own, calls = getattr(training, step), []

    def interrupted(*given):
        calls.append(given)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return own(*given)

    monkeypatch.setattr(training, step, interrupted)
    systems = tuple(read_system(text) for text in ("hgx-h100", "hgx-h100 x2"))
    job = TrainJob(tokens=10**9, sequence=4096, global_batch=128, deadline=1.0)
    options = TrainOptions(runs=0, layout={"tp": 1, "pp": 1})
    result = plan_train_systems(read_model(DENSE), systems, job, options)
    assert result.verdict.answer == "unknown"
    assert "hgx-h100 x2 not searched" in result.verdict.text


def test_progress_counts_every_layout():
    seen = []
    result = plan("pp=2", progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1][0] == result.body["searched"].looked_at <= seen[-1][1]
    assert result.body["searched"].evaluated < result.body["searched"].looked_at


def test_fused_units_keep_less_and_the_search_does_not_rule_out_what_they_let_fit():
    """With 32 GiB a device one rank's activations fit under fused units alone; every layout, one by one, says so."""
    model, system = read_model(DENSE), read_system("hgx-h100")
    job = TrainJob(tokens=10**9, sequence=4096, global_batch=16)
    options = TrainOptions(elementwise="fused", usable_memory=32 * 2**30, layout={"offload": "none", "pp": 1})
    space = training_space(model, system, job, options.layout, options.context)
    found, _ = search_training(model, system, job, options, space)
    each = [training_table(model, system, job, options, layouts) for layouts in chunks(space, model)]
    assert found.finish_s[0] == min(table.finish_s[table.fits].min() for table in each if table.fits.any())
