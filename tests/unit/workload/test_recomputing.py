"""Recompute policies: every registered one reads, and says what runs again."""

from __future__ import annotations

import pytest

from meshwright.base.errors import LayoutError
from meshwright.model.reader import read_model
from meshwright.workload.operators import operators
from meshwright.workload.recomputing import RECOMPUTE, read_recompute, repeated

NAMES = [name + "_4" * RECOMPUTE.module(name).COUNTED for name in RECOMPUTE.names()]


def test_the_policies_are_registered():
    assert NAMES == ["attention", "every_4", "full", "none", "selective", "uniform_4"]


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_has_title_and_source(name):
    policy = RECOMPUTE.module(name.removesuffix("_4"))
    assert policy.TITLE
    assert policy.SOURCE
    assert read_recompute(name) == policy.recompute(4 if policy.COUNTED else 1)


@pytest.mark.parametrize(
    ("name", "block", "core"),
    [
        ("none", 0, 0),
        ("selective", 0, 0),
        ("attention", 0, 1),
        ("full", 1, 1),
        ("uniform_4", 1, 1),
        ("every_4", 0.25, 0.25),
    ],
)
def test_operators_that_run_again(name, block, core):
    model = read_model("Qwen/Qwen3-30B-A3B")
    share = repeated(model, name)
    assert set(share) == {item.name for item in operators(model)}
    assert share.pop("lm_head") == 0
    assert share.pop("attention") == core
    assert set(share.values()) == {block}


def test_a_number_out_of_place_is_refused_with_what_works():
    with pytest.raises(LayoutError) as caught:
        read_recompute("uniform")
    assert "uniform_N" in caught.value.fix
