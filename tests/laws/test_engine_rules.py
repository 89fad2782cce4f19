"""Engines' rules: each can hold and fail, columns agree with single rows, and what is proposed is not refused."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.layout.engine_rules import code_of, engine_rules
from meshwright.layout.layout import Layout, read_fixed
from meshwright.layout.layouts import table
from meshwright.layout.rules import first_broken, keeps, keeps_all
from meshwright.model.feed_forwards import Dense, Experts
from meshwright.model.formats import BF16, WHOLE, fp8_block, weight_format
from meshwright.model.mixers import Attention
from meshwright.model.model import Block, BlockGroup, Model
from meshwright.model.reader import read_model
from meshwright.system.conditions import read_condition
from meshwright.system.engine import ENGINES, JOB_NAMES, NAMES, read_engine
from tests.laws.strategies import models

EVERY = ENGINES.names()
DEGREES = (1, 1, 2, 3, 4, 6, 8)
BATCH, SEQUENCE = 48, 90


@cache
def rules_of(name):
    """The rules with a job's numbers, as a training plan gives them."""
    return engine_rules(read_engine(name), _numbers())


def _numbers():
    def micro_batches(layouts):
        return BATCH // (layouts.degree("dp_shard") * layouts.degree("dp_replicate") * layouts.degree("micro_batch"))

    return {"sequence": SEQUENCE, "global_batch": BATCH, "micro_batches": micro_batches}


def _layout(draw: Random) -> Layout:
    """Degrees and choices of every kind, most of them plain."""
    plain = draw.random() < 0.5
    found = {name: draw.choice(DEGREES) for name in ("tp", "pp", "ep", "etp", "cp", "dp_shard", "dp_replicate")}
    others = {} if plain else {
        "zero": draw.randint(0, 3),
        "sp": draw.random() < 0.5,
        "virtual_stages": draw.choice((1, 1, 2, 3)),
        "micro_batch": draw.choice((1, 2, 3)),
        "schedule": draw.choice((None, "one_f_one_b", "interleaved", "zero_bubble_v", "zero_bubble_h1")),
        "recompute": draw.choice(("none", "full", "attention", "uniform_2", "every_2")),
        "offload": draw.choice(("none", "activations", "optimizer", "optimizer+parameters", "tape")),
    }  # fmt: skip
    kept = draw.sample(sorted(found), draw.randint(1, 3)) if draw.random() < 0.7 else sorted(found)
    return Layout(**{name: found[name] for name in kept}, **others)


def _model(draw: Random) -> Model:
    """A small model: attention, a dense layer or a mixture with or without a shared expert, plain or with scales."""
    heads = draw.choice((4, 6, 8, 12))
    dense = Dense(intermediate=draw.choice((20, 24, 48)))
    experts = Experts(
        experts=draw.choice((4, 6, 8)),
        top_k=2,
        intermediate=draw.choice((10, 12, 24)),
        shared=draw.choice((None, dense)),
    )
    mixer = Attention(heads=heads, kv_heads=draw.choice((1, 2, 4, heads)), head_dim=8)
    block = Block(mixer=mixer, feed_forward=draw.choice((dense, experts)))
    group = replace(weight_format("int4", BF16), block=(1, 8))
    return Model(
        name="small", family="small", hidden=24, vocab=draw.choice((32, 64, 37)), tied=draw.random() < 0.5,
        groups=(BlockGroup(count=draw.choice((2, 3, 4, 6)), block=block),), max_positions=None,
        weights=draw.choice((BF16, fp8_block(8, 8), group)),
    )  # fmt: skip


@cache
def drawn():
    """Models, each with a table of layouts."""
    draw = Random(7)  # noqa: S311 - test cases, not secrets
    return tuple((_model(draw), table([_layout(draw) for _ in range(200)])) for _ in range(40))


@pytest.mark.parametrize("name", EVERY)
def test_every_rule_and_axis_of_an_engine_can_hold_and_can_fail(name):
    rules = rules_of(name)
    held, failed = np.zeros(len(rules), dtype=bool), np.zeros(len(rules), dtype=bool)
    for model, layouts in drawn():
        for place, rule in enumerate(rules):
            kept = rule.keeps(model, layouts)
            held[place] |= kept.any()
            failed[place] |= not kept.all()
    assert held.all()
    silent = [f"{rule.code} {rule.axis}" for rule, any_failed in zip(rules, failed, strict=True) if not any_failed]
    assert silent == []


@pytest.mark.parametrize("name", EVERY)
def test_columns_say_what_single_rows_say(name):
    rules = rules_of(name)
    taken = 0
    for model, layouts in drawn()[:2]:
        few = layouts.take(np.arange(40))
        whole = keeps(model, few, rules)
        assert not whole.all()
        assert whole.tolist() == [bool(keeps(model, table([layout]), rules)[0]) for layout in few.rows()]
        taken += int(whole.sum())
    assert taken


