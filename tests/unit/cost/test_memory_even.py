"""The even form of the ledger: footnote 37 of the chapter "Supernodes", and what it shares with the strict one."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.cost.memory_even import sharded_cached, sharded_ledger, sharded_parts
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.model.model import parameter_bytes
from meshwright.model.reader import read_model
from tests.golden.rows import facts

_32B, _30B, _235B = (read_model(f"Qwen/Qwen3-{name}") for name in ("32B", "30B-A3B", "235B-A22B"))
_ROOM = {"workspace_bytes": 2 * 2**30, "capacity_bytes": 80 * 10**9}
_EXPECTED = {fact.id: fact.value for fact in facts() if fact.unit == "requests"}


def _ledger(model, tp, shards="even", tokens=8192, sessions=1, **degrees):
    experts = degrees or {"etp": 1 if model is _32B else tp}
    layouts = table([Layout(tp=tp, **experts)])
    return sharded_ledger(model, layouts, shards=shards, sessions=np.array([sessions]), tokens=tokens, **_ROOM)


@pytest.mark.parametrize(
    ("row", "model", "cards", "tokens"),
    [
        ("G6-077", _32B, 1, 131072),
        ("G6-078", _32B, 1, 32768),
        ("G6-079", _32B, 2, 131072),
        ("G6-080", _32B, 2, 32768),
        ("G6-081", _30B, 1, 131072),
        ("G6-082", _30B, 1, 32768),
        ("G6-083", _30B, 2, 131072),
        ("G6-084", _30B, 2, 32768),
    ],
)
def test_the_requests_that_fit_are_those_of_the_footnote(row, model, cards, tokens):
    assert int(_ledger(model, cards, tokens=tokens).max_sessions[0]) == _EXPECTED[row]


@pytest.mark.parametrize("model", [_32B, _30B, _235B])
@pytest.mark.parametrize("tp", [1, 2, 4, 8])
def test_the_form_is_the_exact_quotient(model, tp):
    """`floor((n (C - U) - W) / S)` with whole numbers, W and S whole."""
    weights = parameter_bytes(model)["total"]
    session = int(_ledger(model, 1, tokens=8192).kv_cache[0])
    room = tp * (_ROOM["capacity_bytes"] - _ROOM["workspace_bytes"]) - weights
    assert int(_ledger(model, tp).max_sessions[0]) == max(room, 0) // session


def test_no_kv_head_bounds_the_even_form():
    layouts = table([Layout(tp=8, etp=8)])
    strict, even = (int(sharded_cached(_235B, layouts, 1, shards)[0]) for shards in ("strict", "even"))
    assert even * 2 == strict  # 4 KV heads over 8 ranks


def test_norms_and_router_are_not_repeated():
    assert int(_ledger(_235B, 8, "strict").parameters[0]) > int(_ledger(_235B, 8).parameters[0])
    assert int(_ledger(_235B, 8).parameters[0]) == -(-parameter_bytes(_235B)["total"] // 8)


@pytest.mark.parametrize("model", [_32B, _30B])
def test_on_one_rank_the_forms_are_one(model):
    strict, even = (_ledger(model, 1, shards) for shards in ("strict", "even"))
    for name in strict.__dataclass_fields__:
        assert getattr(strict, name).tolist() == getattr(even, name).tolist()


@pytest.mark.parametrize("degrees", [{"ep": 8}, {"etp": 8}, {"ep": 2, "etp": 4}])
def test_how_experts_lie_over_a_group_does_not_change_the_even_form(degrees):
    assert int(_ledger(_235B, 8, **degrees).parameters[0]) == -(-parameter_bytes(_235B)["total"] // 8)


@pytest.mark.parametrize("tp", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("pp", [1, 2, 3])
def test_items_and_parts_add_up_to_the_byte(tp, pp):
    layout = Layout(tp=tp, pp=pp)
    ledger = sharded_ledger(_32B, table([layout]), shards="even", sessions=np.array([3]), tokens=777, **_ROOM)
    assert int(ledger.total[0]) == int(ledger.parameters[0] + ledger.kv_cache[0] + ledger.workspace[0])
    parts = sharded_parts(_32B, layout, int(ledger.stage[0]), "even")
    assert sum(parts.values()) == int(ledger.parameters[0])
