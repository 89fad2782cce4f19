"""The arithmetic namespace takes columns, plain numbers and pint quantities through the same lines."""

from __future__ import annotations

import numpy as np
import pint
import pytest

from meshwright.base import numbers

UNITS = pint.UnitRegistry()


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("maximum", (3.0, 2.0), 3.0),
        ("minimum", (3.0, 2.0), 2.0),
        ("where", (False, 3.0, 2.0), 2.0),
        ("ceil", (2.5,), 3.0),
        ("floor", (2.5,), 2.0),
        ("log2", (8.0,), 3.0),
        ("exp", (0.0,), 1.0),
        ("expm1", (1e-20,), 1e-20),
    ],
)
def test_a_function_means_the_same_on_numbers_columns_and_quantities(name, arguments, expected):
    function = getattr(numbers, name)
    assert function(*arguments) == expected
    columns = [np.array([item, item]) for item in arguments]
    assert function(*columns).tolist() == [expected, expected]
    if name not in {"log2", "exp", "expm1", "where"}:
        quantities = [item * UNITS.second for item in arguments]
        assert function(*quantities) == expected * UNITS.second


def test_where_keeps_the_unit():
    left, right = np.array([1.0, 2.0]) * UNITS.second, np.array([3.0, 4.0]) * UNITS.second
    found = numbers.where(np.array([True, False]), left, right)
    assert found.units == UNITS.second
    assert found.magnitude.tolist() == [1.0, 4.0]


def test_adding_seconds_and_bytes_is_refused():
    with pytest.raises(pint.DimensionalityError):
        numbers.maximum(1.0 * UNITS.second, 1.0 * UNITS.meter)
