"""Flips of a training plan are replayed on both sides by planning anew, and a saved lever is a step planned anew."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from meshwright import read_model, read_system
from meshwright.base.parse import put_path
from meshwright.base.result import Result
from meshwright.job.routing import read_token_routing
from meshwright.job.train import TrainJob
from meshwright.scenarios._training_options import TrainOptions
from meshwright.scenarios.training import plan_train

if TYPE_CHECKING:
    from collections.abc import Sequence

DAY_S = 86_400.0
CARDS_JOB = TrainJob(tokens=10**11, sequence=8192, global_batch=384, deadline=30 * DAY_S, reserve=5 * DAY_S)
CARDS = TrainOptions(
    efficiency=0.4,
    input_wait=0.5,
    activation_budget=10 * 2**30,
    usable_memory=22 * 2**30,
    card_mtbf=337.07 * DAY_S,
    checkpoint_interval=1800.0,
    storage_write=7e9,
    restart=120.0,
)
BOXES_JOB = replace(CARDS_JOB, tokens=10**10, sequence=4096, global_batch=256, deadline=2 * DAY_S, reserve=0.1 * DAY_S)
CASES: dict[str, tuple[str, str, TrainJob, TrainOptions]] = {
    "32 cards": (
        "Qwen/Qwen3-8B",
        "rtx4090-host x4",
        CARDS_JOB,
        replace(CARDS, layout={"dp_shard": 32, "zero": 3, "micro_batch": 1}),
    ),
    "48 cards": (
        "Qwen/Qwen3-8B",
        "rtx4090-host x6",
        CARDS_JOB,
        replace(CARDS, layout={"dp_shard": 48, "zero": 3, "micro_batch": 1}),
    ),
    "48 cards, searched": (
        "Qwen/Qwen3-8B",
        "rtx4090-host x6",
        CARDS_JOB,
        replace(CARDS, layout={"tp": 1, "pp": 1}),
    ),
    "boxes": (
        "Qwen/Qwen3-8B",
        "hgx-h100 x2",
        BOXES_JOB,
        TrainOptions(efficiency=0.5, efficiency_kind="compute", job_mtbf=1e5, layout={"pp": 1, "cp": 1}),
    ),
    "latent, routed": (
        "deepseek-ai/DeepSeek-V2-Lite",
        "hgx-h100 x2",
        BOXES_JOB,
        TrainOptions(efficiency=0.4, routing=read_token_routing("zipf:1.1"), layout={"pp": 1, "recompute": "full"}),
    ),
    "recurrent, over cp": (
        "Qwen/Qwen3.5-9B",
        "hgx-h100 x2",
        BOXES_JOB,
        TrainOptions(efficiency=0.4, layout={"pp": 1, "cp": 2, "recompute": "full"}),
    ),
}


@cache
def planned(case: str) -> Result:
    name, on, job, options = CASES[case]
    return plan_train(read_model(name), read_system(on), job, options)


def chosen(case: str, parameter: str, value: float) -> str | None:
    """What a plan of its own chooses at a value: a flag, or a `--set` path of the system."""
    name, on, job, options = CASES[case]
    nouns: dict[str, Any] = {"system": read_system(on), "job": job, "options": replace(options, flips="none", runs=0)}
    noun, dot, path = parameter.partition(".")
    field = path if dot else noun.replace("-", "_")
    place = "system" if dot else "job" if field in TrainJob.__slots__ else "options"
    nouns[place] = put_path(nouns[place], field, value)
    result = plan_train(read_model(name), nouns["system"], nouns["job"], nouns["options"])
    return result.best.id if result.best is not None and result.verdict.answer == "yes" else None


def beside(flips: list[Any], at: int) -> tuple[float, float]:
    """0.1 % on both sides of a flip, or half-way to its neighbour; whole numbers as they are, or one below."""
    value = flips[at]["value"]
    below = max([value * 0.999, *((item["value"] + value) / 2 for item in flips[:at][-1:])])
    above = min([value * 1.001, *((item["value"] + value) / 2 for item in flips[at + 1 : at + 2])])
    return (min(int(below), value - 1), int(above)) if isinstance(value, int) else (below, above)


@pytest.mark.parametrize("case", CASES)
def test_a_plan_on_either_side_of_a_flip_chooses_what_the_flip_says(case):
    draw = Random(case)  # noqa: S311 - test cases, not secrets
    assert otherwise(case, draw.sample(planned(case).flips, 2)) == []


@pytest.mark.campaign
@pytest.mark.parametrize("case", CASES)
def test_a_plan_on_either_side_of_every_flip_chooses_what_the_flip_says(case, record_property):
    assert otherwise(case, planned(case).flips) == []
    record_property("cases", len(planned(case).flips))


def otherwise(case: str, wanted: Sequence[Any]) -> list[tuple[Any, list[str | None]]]:
    """Both sides of these flips planned anew: those that choose otherwise than the flip says, with what they choose."""
    wrong: list[tuple[Any, list[str | None]]] = []
    for flip in wanted:
        own = same_parameter(case, flip["parameter"])
        sides = beside(own, own.index(flip))
        found = [chosen(case, flip["parameter"], value) for value in sides]
        if found != [flip["from"], flip["to"]]:
            wrong.append((flip, found))
    return wrong


def same_parameter(case: str, parameter: str) -> list[Any]:
    return [flip for flip in planned(case).flips if flip["parameter"] == parameter]


@pytest.mark.parametrize("case", CASES)
def test_flips_of_a_parameter_follow_each_other(case):
    for parameter in {flip["parameter"] for flip in planned(case).flips}:
        for first, second in pairwise(same_parameter(case, parameter)):
            assert first["to"] == second["from"]
            assert first["value"] < second["value"]


def test_forty_seven_percent_of_the_peak_would_save_the_32_cards():
    flips = {flip["parameter"]: flip for flip in planned("32 cards").flips}
    assert flips["efficiency"]["value"] == pytest.approx(0.4699, abs=1e-4)
    assert flips["efficiency"]["from"] is None
    assert flips["efficiency"]["value"] == pytest.approx(planned("32 cards").body["limits"]["efficiency_needed"])


def test_the_flip_of_the_input_wait_is_the_slack_of_the_48_cards():
    plan = planned("48 cards")
    flips = {flip["parameter"]: flip["value"] for flip in plan.flips}
    assert flips["input-wait"] == pytest.approx(0.5 + plan.body["limits"]["slack_s"])
    assert flips["usable-memory"] == plan.candidates[0].memory["per_rank_bytes"]


def test_flips_are_found_of_bounds_assumptions_and_hardware():
    listed = {flip["parameter"] for case in CASES for flip in planned(case).flips}
    assert listed >= {
        "deadline",
        "tokens",
        "usable-memory",
        "system.accelerator.memory",
        "activation-budget",
        "workspace",
        "storage-write",
        "input-wait",
        "straggler-sigma",
        "efficiency",
        "system.accelerator.peak.bf16",
        "system.scale_up.bandwidth",
    }


@pytest.mark.parametrize("case", ["48 cards", "boxes"])
def test_a_lever_saves_what_a_plan_of_the_same_layout_saves(case):
    name, on, job, options = CASES[case]
    plan = planned(case)
    assert plan.best is not None
    fixed = replace(options, layout=plan.best.layout, flips="none")
    for lever in plan.sensitivity:
        system = put_path(read_system(on), lever.parameter.removeprefix("system."), lever.value)
        after = plan_train(read_model(name), system, job, fixed).candidates[0]
        saved = plan.best.measures["step"]["total_s"] - after.measures["step"]["total_s"]
        assert lever.saving_s == pytest.approx(saved, abs=1e-12), lever


def test_without_the_search_for_flips_the_plan_is_the_same():
    name, on, job, options = CASES["48 cards"]
    plain = plan_train(read_model(name), read_system(on), job, replace(options, flips="none"))
    assert plain.flips == ()
    assert plain.candidates == planned("48 cards").candidates
