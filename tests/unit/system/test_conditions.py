"""Conditions of data files: what they mean, over numbers and columns, and what is none."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.base.errors import EngineError
from meshwright.system.conditions import read_condition

KNOWN = frozenset({"tp", "heads", "schedule", "sp"})


def _of(text, **values):
    return read_condition(text, KNOWN, "test").of(values)


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("heads % tp == 0", [True, True, False, True]),
        ("heads % tp == 0 and not sp", [True, False, False, False]),
        ("tp == 1 or sp and heads // tp == 4", [True, False, False, True]),
        ("(heads + 3) // 5 * 4 - tp >= 10", [True, True, False, False]),
        ("schedule in ('a', 'b')", [True, True, False, False]),
        ("schedule not in ('a', 'b')", [False, False, True, True]),
        ("1 < tp <= 3", [False, True, True, False]),
        ("schedule != 'a'", [False, True, True, True]),
    ],
)
def test_a_condition_holds_where_it_says(text, held):
    columns = {
        "tp": np.array([1, 2, 3, 4]),
        "heads": 16,
        "sp": np.array([False, True, True, True]),
        "schedule": np.array(["a", "b", None, "c"], dtype=object),
    }
    whole = np.broadcast_to(_of(text, **columns), 4)
    assert whole.tolist() == held


def test_numbers_alone_give_a_number():
    assert _of("heads * 3 - tp", heads=4, tp=2) == 10


@pytest.mark.parametrize(
    "text",
    ["heads %", "heads.bit_length() == 1", "__import__('os')", "[tp]", "tp == 1.5", "tp if sp else heads", "lambda: 1",
     "tp ** 9", "depth == 1", "x" * 99, ""],
)  # fmt: skip
def test_what_is_no_condition_is_refused_with_its_place(text):
    with pytest.raises(EngineError) as problem:
        read_condition(text, KNOWN, "rules.own")
    assert problem.value.code == "ENG005"
    assert "rules.own" in problem.value.cause


def test_a_part_that_does_not_decide_may_divide_by_nothing():
    assert _of("tp == 0 or heads % tp == 0", tp=np.array([0, 4]), heads=8).tolist() == [True, True]
