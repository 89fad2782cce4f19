"""Every number of a training plan expands into an expression over its inputs that evaluates to it.

As `test_explain`, with whose evaluator these are checked: changing an input in an expression gives what the plan of the
same layout gives for the changed input.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from meshwright import as_json, read_model, read_system
from meshwright.base.errors import UserError
from meshwright.base.parse import get_path, put_path
from meshwright.job.routing import read_token_routing
from meshwright.job.train import TrainJob
from meshwright.layout.layout import Layout
from meshwright.scenarios._training_options import TrainOptions
from meshwright.scenarios.explain import ExplainOptions, explain
from meshwright.scenarios.training import plan_of_layout, plan_train
from tests.laws.test_explain import evaluated, numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

DAY_S = 86_400.0
DENSE, MIXTURE, TIED = "Qwen/Qwen3-8B", "Qwen/Qwen3-30B-A3B", "tiny-qwen3"
JOB = TrainJob(tokens=10**10, sequence=4096, global_batch=256, deadline=20 * DAY_S, reserve=DAY_S)
TOLD = TrainOptions(
    keep=2,
    flips="none",
    job_mtbf=1e5,
    storage_write=7e9,
    straggler_sigma=0.02,
    spike_interval=7 * DAY_S,
    price=2.0,
    input_wait=0.5,
)
STUDY = TrainOptions(
    flips="none",
    efficiency=0.4,
    input_wait=0.5,
    activation_budget=10 * 2**30,
    usable_memory=22 * 2**30,
    card_mtbf=337.07 * DAY_S,
    storage_write=7e9,
    layout={"dp_shard": 32, "zero": 3, "micro_batch": 1},
)
TWO_STAGES = {"pp": 2, "tp": 1, "schedule": "one_f_one_b", "recompute": "none", "micro_batch": 1}
CASES: dict[str, tuple[str, str, TrainJob, TrainOptions]] = {
    "cards": (DENSE, "rtx4090-host x4", replace(JOB, tokens=10**11, sequence=8192, global_batch=384), STUDY),
    "stages": (
        DENSE,
        "hgx-h100 x4",
        JOB,
        replace(TOLD, layout={"pp": 4, "tp": 2, "dp_shard": 4, "zero": 1, "recompute": "selective", "micro_batch": 1}),
    ),
    "chunks, ring": (
        DENSE,
        "hgx-h100 x4",
        JOB,
        replace(
            TOLD,
            efficiency=0.4,
            efficiency_kind="compute",
            layout={
                "pp": 2,
                "tp": 2,
                "cp": 2,
                "dp_shard": 4,
                "zero": 3,
                "recompute": "every_2",
                "micro_batch": 1,
                "schedule": "interleaved",
                "virtual_stages": 3,
            },
        ),
    ),
    "experts": (
        MIXTURE,
        "hgx-h100 x4",
        JOB,
        replace(
            TOLD,
            kernel="materialised",
            loss="fused",
            shards="strict",
            input_wait=None,
            prep_workers=4,
            prep_rate=2.0,
            layout={"pp": 1, "tp": 2, "dp_shard": 16, "ep": 8, "zero": 2, "recompute": "full", "micro_batch": 1},
        ),
    ),
    "experts, stages": (
        MIXTURE,
        "hgx-h100 x4",
        JOB,
        replace(
            TOLD,
            nic="shared",
            prefetch="off",
            layout={"pp": 2, "tp": 1, "ep": 4, "schedule": "zero_bubble_h1", "recompute": "none", "micro_batch": 1},
        ),
    ),
    "tied": (
        TIED,
        "hgx-h100",
        replace(JOB, sequence=512, global_batch=64),
        replace(TOLD, job_mtbf=None, layout=TWO_STAGES),
    ),
    "latent": (
        "deepseek-ai/DeepSeek-V2-Lite",
        "hgx-h100 x4",
        JOB,
        replace(
            TOLD,
            routing=read_token_routing("zipf:1.1"),
            capacity_factor=1.5,
            layout={"pp": 1, "tp": 2, "dp_shard": 16, "ep": 8, "zero": 1, "recompute": "full", "micro_batch": 1},
        ),
    ),
    "recurrent": (
        "Qwen/Qwen3.5-9B",
        "hgx-h100 x4",
        JOB,
        replace(TOLD, layout={"pp": 1, "tp": 2, "cp": 2, "dp_shard": 8, "zero": 2, "recompute": "full", "sp": True}),
    ),
}
CHANGES = {
    "system.accelerator.peak.bf16": 1.001,
    "system.accelerator.memory_bandwidth": 1.001,
    "system.scale_up.latency": 1.001,
    "system.scale_up.bandwidth": 1.001,
    "system.scale_out.latency": 1.001,
    "system.scale_out.bandwidth": 1.001,
    "job.tokens": 2,
    "job.sequence": 2,
    "job.global_batch": 2,
    "job.deadline": 1.001,
    "job.reserve": 1.001,
    "options.efficiency": 1.001,
    "options.input_wait": 1.001,
    "options.prep_rate": 1.001,
    "options.activation_budget": 2,
    "options.workspace": 2,
    "options.card_mtbf": 1.001,
    "options.job_mtbf": 1.001,
    "options.checkpoint_interval": 1.001,
    "options.storage_write": 1.001,
    "options.restart": 1.001,
    "options.straggler_sigma": 1.001,
    "options.spike_interval": 1.001,
    "options.price": 1.001,
}
MOVED = (
    "save_s",
    "failures_per_s",
    "limits.slack_s",
    "best.memory.per_rank_bytes",
    "best.memory.computed_bytes",
    "best.step.bubble_s",
    "best.step.straggler_s",
    "best.channel_s",
    "best.sent_bytes",
    "best.num_micro_batches",
    "best.finish_s",
    "best.gpu_hours",
    "best.mfu",
    "best.hfu",
)
WITHOUT_FORMULA = ("flips", "defaulted", "searched", "simulated", "peak_alive", "peak_rank", "drawn", "least_boxes")


@cache
def document(case: str) -> dict[str, Any]:
    """A plan as it is saved; where no layout fits, its first candidate stands as the best."""
    name, on, job, options = CASES[case]
    return as_saved(plan_train(read_model(name), read_system(on), job, options))


def as_saved(result: Any) -> dict[str, Any]:
    found = json.loads(json.dumps(as_json(result)))
    return found if found["best"] else {**found, "best": found["candidates"][0]}


@pytest.mark.parametrize("case", CASES)
def test_random_paths_of_a_training_plan_evaluate_to_their_number(case):
    draw = Random(case)  # noqa: S311 - test cases, not secrets
    found = document(case)
    paths = [path for path in numbers(found) if not any(name in path for name in WITHOUT_FORMULA)]
    own = [path for path in paths if path.startswith("best")]
    for path in (*draw.sample(own, 2), *draw.sample(paths, 3)):
        told = explain(found, ExplainOptions(path=path))
        assert told.verdict.answer == "yes", told.verdict.text
        assert evaluated(told.body["expression"]) == pytest.approx(told.body["saved_value"], rel=1e-12), path


def test_a_ring_over_layers_with_windows_explains_its_step():
    layout = Layout(dp_shard=8, cp=2, tp=2, ep=2, zero=1, micro_batch=1, recompute="full")
    model, system = read_model("openai/gpt-oss-120b"), read_system("hgx-h100 x4")
    saved = as_saved(plan_of_layout(model, system, JOB, TrainOptions(efficiency=0.4), layout))
    told = explain(saved, ExplainOptions(path="candidates[0].step.total_s"))
    assert evaluated(told.body["expression"]) == pytest.approx(saved["candidates"][0]["step"]["total_s"], rel=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_changing_an_input_gives_what_the_plan_of_that_layout_gives_for_it(case):
    draw = Random(case)  # noqa: S311 - test cases, not secrets
    assert differing(case, draw.sample(sorted(CHANGES), 4), draw.sample(MOVED, 4)) == []


@pytest.mark.campaign
@pytest.mark.parametrize("case", CASES)
def test_changing_every_input_gives_what_the_plan_of_that_layout_gives_for_it(case):
    assert differing(case, list(CHANGES), MOVED) == []


def differing(case: str, labels_changed: Sequence[str], moved_paths: Sequence[str]) -> list[tuple[str, str]]:
    """Each input changed, at each path, by the expression and by planning anew: where these differ.

    An input that moves a number and is no leaf of its expression stands with no path.
    """
    wrong: list[tuple[str, str]] = []
    found = document(case)
    name, on, job, options = CASES[case]
    fixed = replace(options, layout=found["best"]["layout"], keep=1, finalists=0, runs=0)
    nouns: dict[str, Any] = {"model": read_model(name), "system": read_system(on), "job": job, "options": fixed}
    told = {path: explain(found, ExplainOptions(path=path)).body["expression"] for path in moved_paths}
    labels = {node["label"] for nodes in told.values() for node in nodes if node["operation"] == "leaf"}
    for label in labels_changed:
        factor = CHANGES[label]
        noun, _, rest = label.partition(".")
        try:
            now = get_path(nouns[noun], rest)
        except UserError:  # a system without NICs has none
            continue
        if now is None:
            continue
        value = round(now * factor) if isinstance(now, int) else now * factor
        changed = nouns | {noun: put_path(nouns[noun], rest, value)}
        after = as_saved(plan_train(*(changed[key] for key in ("model", "system", "job", "options"))))
        there = {path: get_path(after, path) for path in told if held(after, path)}
        wrong += [
            (label, path)
            for path, number in there.items()
            if evaluated(told[path], {label: value}) != pytest.approx(number, rel=1e-11)
        ]
        moved = any(number != get_path(found, path) for path, number in there.items())
        if moved and label not in labels:
            wrong.append((label, ""))
    return wrong


def held(saved: dict[str, Any], path: str) -> bool:
    """Whether a plan has this number: where nothing fits there is no limit that binds."""
    absent = path.startswith("limits.") and saved["limits"] is None
    assert not absent or not saved["best"]["fits"]
    return not absent


@pytest.mark.parametrize(
    "path",
    [
        "searched.looked_at",
        "best.simulated.step_s",
        "best.peak_rank",
        "best.peak_alive[0].bytes",
        "overheads.drawn.p50_s",
    ],
)
def test_what_is_searched_simulated_or_drawn_has_no_formula(path):
    with pytest.raises(UserError) as caught:
        explain(document("cards"), ExplainOptions(path=path))
    assert caught.value.code == "IO045"
    assert caught.value.fix


def test_an_expression_names_the_facts_that_a_step_rests_on():
    told = explain(document("cards"), ExplainOptions(path="best.finish_s")).body["expression"]
    leaves = {node["label"]: node["basis"] for node in told if node["operation"] == "leaf"}
    assert leaves["options.efficiency"] == "assumed"
    assert leaves["system.accelerator.peak.bf16"] == "datasheet"
    assert leaves["model.groups.0.block.mixer.heads"] == "config"
