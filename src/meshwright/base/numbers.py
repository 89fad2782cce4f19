"""The arithmetic of cost code: numbers of one kind go in (columns, samples, pint, traced), numbers of it come out.

Cost functions are generic in one type `N`, bound to `Number`. The functions below are the numpy ufuncs of the same
name: every kind of number that flows here answers numpy's protocols (pint) or is an object that numpy calls (traced
numbers, see `traced`), so no second implementation exists for any of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from meshwright.base.traced import elementwise, is_traced, values

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]


class Number(Protocol):
    """What cost code may do with a number. The results are `Any`, so that a plain int or float is a number too."""

    def __add__(self, other: Any, /) -> Any: ...
    def __radd__(self, other: Any, /) -> Any: ...
    def __sub__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...
    def __rmul__(self, other: Any, /) -> Any: ...
    def __truediv__(self, other: Any, /) -> Any: ...
    def __pow__(self, other: Any, /) -> Any: ...


N = TypeVar("N", bound=Number)


def maximum(left: N, right: Any) -> N:
    """Elementwise maximum."""
    return cast("N", _apply("max", max, np.maximum, left, right))


def minimum(left: N, right: Any) -> N:
    """Elementwise minimum."""
    return cast("N", _apply("min", min, np.minimum, left, right))


def where(condition: Any, left: N, right: Any) -> N:
    """`left` where the condition holds, else `right`."""
    return cast("N", np.where(condition, cast("Any", left), right))


def ceil(value: N) -> N:
    """Smallest whole number not below `value`."""
    return cast("N", np.ceil(cast("Any", value)))


def floor(value: N) -> N:
    """Largest whole number not above `value`."""
    return cast("N", np.floor(cast("Any", value)))


def divide_up(value: N, by: Any) -> N:
    """The quotient of whole numbers, rounded up."""
    if isinstance(by, int) and by == 1:
        return value
    return cast("N", _apply("divide_up", _divide_up, _divide_up, value, by))


def whole(value: N) -> N:
    """Whole numbers of type int64, whatever type held them."""
    return cast("N", _apply("int", int, _whole, value))


def is_nan(value: Any) -> Bools:
    """Where there is no number."""
    return np.isnan(np.asarray(values(value), dtype=np.float64))


def doublings(count: N) -> N:
    """How often 1 is doubled to reach `count` whole things: log2 of it, rounded up, exactly."""
    return cast("N", _apply("doublings", _bits_of_less_one, _doublings, count))


def log2(value: N) -> N:
    """Logarithm to base 2 of a dimensionless number."""
    return cast("N", np.log2(cast("Any", value)))


def exp(value: N) -> N:
    """Exponential of a dimensionless number."""
    return cast("N", _apply("exp", math.exp, np.exp, value))


def expm1(value: N) -> N:
    """Exponential of a dimensionless number, less 1; exact where the number is small."""
    return cast("N", _apply("expm1", math.expm1, np.expm1, value))


def _whole(value: Any) -> Any:
    return value.astype(np.int64)


def _bits_of_less_one(count: int) -> int:
    return (count - 1).bit_length()


def _doublings(count: Any) -> Any:
    _, exponents = np.frexp(np.asarray(count) - 1)  # the bits of n - 1
    return exponents.astype(np.int64)


def _divide_up(value: Any, by: Any) -> Any:
    return -(-value // by)


def _apply(name: str, scalar: Callable[..., Any], ufunc: Callable[..., Any], *operands: Any) -> Any:
    """The ufunc; where a column holds traced numbers, the same function of each, recorded."""
    for item in operands:
        if is_traced(item):
            return elementwise(name, scalar, *operands)
    return ufunc(*operands)
