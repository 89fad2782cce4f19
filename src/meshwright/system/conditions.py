"""A condition in the words of a data file goes in; a tree that is evaluated over columns comes out.

`heads % tp == 0 or tp % heads == 0`: whole numbers, text in quotes, names, `+ - * // %`, comparisons (also
`in (1, 2)`), `and`, `or`, `not`. A name stands for a number or for a column; the answer is as long as the longest.
"""

from __future__ import annotations

import ast
import operator
from dataclasses import dataclass
from functools import cache, reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def _quotient(left: Any, right: Any) -> Any:
    return left // right


_ARITHMETIC: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: _quotient,
    ast.Mod: operator.mod,
}
_COMPARED: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: reduce(np.logical_or, (left == item for item in right)),
    ast.NotIn: lambda left, right: reduce(np.logical_and, (left != item for item in right)),
}
_JOINED: Final[Mapping[type[ast.boolop], Callable[[Any, Any], Any]]] = {ast.And: np.logical_and, ast.Or: np.logical_or}
_FIX: Final = "write names, whole numbers, quoted text, + - * // %, comparisons, and, or, not"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """text: as the file has it.   names: that it uses."""

    text: str
    names: frozenset[str]

    def of(self, values: Mapping[str, Any]) -> Any:
        """Its value with these values of its names: a number or truth, or a column of them."""
        with np.errstate(divide="ignore"):  # of a part of the condition that does not decide
            return _value(_tree(self.text), values)


def read_condition(text: str, known: frozenset[str], what: str) -> Condition:
    """The condition. Raises ENG005 for what is none, and for a name that is not among the `known`."""
    try:
        tree = _tree(text)
        _check(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        raise EngineError(5, f"{what}: {text!r} is no condition: {problem}", _FIX) from problem
    names = frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    foreign = sorted(names - known)
    if foreign:
        raise EngineError(5, f"{what}: {foreign[0]!r} is no name of a rule", f"known: {', '.join(sorted(known))}")
    return Condition(text=text, names=names)


@cache
def _tree(text: str) -> ast.expr:
    return ast.parse(text.strip(), mode="eval").body


def _check(tree: ast.expr) -> None:
    """Raises ValueError for a node that `_value` does not evaluate."""
    allowed = (ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.Compare, ast.Constant, ast.Name, ast.Tuple)
    words = (*_ARITHMETIC, *_COMPARED, *_JOINED, ast.Not, ast.Load)
    for node in ast.walk(tree):
        if not isinstance(node, (*allowed, *words)):
            message = f"{type(node).__name__} is not understood"
            raise ValueError(message)  # noqa: TRY004 - of a text, not of an argument's type
        if isinstance(node, ast.Constant) and type(node.value) not in {int, str}:
            message = f"{node.value!r} is neither a whole number nor text"
            raise ValueError(message)


def _value(node: ast.expr, values: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Tuple):
        return [_value(item, values) for item in node.elts]
    if isinstance(node, ast.BinOp):
        return _ARITHMETIC[type(node.op)](_value(node.left, values), _value(node.right, values))
    return _truth(node, values)


def _truth(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """Of a comparison, or of truths joined."""
    if isinstance(node, ast.UnaryOp):
        return np.logical_not(_value(node.operand, values))
    if isinstance(node, ast.BoolOp):
        return reduce(_JOINED[type(node.op)], (_value(item, values) for item in node.values))
    assert isinstance(node, ast.Compare)
    sides = [_value(item, values) for item in (node.left, *node.comparators)]
    pairs = zip(node.ops, sides, sides[1:], strict=False)
    return reduce(np.logical_and, (_COMPARED[type(op)](left, right) for op, left, right in pairs))
