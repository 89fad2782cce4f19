"""The search of `plan train` finds what every layout by itself gives: the best, their verdicts, their columns.

Twenty small spaces of dense and MoE models, with and without limits. The gate takes a few of them; the campaign
(`python -m tests.campaign training`) all, up to 20,000 layouts each, every one evaluated in a table of its own, and
with every offload that the search may try.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import product
from random import Random

import numpy as np
import pytest

from meshwright.job.routing import read_token_routing
from meshwright.job.train import TrainJob
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.model.reader import read_model
from meshwright.scenarios import _training_search as search
from meshwright.scenarios._training_bounds import least_goals
from meshwright.scenarios._training_choices import OFFLOADS, POLICIES
from meshwright.scenarios._training_host import offloads
from meshwright.scenarios._training_options import TrainOptions
from meshwright.scenarios._training_refusals import refusal, refused
from meshwright.scenarios._training_space import (
    MESH,
    chunks,
    firsts,
    group_tables,
    layouts_of,
    offloading,
    training_space,
)
from meshwright.scenarios._training_table import training_table
from meshwright.search.candidates import divisors
from meshwright.search.rank import TIE
from meshwright.system.system import read_system
from meshwright.workload.context_split import ContextPlan
from meshwright.workload.recomputing import read_recompute
from meshwright.workload.slots import SCHEDULES, read_schedule

OLDER, SPACES = 20, 28
MOST = 20_000
IN_GATE = (3, 7, 18, 21)
MODELS = (
    *("tiny-qwen3", "tiny-qwen3-moe", "openai-community/gpt2", "Qwen/Qwen2.5-0.5B", "Qwen/Qwen3-8B"),
    *("Qwen/Qwen3-30B-A3B", "mistralai/Mixtral-8x7B-v0.1", "facebook/opt-125m"),
)
MIXED = (
    *("deepseek-ai/DeepSeek-V2-Lite", "Qwen/Qwen3.5-9B", "Qwen/Qwen3-Next-80B-A3B-Instruct", "openai/gpt-oss-20b"),
    *("moonshotai/Kimi-Linear-48B-A3B-Instruct", "nvidia/Nemotron-H-56B-Base-8K"),
)
SYSTEMS = ("rtx4090-host", "hgx-h100", "hgx-a100-40gb", "rtx4090-host x2", "hgx-h20 x2", "mi300x-8", "rtx4090-host x3")
FIXED = (
    *({"tp": 2}, {"recompute": "full"}, {"recompute": "selective", "pp": 2}, {"schedule": "one_f_one_b", "pp": 4}),
    *({"zero": 3, "micro_batch": 1}, {"micro_batch": 2}, {"pp": 1}, {"sp": True, "recompute": "none"}, {}),
    *(
        {"tp": 2, "pp": 2, "recompute": "none"},
        {"dp_shard": 2, "schedule": "interleaved"},
        {"ep": 2},
        {"cp": 2, "tp": 1},
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the search is asked, its space and its options."""

    model: object
    system: object
    job: TrainJob
    options: TrainOptions
    space: object


def question(number: int) -> Question:
    """The numbered space: the first of random draws that is not empty and not too large.

    From `OLDER` on of models with latent, recurrent and windowed layers, and with what is assumed of experts and cp.
    """
    dice = Random(number)  # noqa: S311 - test cases, not secrets
    most = 800 if number in IN_GATE else MOST if number < OLDER else MOST // 5
    models, assumed = (MODELS, ASSUMED) if number < OLDER else (MIXED, MORE)
    while True:
        model, system = read_model(dice.choice(models)), read_system(dice.choice(SYSTEMS))
        job = TrainJob(tokens=10**9, sequence=dice.choice([512, 2048, 3072]), global_batch=dice.choice([4, 6, 8, 16]))
        layout = dice.choice(FIXED) | dice.choice(FIXED)
        options = TrainOptions(layout=layout, keep=dice.choice([1, 5, 20]), **dice.choice(assumed))
        if {"pp"} & layout.keys() and system.devices % layout["pp"]:
            continue
        space = training_space(model, system, job, layout, options.context)
        if most / 20 <= space.size * (1 + len(offloads(system, layout))) <= most:
            break
    deadline = dice.choice([None, 0.5, 1.02, 2.0])
    if deadline is not None:
        found, _ = search.search_training(model, system, job, replace(options, keep=1), space)
        job = replace(job, deadline=float(found.finish_s[0]) * deadline)
    return Question(model=model, system=system, job=job, options=options, space=space)