@pytest.mark.parametrize("name", EVERY)
def test_of_a_large_table_rows_that_differ_in_what_a_rule_reads_are_asked_apart(name, monkeypatch):
    for model, layouts in drawn():
        each = [rule.keeps(model, layouts).tolist() for rule in rules_of(name)]
        with monkeypatch.context() as large:
            large.setattr("meshwright.layout.engine_rules._MANY", 0)
            assert [rule.keeps(model, layouts).tolist() for rule in rules_of(name)] == each


@pytest.mark.parametrize("name", EVERY)
def test_what_is_proposed_in_place_of_a_refused_layout_is_refused_by_nothing(name):
    rules = rules_of(name)
    asked = 0
    for model, layouts in drawn()[:4]:
        few = layouts.take(np.arange(12))
        for layout, broken in zip(few.rows(), first_broken(model, few, 16, rules), strict=True):
            if broken is None or broken.nearest is None:
                continue
            change = read_fixed(broken.nearest)
            moved = replace(layout, **change)
            followed = replace(moved, etp=max(moved.tp // moved.ep, 1))
            both = [moved] if "etp" in change else [moved, followed]
            assert keeps_all(model, table(both), rules).any(), (layout, broken)
            asked += 1
    assert asked > 5


@settings(max_examples=10)
@given(model=models(), seed=st.integers(0, 10**6), name=st.sampled_from(EVERY))
def test_a_refusal_names_the_engine_its_version_and_a_message_without_gaps(model, seed, name):
    draw = Random(seed)  # noqa: S311 - test cases, not secrets
    engine = read_engine(name)
    layouts = table([_layout(draw) for _ in range(3)])
    for broken in first_broken(model, layouts, 8, rules_of(name)):
        if broken is not None and broken.code.startswith("ENG"):
            assert engine.titled in broken.reason
            assert "{" not in broken.reason


@pytest.mark.parametrize("name", EVERY)
def test_without_a_job_only_the_rules_of_its_numbers_are_not_asked(name):
    engine = read_engine(name)
    left = [rule for rule in engine.rules.values() if read_condition(rule.requires, NAMES, name).names & JOB_NAMES]
    assert len(engine_rules(engine)) == len(rules_of(name)) - len(left)
    assert bool(left) == (engine.jobs == ("train",))


@pytest.mark.parametrize("name", EVERY)
def test_every_rule_has_a_code_and_says_why_it_holds(name):
    for rule in read_engine(name).rules.values():
        assert code_of(rule).startswith("ENG0")
        assert rule.message


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_an_output_that_is_no_number_of_blocks_is_refused_even_whole(name):
    """gate and up put out 20 columns in blocks of 8 on one device, which down may take in."""
    group = BlockGroup(
        count=1, block=Block(mixer=Attention(heads=4, kv_heads=4, head_dim=8), feed_forward=Dense(intermediate=20))
    )
    model = Model(
        name="small", family="small", hidden=32, vocab=64, tied=False, groups=(group,), max_positions=None,
        weights=fp8_block(8, 8),
    )  # fmt: skip
    rules = engine_rules(read_engine(name))
    found = first_broken(model, table([Layout()]), 1, rules)[0]
    assert found.code == "ENG022"
    assert "output size per partition = 20 " in found.reason


@pytest.mark.parametrize("name", ["vllm", "sglang", "tensorrt-llm"])
def test_a_scale_for_a_whole_row_is_cut_with_its_row(name):
    block = Block(mixer=Attention(heads=4, kv_heads=4, head_dim=8), feed_forward=Dense(intermediate=24))
    model = Model(
        name="small", family="small", hidden=32, vocab=64, tied=False, groups=(BlockGroup(count=1, block=block),),
        max_positions=None, weights=weight_format("int8", BF16),
    )  # fmt: skip
    assert model.weights.block == (1, WHOLE)
    assert first_broken(model, table([Layout(tp=2)]), 2, engine_rules(read_engine(name)))[0] is None


@pytest.mark.parametrize("name", ["vllm", "sglang", "tensorrt-llm"])
def test_no_engine_is_quoted_of_heads_that_its_config_does_not_count(name):
    """Eight output groups beside 64 attention heads: 16 ranks break our rule, and no engine's of attention heads."""
    model = read_model("deepseek-ai/DeepSeek-V4-Flash")
    said = first_broken(model, table([Layout(tp=16, etp=16)]), 16, rules_of(name))[0]
    assert (said.code, "8 output groups" in said.reason) == ("LAY003", True)
