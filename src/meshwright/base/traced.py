"""Numbers that remember where they come from: a value and its provenance go in; arithmetic on it comes out recorded.

A `Traced` number behaves as the number it holds, and what is computed from it is a `Traced` number too, with its
operation and operands. Columns of them are numpy object columns, so the lines that compute a million layouts compute
one that can be explained. Comparisons give plain truth: the branch taken is recorded, not the condition.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from inspect import getdoc
from types import NoneType
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar, cast

import numpy as np

P = ParamSpec("P")
T = TypeVar("T")
Plain: TypeAlias = int | float
_SIGNS: Final[dict[str, str]] = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "truediv",
    "//": "floordiv",
    "%": "mod",
    "**": "pow",
}
"""The function of the module `operator` behind each sign."""
LEAF: Final = "leaf"
NAME: Final = "name"
_SOURCE: Final = "Source:"
_OBJECTS: Final = np.dtype(object)
_PLAIN: Final = frozenset({int, float})


@dataclass(frozen=True, slots=True, eq=False)
class Traced:
    """One number and how it came about.

    operation: `leaf` (an input), `name` (a quantity with a name of its own: one operand), a sign or a function's name.
    operands: `Traced` or plain numbers.   label: of a leaf its dotted path, of a name the name.   basis, source: of a
    leaf where its value was read; of a name the source that its formula's docstring gives.
    """

    value: Plain
    operation: str
    operands: tuple[Any, ...] = ()
    label: str = ""
    basis: str = ""
    source: str = ""

    def __add__(self, other: Any) -> Any:
        return _binary("+", self, other)

    def __radd__(self, other: Any) -> Any:
        return _binary("+", other, self)

    def __sub__(self, other: Any) -> Any:
        return _binary("-", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _binary("-", other, self)

    def __mul__(self, other: Any) -> Any:
        return _binary("*", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _binary("*", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _binary("/", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _binary("/", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _binary("//", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _binary("//", other, self)

    def __mod__(self, other: Any) -> Any:
        return _binary("%", self, other)

    def __rmod__(self, other: Any) -> Any:
        return _binary("%", other, self)

    def __pow__(self, other: Any) -> Any:
        return _binary("**", self, other)

    def __rpow__(self, other: Any) -> Any:
        return _binary("**", other, self)

    def __neg__(self) -> Any:
        return record("-", operator.neg, self)

    def __abs__(self) -> Any:
        return record("abs", abs, self)

    def __floor__(self) -> Any:
        return record("floor", math.floor, self)

    def __ceil__(self) -> Any:
        return record("ceil", math.ceil, self)

    def log2(self) -> Any:
        """What numpy calls on an element of an object column."""
        return record("log2", math.log2, self)

    def exp(self) -> Any:
        """As `log2`."""
        return record("exp", math.exp, self)

    def __eq__(self, other: object) -> bool:
        return bool(self.value == held(other))

    def __hash__(self) -> int:
        """Not that of the plain number: what is remembered for plain numbers is not the answer for traced ones."""
        return hash((LEAF, self.label, self.value))

    def __lt__(self, other: Any) -> bool:
        return bool(self.value < held(other))

    def __le__(self, other: Any) -> bool:
        return bool(self.value <= held(other))

    def __gt__(self, other: Any) -> bool:
        return bool(self.value > held(other))

    def __ge__(self, other: Any) -> bool:
        return bool(self.value >= held(other))

    def __bool__(self) -> bool:
        return bool(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __index__(self) -> int:
        return operator.index(cast("int", self.value))

    def __float__(self) -> float:
        return float(self.value)

    def __format__(self, how: str) -> str:
        return format(self.value, how)

    def __str__(self) -> str:
        return str(self.value)

    def tolist(self) -> Any:
        """The number alone, as numpy's scalars give it."""
        return self.value


def leaf(value: Plain, path: str, *, basis: str, source: str = "") -> Traced:
    """An input under its dotted path."""
    return Traced(value=value, operation=LEAF, label=path, basis=basis, source=source)


def held(value: Any) -> Any:
    """The plain number that a value holds; any other value as it is."""
    if isinstance(value, Traced):
        return value.value
    return _plain(value)


def is_traced(value: Any) -> bool:
    """Whether a value is a traced number, or a column that may hold some: one of objects that are not words."""
    if type(value) in _PLAIN or getattr(value, "dtype", None) is not _OBJECTS:
        return isinstance(value, Traced)
    return not (value.size and isinstance(value.flat[0], (str, NoneType)))


def values(column: Any) -> Any:
    """A column or number without its traces, for decisions; what holds none comes back as it is."""
    if isinstance(column, Traced):
        return column.value
    if not is_traced(column):
        return column
    plain = [held(item) for item in column.reshape(-1).tolist()]
    return np.array(plain, dtype=None if plain else np.int64).reshape(column.shape)  # nothing serves as places too


def cell(column: Any, row: int) -> Any:
    """One number of a column as a plain Python number, or the traced number that stands there."""
    return _plain(column[row])