ASSUMED = (
    {},
    {"efficiency": 0.4},
    {"efficiency": 0.5, "efficiency_kind": "compute", "prefetch": "off"},
    {"usable_memory": 6 * 2**30, "workspace": 2**28},
    {"usable_memory": 2**30, "nic": "shared"},
    {"activation_budget": 8 * 2**30, "efficiency": 0.4, "input_wait": 0.5},
    {"straggler_sigma": 0.05, "prep_workers": 2, "prep_rate": 3.0},
    {"kernel": "materialised", "loss": "fused", "shards": "strict", "card_mtbf": 3e6, "storage_write": 5e9},
)


MORE = (
    {"routing": read_token_routing("zipf:1.2"), "efficiency": 0.4},
    {"routing": read_token_routing("uniform"), "capacity_factor": 1.25},
    {"cp_split": "contiguous", "cp_exchange": "all_gather"},
    {"cp_exchange": "ulysses", "elementwise": "fused"},
    {"kernel": "materialised", "nic": "shared", "usable_memory": 40 * 2**30},
)


def cells(found, row: int = 0) -> dict[str, object]:
    """Every column of one row, by name, as plain numbers."""
    held: dict[str, object] = {}
    for item in fields(found):
        value = getattr(found, item.name)
        if item.name == "layouts":
            held["id"] = value.row(row).id
        elif is_dataclass(value):
            held |= {f"{item.name}.{name}": cell for name, cell in cells(value, row).items()}
        else:
            held[item.name] = value[row].item()
    return held


def alone(ask: Question, layout: Layout) -> dict[str, object]:
    """One layout evaluated in a table of its own."""
    rows = replace(table([layout]), order=ask.space.meshes.order)
    return cells(training_table(ask.model, ask.system, ask.job, ask.options, rows))


