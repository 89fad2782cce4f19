"""Traced numbers behave as the numbers they hold, and remember every step that changed them."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.base import numbers
from meshwright.base.traced import Traced, cell, expression, formula, leaf, named, opaque, stated, values

NUMBERS = st.one_of(st.integers(1, 10**6), st.floats(0.5, 1e6))
SIGNS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}


def five() -> Traced:
    return leaf(5, "job.sessions", basis="assumed", source="the question")


@given(NUMBERS, NUMBERS, st.sampled_from(sorted(SIGNS)), st.booleans())
def test_an_operation_gives_the_plain_number_and_keeps_both_operands(left, right, sign, both):
    traced = leaf(left, "left", basis="config")
    other = leaf(right, "right", basis="config") if both else right
    for made, first, second in ((SIGNS[sign](traced, other), left, right), (SIGNS[sign](other, traced), right, left)):
        assert values(made) == SIGNS[sign](first, second)
        assert isinstance(made, Traced)


@given(NUMBERS, NUMBERS)
def test_comparisons_are_those_of_the_plain_numbers(left, right):
    traced = leaf(left, "left", basis="config")
    for compare in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq):
        assert compare(traced, right) is compare(left, right)
        assert compare(traced, leaf(right, "right", basis="config")) is compare(left, right)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("maximum", (5, 3)),
        ("minimum", (5, 3)),
        ("ceil", (2.5,)),
        ("floor", (2.5,)),
        ("divide_up", (7, 2)),
        ("whole", (7.0,)),
        ("doublings", (8,)),
        ("doublings", (9,)),
        ("log2", (8.0,)),
        ("exp", (0.5,)),
    ],
)
def test_the_arithmetic_namespace_records_columns_of_traced_numbers(name, arguments):
    function = getattr(numbers, name)
    plain = function(*(np.array([item]) for item in arguments))
    traced = function(*(np.array([leaf(item, f"argument{i}", basis="config")]) for i, item in enumerate(arguments)))
    assert isinstance(traced[0], Traced)
    assert traced[0].value == pytest.approx(plain[0], rel=1e-15)
    labels = {node["label"] for node in expression(traced[0], "path")}
    assert {f"argument{i}" for i in range(len(arguments))} <= labels


def test_numpy_columns_of_plain_numbers_take_a_traced_number_in():
    column = np.arange(3.0) * five() + np.int64(2)
    assert values(column).tolist() == [2.0, 7.0, 12.0]
    assert values(np.float64(3.0) * five()) == 15.0
    assert values(np.array([five(), five()]) @ np.array([1, 2])) == 15


def test_steps_that_change_nothing_are_not_recorded():
    number = five()
    assert (number + 0) is number
    assert (0.0 + number) is number
    assert (number * 1) is number
    assert (number - 0) is number
    assert number * 0 == 0
    assert not isinstance(number * 0, Traced)


@pytest.mark.parametrize(
    ("made", "value"),
    [(lambda x: 0 - x, -5), (lambda x: 1 / x, 0.2), (lambda x: 1 // x, 0), (lambda x: x // 1, 5), (lambda x: x**1, 5)],
)
def test_steps_that_change_a_number_are_recorded(made, value):
    found = made(five())
    assert found.value == value
    assert found.operands


def test_a_traced_number_is_never_taken_for_the_plain_one_by_a_cache():
    assert five() == 5
    assert hash(five()) != hash(5)
    assert hash(five()) == hash(five())


def test_where_keeps_the_branch_that_was_taken():
    found = numbers.where(np.array([True, False]), np.array([five(), five()]), np.array([1, 2]))
    assert isinstance(found[0], Traced)
    assert found[1] == 2
    assert numbers.is_nan(np.array([leaf(math.nan, "x", basis="config"), five()])).tolist() == [True, False]


def test_a_formula_names_its_result_and_states_the_source_of_its_docstring():
    @formula
    def twice_s(value_s):
        """Twice as long.

        Source: a book, page 2. Leaves out everything else.
        """
        return value_s * 2

    found = twice_s(five())
    assert (found.label, found.source, found.value) == ("twice_s", "a book, page 2", 10)
    assert twice_s(4.0) == 8.0
    assert twice_s(np.array([five()]))[0].label == "twice_s"


def test_an_opaque_function_is_one_step():
    counted = opaque(math.comb)
    found = counted(five(), 2)
    assert (found.operation, found.value) == ("comb", 10)
    assert counted(5, 2) == 10


def test_plain_numbers_pass_the_tracing_functions_unchanged():
    column = np.array([1.0, 2.0])
    assert named(column, "name") is column
    assert values(column) is column
    assert stated(column, column, "label", basis="measured", source="") is column
    assert cell(column, 1) == 2.0
    assert type(cell(column, 1)) is float


def test_an_expression_lists_each_step_once_and_the_number_first():
    shared = named(five() * 3, "shared")
    nodes = expression(named(shared + shared, "total"), "path")
    assert [node["label"] for node in nodes if node["operation"] == "name"] == ["total", "shared"]
    assert nodes[0]["value"] == 30
    assert nodes[-1] == {
        "operation": "leaf",
        "label": "job.sessions",
        "value": 5,
        "operands": [],
        "basis": "assumed",
        "source": "the question",
    }
    assert expression(7, "count")[0]["operation"] == "constant"


def test_many_steps_need_no_deep_stack():
    total = five()
    for _ in range(20_000):
        total = total + five()
    assert len(expression(total, "path")) > 20_000
