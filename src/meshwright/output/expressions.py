"""An explained number goes in (records of `base.traced.expression`); its formulas as text come out, outermost first.

A formula is one quantity with a name, down to the names and inputs that it is made of: with words, and with values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from meshwright.base.traced import LEAF, NAME

if TYPE_CHECKING:
    from meshwright.base.result import Result

Node: TypeAlias = "Mapping[str, Any]"
Nodes: TypeAlias = "Sequence[Mapping[str, Any]]"
_STRENGTH: Final = {"+": 1, "-": 1, "*": 2, "/": 2, "//": 2, "%": 2, "**": 3}
_SAME: Final = frozenset({"+", "*"})
_OPERANDS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """One named quantity: its formula in words and in values, its value, and its source where one is stated."""

    name: str
    words: str
    values: str
    value: int | float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One number that nothing computed."""

    path: str
    value: int | float
    basis: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """How formulas are written. number: one value.   terms: of one sum or product; more of them are counted."""

    number: Callable[[int | float], str]
    terms: float


def rounded(value: float) -> str:
    """A number for reading: whole ones in full, others to six digits."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


BRIEF: Final = Writing(number=rounded, terms=12)
"""For a terminal."""
WHOLE: Final = Writing(number=rounded, terms=inf)
"""For a page."""
EXACT: Final = Writing(number=repr, terms=inf)
"""For another program: every digit, no separators."""


def formulas(result: Result, writing: Writing) -> tuple[Formula, ...]:
    """The number's own formula and those of the names in it, as many levels as were asked for; equal formulas once."""
    nodes, label, depth = result.body["expression"], result.body["path"], result.inputs["options"].depth
    found: list[Formula] = []
    seen = {0}
    level = [0]
    for _ in range(depth):
        deeper: list[int] = []
        for place in level:
            node = nodes[place]
            own = _body(nodes, place)
            name = node["label"] if node["operation"] == NAME else label
            if nodes[own]["operation"] != LEAF or place == 0:
                found.append(_formula(nodes, name, place, writing))
            inside = [item for item in _names(nodes, own) if item not in seen]
            seen.update(inside)
            deeper += inside
        level = deeper
    return tuple(dict.fromkeys(found))


def inputs(result: Result) -> tuple[Input, ...]:
    """Every input of the number, by path."""
    leaves = [node for node in result.body["expression"] if node["operation"] == LEAF]
    found = {
        node["label"]: Input(path=node["label"], value=node["value"], basis=node["basis"], source=node["source"])
        for node in leaves
    }
    return tuple(found[path] for path in sorted(found))


def _formula(nodes: Nodes, name: str, place: int, writing: Writing) -> Formula:
    node = nodes[place]
    source = str(node["source"])
    value: int | float = node["value"]
    while node["operation"] == NAME:  # a name of a name: the innermost formula states the source
        source = str(node["source"]) or source
        node = nodes[cast("int", node["operands"][0]["node"])]
    own = _body(nodes, place)

    def number(item: Node) -> str:
        return writing.number(item["value"])

    words = _Text(nodes=nodes, word=_label, writing=writing).of(own, 0)
    numbers = _Text(nodes=nodes, word=number, writing=writing).of(own, 0)
    return Formula(name=name, words=words, values=numbers, value=value, source=source)


def _label(node: Node) -> str:
    return str(node["label"])


def _body(nodes: Nodes, place: int) -> int:
    """What a name stands for; other numbers stand for themselves."""
    while nodes[place]["operation"] == NAME:
        place = nodes[place]["operands"][0]["node"]
    return place


def _names(nodes: Nodes, place: int) -> list[int]:
    """The named quantities in a formula, left to right."""
    found: list[int] = []
    queue = [place]
    while queue:
        here = queue.pop(0)
        for operand in nodes[here]["operands"]:
            inside = operand.get("node")
            if inside is None:
                continue
            if nodes[inside]["operation"] == NAME:
                found.append(inside)
            else:
                queue.append(inside)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Text:
    """Writes formulas. word: what stands for a name or an input."""

    nodes: Nodes
    word: Callable[[Node], str]
    writing: Writing

    def of(self, place: int, outer: int) -> str:
        """One formula; a sum or product of equal signs is written in one row."""
        node = self.nodes[place]
        operation = node["operation"]
        if operation in {LEAF, "constant"}:
            return self.word(node)
        strength = _STRENGTH.get(operation)
        if strength is None or len(node["operands"]) != _OPERANDS:
            sign = "-" if operation == "-" else operation
            return f"{sign}({', '.join(self._operand(item, 0) for item in node['operands'])})"
        right = strength if operation in _SAME else strength + 1
        row = _row(self.nodes, node, operation)
        terms = [self._operand(item, strength if index == 0 else right) for index, item in enumerate(row)]
        if len(terms) > self.writing.terms:
            kept = int(self.writing.terms) - 1
            terms = [*terms[:kept], f"({len(terms) - kept} more)"]
        text = f" {operation} ".join(terms)
        return f"({text})" if strength < outer else text

    def _operand(self, operand: Node, outer: int) -> str:
        if "node" not in operand:
            return self.writing.number(operand["value"])
        node = self.nodes[cast("int", operand["node"])]
        if node["operation"] in {NAME, LEAF}:
            return self.word(node)
        return self.of(cast("int", operand["node"]), outer)


def _row(nodes: Nodes, node: Node, operation: str) -> list[Node]:
    """The operands of one sign; those of the same sign on the left are taken in."""
    left, right = cast("list[Node]", node["operands"])
    items = [right]
    while operation in _SAME and "node" in left and nodes[left["node"]]["operation"] == operation:
        left, right = cast("list[Node]", nodes[left["node"]]["operands"])
        items.append(right)
    return [left, *reversed(items)]