def best_of(ask: Question, rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """The first `keep`: on time, late, too large; by finish or bytes, without offload, without recompute, by id."""

    def grade(row):
        return 2 if not row["fits"] else 0 if row["on_time"] else 1

    def goal(row):
        return row["finish_s"] if row["fits"] else float(row["ledger.total"])

    rows = sorted(rows, key=lambda row: (grade(row), goal(row)))
    level, levels = 0, []
    for before, row in zip([rows[0], *rows], rows, strict=False):
        near = grade(before) == grade(row) and goal(row) - goal(before) <= TIE * goal(row)
        level += not near
        levels.append(level)
    place = {id(row): level for row, level in zip(rows, levels, strict=True)}
    return sorted(
        rows, key=lambda row: (place[id(row)], "offload=" in row["id"], "recompute=" in row["id"], row["id"])
    )[: ask.options.keep]


def found_by_search(ask: Question, space=None) -> list[dict[str, object]]:
    found, seen = search.search_training(ask.model, ask.system, ask.job, ask.options, space or ask.space)
    assert seen.complete
    assert seen.evaluated <= seen.looked_at
    return [cells(found, row) for row in range(len(found))]


@pytest.mark.parametrize(
    "number",
    [number if number in IN_GATE else pytest.param(number, marks=pytest.mark.campaign) for number in range(SPACES)],
)
def test_the_search_finds_what_every_layout_by_itself_gives(number, record_property):
    ask = question(number)
    layouts = [layout for rows in chunks(ask.space, ask.model) for layout in rows.rows()]
    assert len({layout.id for layout in layouts}) == len(layouts)
    every = [alone(ask, layout) for layout in layouts]
    for offload in offloads(ask.system, ask.options.layout):
        moved = [alone(ask, replace(layout, offload=offload)) for layout in layouts]
        for row, before in zip(moved, every[: len(layouts)], strict=True):
            if before["fits"]:  # it is no sooner for an offload, and ties go to none
                assert row["finish_s"] >= before["finish_s"] * (1 - TIE)
            else:
                every.append(row)
    record_property("cases", len(layouts) * (1 + len(offloads(ask.system, ask.options.layout))))
    assert found_by_search(ask) == best_of(ask, every)


@pytest.mark.parametrize("number", range(SPACES))
def test_no_layout_is_better_than_the_bound_of_its_group(number):
    ask = question(number)
    groups = next(group_tables(ask.space, ask.model, 400))
    bound, _ = least_goals(ask.model, ask.system, ask.job, ask.options, firsts(ask.space, groups), ask.space.lines)
    for place in range(0, len(groups), max(len(groups) // 25, 1)):
        for rows in layouts_of(ask.space, ask.model, groups.take([place])):
            goals = search.goals_of(training_table(ask.model, ask.system, ask.job, ask.options, rows))
            least = bound.take([place])
            assert (goals.too_large >= least.too_large).all()
            same = goals.too_large == least.too_large
            assert (goals.goal[same] >= least.goal).all()


@pytest.mark.parametrize("number", [*IN_GATE, *(pytest.param(number, marks=pytest.mark.campaign) for number in (0, 4))])
def test_the_length_and_order_of_tables_change_nothing(number, monkeypatch):
    ask = question(number)
    whole = found_by_search(ask)
    order = np.random.default_rng(number).permutation(len(ask.space.meshes))
    turned = replace(ask.space, meshes=ask.space.meshes.take(order), kind=ask.space.kind[order])
    assert found_by_search(ask, turned) == whole
    monkeypatch.setattr(search, "_EARLY", 1)
    monkeypatch.setattr(search, "_AT_ONCE", 7)
    short = lambda space, model: group_tables(space, model, 97)  # noqa: E731
    monkeypatch.setattr(search, "group_tables", short)
    assert found_by_search(ask) == whole


@pytest.mark.parametrize(("name", "on"), [("tiny-qwen3", "rtx4090-host"), ("tiny-qwen3-moe", "hgx-h100")])
def test_the_space_is_every_layout_that_can_be_launched(name, on):
    model, system = read_model(name), replace(read_system(on), devices_per_node=4)
    job = TrainJob(tokens=10**9, sequence=96, global_batch=2)
    space = training_space(model, system, job, {}, ContextPlan())
    plain = [layout for rows in chunks(space, model) for layout in rows.rows()]
    found = {layout.id for layout in plain}
    for offload in OFFLOADS[1:]:
        moved = {layout.id for rows in chunks(offloading(space, offload), model) for layout in rows.rows()}
        assert moved == {replace(layout, offload=offload).id for layout in plain}
    degrees = [1, 2, 4]
    schedules = [
        (name, pieces)
        for name in SCHEDULES.names()
        if read_schedule(name).BUBBLE is not None
        for pieces in range(1, model.layers + 1)
    ]
    meshes = [
        dict(zip(MESH, mesh, strict=True))
        for mesh in product(degrees, degrees, degrees, degrees, degrees, degrees, degrees)
        if np.prod(mesh[:5]) == system.devices
    ]
    choices = product([False, True], range(4), divisors(2), [(None, 1), *schedules], POLICIES, OFFLOADS[:1])
    asked = [
        Layout(
            **mesh,
            sp=sp,
            zero=zero,
            micro_batch=size,
            schedule=line[0],
            virtual_stages=line[1],
            recompute=policy,
            offload=offload,
            attention="data_parallel",
        )
        for sp, zero, size, line, policy, offload in choices
        for mesh in meshes
        if _no_twin(model, mesh | {"sp": sp, "zero": zero}, line, policy)
    ]
    rows = replace(table(asked), order=space.meshes.order)
    broken = refused(model, job, ContextPlan(), rows)
    assert found == {layout.id for layout, wrong in zip(asked, broken.tolist(), strict=True) if not wrong}
    assert len(found) > 100
    for row in range(0, len(asked), len(asked) // 100):
        assert (refusal(model, system, job, ContextPlan(), rows, row) is not None) == broken[row]


def _no_twin(model, mesh, line, policy) -> bool:
    """Fields that do nothing hold their default: sp without tp, a schedule of one stage.

    So do zero without dp_shard or cp, and dp_shard without zero. Experts wider than tp are searched where etp is fixed.
    """
    spread = read_recompute(policy)
    name, pieces = line
    return (
        (mesh["tp"] > 1 or not mesh["sp"])
        and (mesh["dp_shard"] * mesh["cp"] > 1 if mesh["zero"] else mesh["dp_shard"] == 1)
        and (name is not None) == (mesh["pp"] > 1)
        and mesh["tp"] % mesh["etp"] == 0
        and (pieces > 1 or name != "interleaved")
        and spread.every * spread.chunk <= -(-model.layers // (mesh["pp"] * pieces))
    )
