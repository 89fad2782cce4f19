"""Training FLOPs of any model: they add up, grow as they must, and follow from the inputs that they name."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright import InspectOptions, as_json, inspect, read_model
from meshwright.base.parse import put_path
from meshwright.cost.model_flops import (
    CONVENTIONS,
    flops_per_token,
    forward_flops,
    job_flops,
    model_flops,
    read_convention,
    step_flops,
)
from meshwright.scenarios.explain import ExplainOptions, explain
from meshwright.scenarios.inspect import prefill_flops
from meshwright.workload.operators import operators
from tests.laws.test_explain import evaluated

NAMES = ("Qwen/Qwen3-8B", "Qwen/Qwen3-30B-A3B", "google/gemma-2-9b", "zai-org/GLM-4.5-Air", "gpt3-175b")
MODELS = {name: read_model(name) for name in NAMES}
LENGTHS = st.integers(1, 200_000)
CHANGES = {
    "options.sequence": 8200,
    "model.hidden": 6144,
    "model.groups.0.count": 96,
    "model.groups.0.block.feed_forward.top_k": 9,
    "model.groups.0.block.mixer.heads": 40,
}


@given(name=st.sampled_from(NAMES), length=LENGTHS)
def test_shapes_are_three_forwards_of_every_operator(name, length):
    parts = [forward_flops(item, length) * item.count for item in operators(MODELS[name])]
    assert model_flops(MODELS[name], length) == pytest.approx(3 * sum(parts), rel=1e-12)


@given(name=st.sampled_from(NAMES), length=LENGTHS)
def test_a_forward_is_a_prefill_that_sends_every_token_through_the_head(name, length):
    model = MODELS[name]
    head = next(item for item in operators(model) if item.sampled)
    rest = 2 * head.weights[0].elements * (length - 1)
    assert model_flops(model, length) / 3 == pytest.approx(prefill_flops(model, length) + rest, rel=1e-12)


@given(name=st.sampled_from(NAMES), length=LENGTHS, convention=st.sampled_from(CONVENTIONS.names()))
def test_steps_and_jobs_are_multiples_of_a_token(name, length, convention):
    model, token = MODELS[name], flops_per_token(MODELS[name], length, convention)
    assert step_flops(model, length, 7, convention) == pytest.approx(7 * length * token, rel=1e-12)
    assert job_flops(model, length, 10**12, convention) == pytest.approx(10**12 * token, rel=1e-12)


@given(name=st.sampled_from(NAMES), length=st.integers(1, 100_000))
def test_a_longer_sequence_costs_a_token_more_unless_attention_is_not_counted(name, length):
    for convention in CONVENTIONS.names():
        short, long = (flops_per_token(MODELS[name], size, convention) for size in (length, 2 * length))
        free = read_convention(convention).pairs == "none"
        assert long == pytest.approx(short, rel=1e-12) if free else long > short


@pytest.mark.parametrize("name", NAMES[:2])
def test_changing_an_input_of_a_count_gives_what_the_product_gives_for_it(name):
    nouns = {"model": MODELS[name], "options": InspectOptions(sequence=8192)}
    before = json.loads(json.dumps(as_json(inspect(**nouns))))
    paths = [f"training.conventions[{place}].flops_per_token" for place in range(len(CONVENTIONS.names()))]
    told = {path: explain(before, ExplainOptions(path=path)).body["expression"] for path in paths}
    moved = set()
    for label, value in CHANGES.items():
        if label.endswith("top_k") and name == NAMES[0]:
            continue
        noun, _, rest = label.partition(".")
        after = as_json(inspect(**{**nouns, noun: changed(nouns[noun], rest, value)}))["training"]["conventions"]
        for place, path in enumerate(paths):
            assert evaluated(told[path], {label: value}) == pytest.approx(after[place]["flops_per_token"], rel=1e-12)
            if any(node["label"] == label for node in told[path]):
                moved.add(label)
    assert len(moved) >= len(CHANGES) - 1


def changed(noun, path, value):
    """The noun with one number replaced; that of its first group where the path leads there."""
    if not path.startswith("groups.0."):
        return put_path(noun, path, value)
    first, *rest = noun.groups
    return replace(noun, groups=(put_path(first, path.removeprefix("groups.0."), value), *rest))
