"""A model whose fields were set by hand is checked as a config is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meshwright.base.errors import ModelError
from meshwright.base.parse import set_path
from meshwright.model.checks import checked_model
from meshwright.model.feed_forwards import Dense, Experts
from meshwright.model.mixers import Attention
from meshwright.model.model import Block, BlockGroup
from meshwright.model.reader import CATALOG, read_config
from tests.unit.model.configs import LLAMA, read_entry


@pytest.fixture
def model():
    scaling = {"rope_type": "linear", "factor": 0.5}
    return read_config({**LLAMA, "rope_scaling": scaling}, "model")


def refused(model):
    with pytest.raises(ModelError) as caught:
        checked_model(model, "model")
    assert caught.value.fix
    return caught.value


@pytest.mark.parametrize("entry", CATALOG.names())
def test_every_catalog_entry_is_in_order(entry):
    model = read_entry(entry)
    assert checked_model(model, "model") is model


def test_a_stretching_of_positions_may_be_any_finite_number(model):
    assert checked_model(model, "model") is model
    endless = replace(model, rope=replace(model.rope, factor=float("inf")))
    assert refused(endless).cause == "model.rope.factor is inf"


@pytest.mark.parametrize(
    ("path", "text"),
    [("hidden", "0"), ("vocab", "-3"), ("weights.bits", "65"), ("kv.bits", "0"), ("max_positions", "2000000000")],
)
def test_a_number_out_of_range_is_refused_by_its_place(model, path, text):
    error = refused(set_path(model, path, text))
    assert error.code == "MOD014"
    assert error.cause == f"model.{path} is {text}"


def with_block(model, block, count=1):
    return replace(model, groups=(BlockGroup(count=count, block=block),))


def test_a_number_inside_a_block_is_refused_by_its_place(model):
    block = Block(mixer=Attention(heads=4, kv_heads=2, head_dim=0), feed_forward=Dense(intermediate=8))
    assert refused(with_block(model, block)).cause == "model.groups.0.block.mixer.head_dim is 0"


def test_heads_and_experts_that_contradict_each_other_are_refused(model):
    attention, dense = Attention(heads=4, kv_heads=2, head_dim=4), Dense(intermediate=8)
    uneven = Block(mixer=replace(attention, kv_heads=3), feed_forward=dense)
    assert refused(with_block(model, uneven)).code == "MOD007"
    greedy = Block(mixer=attention, feed_forward=Experts(experts=4, top_k=5, intermediate=8))
    assert refused(with_block(model, greedy)).code == "MOD010"


def test_more_than_any_model_has_is_refused(model):
    assert refused(replace(model, groups=())).code == "MOD012"
    assert refused(with_block(model, model.kinds[0], count=10_001)).code == "MOD012"
    assert refused(replace(model, hidden=10**9, vocab=10**9)).code == "MOD012"
