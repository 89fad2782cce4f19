"""Layouts run for real: state, messages and FLOPs as predicted, peaks within bounds; and what must be refused."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from statistics import median

import pytest

from meshwright.base.errors import MeshwrightError, RunError
from meshwright.job.recipe import read_recipe
from meshwright.layout.layout import Layout
from meshwright.model.reader import read_arithmetic, read_model
from meshwright.verify import run_calls
from meshwright.verify.run import PEAK_WITHIN, compared, measure
from meshwright.verify.setting import setting_of
from tests.runtime.grid import REST, SAMPLE, answer

FEWEST, MEDIAN = 30, 0.05
TINY = "tiny-qwen3"


def setting(layout, recipe="fp32-adamw", batch=2, sequence=16, steps=1):
    return setting_of(read_model(TINY), layout, read_recipe(recipe), batch, sequence, steps, 0)


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.id)
def test_a_run_is_as_predicted(case):
    found = answer(case)
    assert found.verdict.answer == "yes", found.verdict.text


@pytest.mark.campaign
@pytest.mark.parametrize("case", REST, ids=lambda case: case.id)
def test_every_other_run_is_as_predicted(case):
    found = answer(case)
    assert found.verdict.answer == "yes", found.verdict.text


def test_the_grid_is_as_large_as_promised():
    assert len({*SAMPLE, *REST}) >= FEWEST


@pytest.mark.campaign
def test_the_median_peak_is_closer_still():
    rows = [row for case in (*SAMPLE, *REST) for row in answer(case).body["rows"] if row.quantity == "peak"]
    assert median(abs(row.error) for row in rows) <= MEDIAN


@pytest.mark.parametrize("layout", [Layout(dp_shard=2, zero=2), Layout(pp=2)], ids=lambda layout: layout.id)
def test_a_tied_head_is_one_matrix_on_one_stage_and_two_on_two(tmp_path, layout):
    config = tomllib.loads((files("meshwright.model") / "data" / f"{TINY}.toml").read_text(encoding="utf-8"))["config"]
    (tmp_path / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": True}), encoding="utf-8")
    model, recipe = read_model(str(tmp_path)), read_recipe("fp32-adamw")
    given = setting_of(model, layout, recipe, 4, 16, 1, 0)
    found = compared(given, measure(given, read_arithmetic(str(tmp_path)), timeout_s=60))
    assert found.verdict.answer == "yes", found.verdict.text


@pytest.fixture(scope="module")
def pair():
    given = setting(Layout(tp=2))
    return given, measure(given, read_arithmetic(TINY), timeout_s=60)


def changed(measured, **parts):
    first, *others = measured
    return [replace(first, record=replace(first.record, **parts)), *others]


def test_eight_bytes_that_nobody_foresaw_are_a_no(pair):
    given, measured = pair
    assert compared(given, measured).verdict.answer == "yes"
    first, *others = measured[0].record.traffic
    wrong = changed(measured, traffic=(replace(first, message_bytes=first.message_bytes + 8), *others))
    found = compared(given, wrong)
    assert found.verdict.answer == "no"
    assert "traffic all_reduce over tp of rank 0" in found.verdict.text


def test_one_more_product_is_a_no(pair):
    given, measured = pair
    flops = dict(measured[0].record.flops)
    flops["matmul", "forward"] += 2
    assert "flops hardware" in compared(given, changed(measured, flops=flops)).verdict.text


def test_a_peak_beyond_its_bound_is_a_no(pair):
    given, measured = pair
    more = round(measured[0].record.peak_bytes * 2 * PEAK_WITHIN)
    grown = {**measured[0].record.peak, "workspace": more + measured[0].record.peak.get("workspace", 0)}
    assert "peak all" in compared(given, changed(measured, peak=grown)).verdict.text


def test_what_gloo_sends_in_place_of_a_reduce_scatter_is_an_all_reduce():
    given = setting(Layout(tp=2, sp=True))
    record = measure(given, read_arithmetic(TINY), timeout_s=60)[0].record
    scattered = [item for item in record.traffic if item.collective == "reduce_scatter"]
    assert scattered
    assert all(item.backend_bytes == 2 * item.sent_bytes == item.message_bytes for item in scattered)


def test_a_run_that_breaks_though_its_calls_match_is_no_yes(monkeypatch):
    def broken(_function, payload, *_):
        for rank in range(2):
            Path(payload[2], str(rank)).write_text(json.dumps({"rank": rank}) + "\n", encoding="utf-8")
        raise RunError(10, "a fault of all ranks", "look at it")

    monkeypatch.setattr(run_calls, "launch", broken)
    with pytest.raises(RunError, match="RUN010"):
        run_calls.verify_calls(setting(Layout(tp=2)), read_arithmetic(TINY), "free", timeout_s=1)


@pytest.mark.parametrize(
    ("layout", "given", "code"),
    [
        (Layout(cp=2), {}, "RUN005"),
        (Layout(offload="optimizer"), {}, "RUN005"),
        (Layout(), {"recipe": "bf16-adamw"}, "RUN009"),
        (Layout(), {"recipe": "fp8-adamw"}, "RUN009"),
        (Layout(dp_shard=2), {"batch": 3}, "RUN007"),
        (Layout(tp=2, sp=True), {"sequence": 15}, "RUN008"),
        (Layout(), {"steps": 0}, "RUN012"),
        (Layout(tp=3), {}, "LAY003"),
        (Layout(pp=2, schedule="dualpipe_published"), {"batch": 3}, "SCH"),
        (Layout(pp=8), {}, "LAY"),
        (Layout(pp=4, virtual_stages=2, schedule="interleaved"), {"batch": 8}, "RUN006"),
        (Layout(dp_replicate=2, zero=2), {}, "RUN005"),
    ],
)
def test_what_a_run_does_not_know_is_refused(layout, given, code):
    with pytest.raises(MeshwrightError) as problem:
        setting(layout, **given)
    assert problem.value.code.startswith(code)
    assert problem.value.fix
