"""The arithmetic of cost code: numbers of one kind go in (columns, samples, pint, traced), numbers of it come out.

Cost functions are generic in one type `N`, bound to `Number`. The functions below are the numpy ufuncs of the same
name: every kind of number that flows here (pint included) answers numpy's `__array_ufunc__` / `__array_function__`
protocols, so no second implementation exists for any of them.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

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
    return cast("N", np.maximum(cast("Any", left), right))


def minimum(left: N, right: Any) -> N:
    """Elementwise minimum."""
    return cast("N", np.minimum(cast("Any", left), right))


def where(condition: Any, left: N, right: Any) -> N:
    """`left` where the condition holds, else `right`."""
    return cast("N", np.where(condition, cast("Any", left), right))


def ceil(value: N) -> N:
    """Smallest whole number not below `value`."""
    return cast("N", np.ceil(cast("Any", value)))


def floor(value: N) -> N:
    """Largest whole number not above `value`."""
    return cast("N", np.floor(cast("Any", value)))


def log2(value: N) -> N:
    """Logarithm to base 2 of a dimensionless number."""
    return cast("N", np.log2(cast("Any", value)))


def exp(value: N) -> N:
    """Exponential of a dimensionless number."""
    return cast("N", np.exp(cast("Any", value)))
