"""Every number of a saved result expands into an expression over its inputs that evaluates to the number.

The evaluator below knows only the signs of the records; it shares nothing with the product but the one count of cases
that is no arithmetic. Changing an input in the expression gives what the product gives for the changed input: so
nothing that the number depends on is written into the expression as a constant.
"""

from __future__ import annotations

import json
import math
import operator
from dataclasses import replace
from functools import cache
from random import Random, SystemRandom
from typing import Any

import pytest

from meshwright import (
    FitOptions,
    InspectOptions,
    ServeJob,
    ServeOptions,
    as_json,
    fit,
    inspect,
    plan_serve,
    read_model,
    read_system,
)
from meshwright.base.errors import UserError
from meshwright.base.parse import get_path, put_path
from meshwright.cost.overheads import retry_count
from meshwright.cost.reserve import ReserveRule
from meshwright.cost.stragglers import expected_max
from meshwright.job.faults import Fault
from meshwright.model.model import Model
from meshwright.scenarios._engine_pool import EngineOptions, budget_bytes, hundredths
from meshwright.scenarios._shared import has_experts
from meshwright.scenarios.explain import ExplainOptions, explain
from meshwright.scenarios.fit import replica_layout
from meshwright.workload.feed_forward import busiest_share

MODELS = ("Qwen/Qwen3-32B", "Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-30B-A3B-FP8", "mistralai/Mixtral-8x7B-v0.1", "tiny-qwen3")
RESULT_MODELS = (
    *MODELS,
    *("deepseek-ai/DeepSeek-V2-Lite", "deepseek-ai/DeepSeek-V3.2-Exp", "Qwen/Qwen3.5-9B", "openai/gpt-oss-120b"),
    *("Qwen/Qwen3-Next-80B-A3B-Instruct", "nvidia/Nemotron-H-56B-Base-8K", "moonshotai/Kimi-Linear-48B-A3B-Instruct"),
)
SYSTEMS = ("hgx-h100", "hgx-h100 x2", "hgx-h200")
PATHS = 80
RESULTS = 20
SIGNS: dict[str, Any] = {
    "+": operator.add,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "-": lambda *items: items[0] - items[1] if len(items) > 1 else -items[0],
    "max": max,
    "min": min,
    "abs": abs,
    "int": int,
    "ceil": math.ceil,
    "floor": math.floor,
    "log2": math.log2,
    "exp": math.exp,
    "expm1": math.expm1,
    "divide_up": lambda left, right: -(-left // right),
    "doublings": lambda count: math.ceil(math.log2(count)),
    "name": lambda item: item,
    "busiest_share": busiest_share,
    "budget_bytes": budget_bytes,
    "hundredths": hundredths,
    "retry_count": retry_count,
    "expected_max": expected_max,
}


def evaluated(nodes: list[dict[str, Any]], changed: dict[str, float] | None = None) -> float:
    """The number at the head of an expression, from its leaves; `changed` gives some of them other values."""
    found: dict[int, Any] = {}
    stack = [0]
    while stack:
        place = stack[-1]
        node = nodes[place]
        waiting = [item["node"] for item in node["operands"] if "node" in item and item["node"] not in found]
        if waiting:
            stack += waiting
            continue
        stack.pop()
        if node["operation"] in {"leaf", "constant"}:
            found[place] = (changed or {}).get(node["label"], node["value"])
        else:
            operands = [found[item["node"]] if "node" in item else item["value"] for item in node["operands"]]
            found[place] = SIGNS[node["operation"]](*operands)
    return found[0]


def numbers(value: Any, path: str = "") -> list[str]:
    """Every path of a document that ends in a number."""
    if isinstance(value, dict):
        return [place for key, item in value.items() for place in numbers(item, f"{path}.{key}" if path else key)]
    if isinstance(value, list):
        return [place for index, item in enumerate(value) for place in numbers(item, f"{path}[{index}]")]
    return [path] if isinstance(value, (int, float)) and not isinstance(value, bool) else []


@cache
def document(seed: int) -> dict[str, Any]:
    """A random result of a random verb."""
    draw = Random(seed)  # noqa: S311 - test cases, not secrets
    model, system = read_model(draw.choice(RESULT_MODELS)), read_system(draw.choice(SYSTEMS))
    context = draw.choice((1000, 8192, 65_536))
    verb = draw.choice(("turns", "batches", "fit", "inspect"))
    reserve = draw.choice((None, ReserveRule()))
    if verb == "inspect":
        length = draw.choice((0, 1, 4096, 40_000))
        result = inspect(model, InspectOptions(batch=draw.randint(1, 64), context=context, sequence=length))
    elif verb == "fit":
        layout = replica_layout(model, draw.choice((1, 2, 4)), draw.choice((1, 2)), 1)
        engine = draw.choice((None, EngineOptions(name="vllm")))
        sessions = draw.randint(1, 9)
        result = fit(
            model, system, layout, FitOptions(context=context, sessions=sessions, reserve=reserve, engine=engine)
        )
    elif verb == "turns":
        powered = replace(system, node_power=10_200.0)
        result = plan_serve(model, powered, _turns(draw, context), _options(draw, model, reserve))
    else:
        job = ServeJob(
            sessions=draw.randint(1, 99),
            context=context,
            new_tokens=draw.randint(1, 64),
            tpot=draw.choice((None, 0.02, 0.1)),
            ttft=draw.choice((3.0, 60.0)),
        )
        prefill = draw.choice(("cached", "between_steps"))
        result = plan_serve(model, system, job, replace(_options(draw, model, reserve), fault=None, prefill=prefill))
    return json.loads(json.dumps(as_json(result)))


def _turns(draw: Random, context: int) -> ServeJob:
    deadline = draw.choice((None, draw.uniform(0.05, 5.0)))
    return ServeJob(
        sessions=draw.randint(1, 12),
        context=context,
        new_tokens=draw.randint(1, 64),
        deadline=deadline,
        deadline_from=None if deadline is None else deadline / 4,
        on_time=draw.choice((1.0, 0.5)),
    )


def _options(draw: Random, model: Model, reserve: ReserveRule | None) -> ServeOptions:
    options = ServeOptions(
        all_reduce=draw.choice(("auto", "ring", "tree", "measured")),
        all_reduce_time=draw.choice((None, None, 2e-5)),
        weight_reads=draw.choice(("strict", "even")),
        flips="none",
        fault=draw.choice((None, Fault(domain="card", index=0, at=0.02, stall=0.04))),
        reserve=reserve,
        shards=draw.choice(("strict", "even")),
    )
    more = draw.choice(("nothing", "cp", "engine", "experts"))
    if more == "cp":
        split, exchange = draw.choice(("zigzag", "contiguous", "striped")), draw.choice(("ring", "all_gather"))
        return replace(options, cp=draw.choice(((1, 2), (1, 2, 4))), cp_split=split, cp_exchange=exchange)
    if more == "engine":
        return replace(options, reserve=None, engine=EngineOptions(name=draw.choice(("vllm", "sglang"))))
    if more == "experts" and has_experts(model):
        return replace(
            options,
            attention=draw.choice(("data_parallel", "any")),
            expert_reads=draw.choice(("expected", "full")),
            dedup=draw.choice(("none", "rank", "node")),
            dispatch=draw.choice(("plain", "fp8")),
        )
    return options


def explained(seed: int, draw: Random, count: int) -> set[str]:
    """So many random numbers of a random result, each evaluated; the heads of their paths."""
    found = document(seed)
    refused = [place for place, item in enumerate(found.get("candidates", [])) if not item["memory"]]
    heads = ("flips", "defaulted", *(f"candidates[{place}]." for place in refused))
    paths = [path for path in numbers(found) if not path.startswith(heads)]
    chosen = draw.sample(paths, count)
    for path in chosen:
        told = explain(found, ExplainOptions(path=path))
        assert told.verdict.answer == "yes", (seed, told.verdict.text)
        assert evaluated(told.body["expression"]) == pytest.approx(told.body["saved_value"], rel=1e-12), (seed, path)
    return {path.split(".")[0].split("[")[0] for path in chosen}


def test_random_paths_of_random_results_evaluate_to_their_number():
    draw = Random(0)  # noqa: S311 - test cases, not secrets
    heads = [explained(seed, draw, PATHS // RESULTS) for seed in range(RESULTS)]
    assert {"candidates", "inputs"} <= set.union(*heads)


def test_points_of_the_front_with_one_layout_are_told_apart_by_their_batch():
    job = ServeJob(sessions=9, context=1000, new_tokens=8, tpot=0.1, ttft=3.0)
    plan = plan_serve(read_model("Qwen/Qwen3-32B"), read_system("hgx-h100"), job, ServeOptions(flips="none"))
    found = json.loads(json.dumps(as_json(plan)))
    points = found["pareto"]
    assert len(points) > len({item["id"] for item in points}) > 1
    for place, point in enumerate(points):
        told = explain(found, ExplainOptions(path=f"pareto[{place}].tokens_per_s"))
        assert told.body["value"] == point["tokens_per_s"]


def test_groups_of_as_many_layers_are_told_apart_by_their_place():
    model = read_model("moonshotai/Kimi-Linear-48B-A3B-Instruct")
    saved = json.loads(json.dumps(as_json(inspect(model, InspectOptions()))))
    latent = [place for place, group in enumerate(model.groups) if "kv_rank" in dir(group.block.mixer)]
    assert len({model.groups[place].count for place in range(len(model.groups))}) < len(model.groups) > len(latent) > 1
    for place in latent:
        path = f"inputs.model.groups[{place}].block.mixer.kv_rank"
        assert explain(saved, ExplainOptions(path=path)).verdict.answer == "yes", path


def test_a_layout_that_does_not_fit_explains_its_bytes():
    job = ServeJob(sessions=99, context=65_536, new_tokens=5, tpot=0.1, ttft=3.0)
    plan = plan_serve(read_model("Qwen/Qwen3-32B"), read_system("hgx-h100"), job, ServeOptions(flips="none"))
    saved = json.loads(json.dumps(as_json(plan)))
    large = [place for place, item in enumerate(saved["candidates"]) if item["memory"] and not item["fits"]]
    assert large
    for place in large:
        told = explain(saved, ExplainOptions(path=f"candidates[{place}].memory.per_rank_bytes"))
        assert evaluated(told.body["expression"]) == saved["candidates"][place]["memory"]["per_rank_bytes"]


@pytest.mark.campaign
@pytest.mark.parametrize("chunk", range(10))
def test_more_paths_of_more_results_evaluate_to_their_number(chunk: int, record_property: Any):
    draw = SystemRandom()
    for _ in range(10):
        assert explained(draw.randrange(2**48), draw, 10)
    record_property("cases", 100)


CHANGES = {
    "system.accelerator.memory_bandwidth": 1.001,
    "system.accelerator.peak.bf16": 1.001,
    "system.scale_up.latency": 1.001,
    "system.scale_up.bandwidth": 1.001,
    "job.context": 8200 / 8192,
    "job.new_tokens": 9 / 8,
    "options.workspace": 1.0009765625,
}
MOVED = ("step_time_s", "service_time_s", "last_finish_s", "cost_gpu_s", "prefill_time_s", "memory.per_rank_bytes")


@pytest.mark.parametrize("name", MODELS[:4])
def test_changing_an_input_of_an_expression_gives_what_the_product_gives_for_it(name):
    model, system = read_model(name), read_system("hgx-h100")
    job, options = ServeJob(sessions=4, context=8192, new_tokens=8), ServeOptions(all_reduce="ring", flips="none")
    before = json.loads(json.dumps(as_json(plan_serve(model, system, job, options))))
    told = {path: explain(before, ExplainOptions(path=f"best.{path}")).body["expression"] for path in MOVED}
    best = before["best"]["layout"]
    fixed = replace(options, layout={key: best[key] for key in ("replicas", "tp", "pp", "ep", "etp")})
    nouns: dict[str, Any] = {"model": model, "system": system, "job": job, "options": fixed}
    moved: set[tuple[str, str]] = set()
    for label, factor in CHANGES.items():
        noun, _, rest = label.partition(".")
        now = get_path(nouns[noun], rest)
        value = round(now * factor) if isinstance(now, int) else now * factor
        changed = nouns | {noun: put_path(nouns[noun], rest, value)}
        after = as_json(plan_serve(*(changed[key] for key in ("model", "system", "job", "options"))))["candidates"][0]
        for path, nodes in told.items():
            assert evaluated(nodes, {label: value}) == pytest.approx(get_path(after, path), rel=1e-12), (label, path)
            if any(node["label"] == label for node in nodes):
                moved.add((label, path))
    assert {label for label, _ in moved} >= CHANGES.keys() - {"system.scale_up.latency", "system.scale_up.bandwidth"}


def test_the_saved_number_is_doubted_when_the_inputs_give_another():
    found = {**document_of_a_plan()}
    found["best"] = {**found["best"], "step_time_s": found["best"]["step_time_s"] * 1.01}
    told = explain(found, ExplainOptions(path="best.step_time_s"))
    assert told.verdict.answer == "no"
    assert "its inputs now give" in told.verdict.text


@cache
def document_of_a_plan() -> dict[str, Any]:
    model, system = read_model("Qwen/Qwen3-32B"), read_system("hgx-h100")
    job = ServeJob(sessions=4, context=8192, new_tokens=8)
    return json.loads(json.dumps(as_json(plan_serve(model, system, job, ServeOptions()))))


def test_a_layout_is_named_by_place_or_by_id():
    found = document_of_a_plan()
    name = found["candidates"][2]["id"]
    by_id = explain(found, ExplainOptions(path=f"candidates[id={name}].step_time_s"))
    by_place = explain(found, ExplainOptions(path="candidates[2].step_time_s"))
    assert by_id.body["value"] == by_place.body["value"]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("best.nothing", "IO044"),
        ("best", "IO044"),
        ("best.id", "IO044"),
        ("candidates[999].step_time_s", "IO044"),
        ("candidates[id=tp=3].step_time_s", "IO044"),
        ("candidates[one].step_time_s", "IO044"),
        ("best.step_time_s.more", "IO044"),
        ("best..step_time_s", "IO044"),
        ("", "IO044"),
        ("best.fits", "IO044"),
        ("flips[0].value", "IO045"),
        ("defaulted[0].value", "IO044"),
    ],
)
def test_a_path_without_a_number_is_refused_with_a_fix(path, code):
    with pytest.raises(UserError) as caught:
        explain(document_of_a_plan(), ExplainOptions(path=path))
    assert caught.value.code == code
    assert caught.value.fix


def test_a_field_that_took_its_default_is_no_formula():
    found = json.loads(json.dumps(as_json(inspect(read_model("meta-llama/Llama-3.1-8B"), InspectOptions()))))
    assert found["defaulted"]
    with pytest.raises(UserError) as caught:
        explain(found, ExplainOptions(path="defaulted[0].value"))
    assert caught.value.code == "IO045"


def test_an_answer_of_another_command_has_no_expressions():
    with pytest.raises(UserError) as caught:
        explain({"command": "list models", "inputs": {}}, ExplainOptions(path="items[0].parameters"))
    assert caught.value.code == "IO046"
