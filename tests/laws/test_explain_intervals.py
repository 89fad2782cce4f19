"""Every number of `checkpoint interval` that a formula gives expands into it, and follows its inputs there."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import pytest

from meshwright import ExplainOptions, as_json, explain, read_model
from meshwright.base.errors import UserError
from meshwright.scenarios._interval import IntervalOptions
from meshwright.scenarios.checkpoint_interval import checkpoint_interval
from tests.laws.test_explain import evaluated, numbers

BLOCKING = IntervalOptions(
    size=114_670_295_040, write=7e9, restart=120.0, job_mtbf=28_440.0, devices=1024, spike_interval=604_800.0, runs=10
)
BESIDE = IntervalOptions(
    write=7e9, restart=120.0, card_mtbf=2.9e7, common_mode_mtbf=(5e6, 6e6), devices=1024, mode="async", copy=2.0,
    commit=1.0, recovery="exposed", reserve=100.0, runs=10,
)  # fmt: skip
BOUND = replace(BESIDE, size=10**11, copy=0.0, restart=0.0, intervals=(), common_mode_mtbf=())
CASES = {"blocking": (BLOCKING, None), "beside": (BESIDE, "tiny-qwen3"), "bound by its writer": (BOUND, None)}
SEARCHED = ("simulated", "flat", "defaulted")


@cache
def document(name):
    options, model = CASES[name]
    result = checkpoint_interval(options, None if model is None else read_model(model))
    return json.loads(json.dumps(as_json(result)))


@pytest.mark.parametrize("name", CASES)
def test_every_number_evaluates_to_itself(name):
    found = document(name)
    paths = [path for path in numbers(found) if not path.startswith((*SEARCHED, "inputs.model"))]
    assert len(paths) > 60
    for path in paths:
        told = explain(found, ExplainOptions(path=path))
        assert told.verdict.answer == "yes", told.verdict.text
        assert evaluated(told.body["expression"]) == pytest.approx(told.body["saved_value"], rel=1e-12), path


@pytest.mark.parametrize("field", ["size", "write", "restart", "job_mtbf", "spike_interval", "work"])
def test_a_changed_input_changes_the_expression_as_it_changes_the_answer(field):
    value = getattr(BLOCKING, field) * 2
    after = json.loads(json.dumps(as_json(checkpoint_interval(replace(BLOCKING, **{field: value})))))
    moved = 0
    for block, name in (("retry", "interval_s"), ("retry", "overhead_fraction"), ("first_order", "interval_s")):
        nodes = explain(document("blocking"), ExplainOptions(path=f"{block}.{name}")).body["expression"]
        now = evaluated(nodes, {f"options.{field}": value})
        assert now == pytest.approx(after[block][name], rel=1e-9)
        moved += now != pytest.approx(document("blocking")[block][name], rel=1e-9)
    assert bool(moved) == (field != "work")


@pytest.mark.parametrize("path", ["simulated[0].mean_s", "flat.from_s"])
def test_what_is_drawn_or_searched_has_no_formula(path):
    with pytest.raises(UserError) as caught:
        explain(document("blocking"), ExplainOptions(path=path))
    assert caught.value.code == "IO045"
    assert caught.value.fix