def record(operation: str, function: Callable[..., Any], *operands: Any) -> Any:
    """`function` of the operands, recorded when one of them is traced."""
    value = function(*(held(item) for item in operands))
    if not any(isinstance(item, Traced) for item in operands):
        return value
    return Traced(value=held(value), operation=operation, operands=tuple(_plain(item) for item in operands))


def elementwise(operation: str, function: Callable[..., Any], *operands: Any) -> Any:
    """As `record`, for columns: one recorded number an element."""
    made = np.frompyfunc(lambda *items: record(operation, function, *items), len(operands), 1)
    return made(*operands)


def named(value: T, name: str, source: str = "") -> T:
    """The same numbers under a name of their own; what is not traced comes back as it is."""
    if not is_traced(value):
        return value

    def label(item: Any) -> Any:
        if not isinstance(item, Traced):
            return item
        if item.operation == NAME and item.label == name:
            return replace(item, source=item.source or source)
        return Traced(value=item.value, operation=NAME, operands=(item,), label=name, source=source)

    return cast("T", label(value) if isinstance(value, Traced) else np.frompyfunc(label, 1, 1)(cast("Any", value)))


def stated(column: T, like: Any, label: str, *, basis: str, source: str) -> T:
    """The same numbers as inputs of their own, where `like` is traced: facts that no noun holds (an archived time)."""
    if not is_traced(like):
        return column

    def noted(item: Any) -> Traced:
        return leaf(held(item), label, basis=basis, source=source)

    return cast("T", np.frompyfunc(noted, 1, 1)(cast("Any", column)))


def expression(root: Any, label: str) -> list[dict[str, Any]]:
    """Every step behind a number as plain records, the number itself first: an operand is a record's place or a value.

    Operands are `{"node": place}` or `{"value": number}`. A number that is not traced is one record, `constant`.
    """
    if not isinstance(root, Traced):
        return [
            {"operation": "constant", "label": label, "value": held(root), "operands": [], "basis": "", "source": ""}
        ]
    order: dict[int, Traced] = {id(root): root}
    for node in (queue := [root]):
        for item in node.operands:
            if isinstance(item, Traced) and id(item) not in order:
                order[id(item)] = item
                queue.append(item)
    places = {key: place for place, key in enumerate(order)}
    return [
        {
            "operation": node.operation,
            "label": node.label,
            "value": node.value,
            "operands": [
                {"node": places[id(item)]} if isinstance(item, Traced) else {"value": item} for item in node.operands
            ],
            "basis": node.basis,
            "source": node.source,
        }
        for node in order.values()
    ]


def formula(function: Callable[P, T]) -> Callable[P, T]:
    """A cost function whose traced results bear its name and the source that its docstring states."""
    name = function.__name__.removeprefix("_")
    source = _stated_source(function)

    @wraps(function)
    def traced(*args: P.args, **kwargs: P.kwargs) -> T:
        return named(function(*args, **kwargs), name, source)

    return traced


def opaque(function: Callable[P, T]) -> Callable[P, T]:
    """A function that is no arithmetic (a count of cases): of traced numbers it is recorded as one operation."""

    @wraps(function)
    def traced(*args: P.args, **kwargs: P.kwargs) -> T:
        assert not kwargs, "operands of an opaque function are given by place"
        return cast("T", record(function.__name__, function, *args)) if args else function(*args, **kwargs)

    return traced


def _stated_source(function: Callable[..., Any]) -> str:
    text = " ".join((getdoc(function) or "").split())
    _, found, source = text.partition(_SOURCE)
    return source.split(". Leaves out")[0].strip().rstrip(".") if found else ""


def _binary(operation: str, left: Any, right: Any) -> Any:
    """A recorded operation of two numbers; steps that change nothing (x + 0, x * 1, x * 0) are not recorded."""
    if not all(isinstance(item, (Traced, int, float, np.integer, np.floating)) for item in (left, right)):
        return NotImplemented
    if any(_changes_nothing(operation, place, other) for place, other in (("left", left), ("right", right))):
        return right if _changes_nothing(operation, "left", left) else left
    if operation == "*" and (_is(left, 0) or _is(right, 0)) and held(left) * held(right) == 0:
        return 0
    return record(operation, getattr(operator, _SIGNS[operation]), left, right)


def _changes_nothing(operation: str, place: str, operand: Any) -> bool:
    """Whether an operand on that side leaves the other as it is: x + 0, x - 0, x * 1, x / 1."""
    if operation in {"+", "-"}:
        return _is(operand, 0) and (operation == "+" or place == "right")
    return operation in {"*", "/"} and _is(operand, 1) and (operation == "*" or place == "right")


def _plain(item: Any) -> Any:
    return cast("Any", item).item() if isinstance(item, np.generic) else item


def _is(item: Any, number: int) -> bool:
    """Whether an operand is that number, written as such."""
    return not isinstance(item, Traced) and bool(item == number)
