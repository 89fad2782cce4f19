"""Records of an expression go in (`base.traced.expression`); its formulas as text come out, outermost first.

A formula is one quantity with a name, down to the names and inputs that it is made of: with words, and with values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from meshwright.base.traced import LEAF, NAME

Node: TypeAlias = "Mapping[str, Any]"
Nodes: TypeAlias = "Sequence[Mapping[str, Any]]"
_TERMS: Final = 12
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


def formulas(nodes: Nodes, label: str, depth: int) -> tuple[Formula, ...]:
    """The number's own formula and those of the names in it, `depth` levels down; equal formulas once."""
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
                found.append(_formula(nodes, name, node, own))
            inside = [item for item in _names(nodes, own) if item not in seen]
            seen.update(inside)
            deeper += inside
        level = deeper
    return tuple(dict.fromkeys(found))


def inputs(nodes: Nodes) -> tuple[Input, ...]:
    """Every input of the number, by path."""
    leaves = [node for node in nodes if node["operation"] == LEAF]
    found = {
        node["label"]: Input(path=node["label"], value=node["value"], basis=node["basis"], source=node["source"])
        for node in leaves
    }
    return tuple(found[path] for path in sorted(found))


def shown(value: float) -> str:
    """A number for reading: whole ones in full, others to six digits."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def _formula(nodes: Nodes, name: str, node: Node, own: int) -> Formula:
    source = str(node["source"])
    value: int | float = node["value"]
    while node["operation"] == NAME:  # a name of a name: the innermost formula states the source
        source = str(node["source"]) or source
        node = nodes[cast("int", node["operands"][0]["node"])]
    words = _text(nodes, own, 0, _label)
    numbers = _text(nodes, own, 0, _number)
    return Formula(name=name, words=words, values=numbers, value=value, source=source)


def _label(node: Node) -> str:
    return str(node["label"])


def _number(node: Node) -> str:
    return shown(node["value"])


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


def _text(nodes: Nodes, place: int, outer: int, word: Callable[[Node], str]) -> str:
    """One formula as text; a sum or product of equal signs is written in one row."""
    node = nodes[place]
    operation = node["operation"]
    if operation in {LEAF, "constant"}:
        return str(word(node))
    strength = _STRENGTH.get(operation)
    if strength is None or len(node["operands"]) != _OPERANDS:
        sign = "-" if operation == "-" else operation
        return f"{sign}({', '.join(_operand(nodes, item, 0, word) for item in node['operands'])})"
    items = _row(nodes, node, operation)
    right = strength if operation in _SAME else strength + 1
    terms = [_operand(nodes, item, strength if index == 0 else right, word) for index, item in enumerate(items)]
    if len(terms) > _TERMS:
        terms = [*terms[: _TERMS - 1], f"({len(terms) - _TERMS + 1} more)"]
    text = f" {operation} ".join(terms)
    return f"({text})" if strength < outer else text


def _row(nodes: Nodes, node: Node, operation: str) -> list[Node]:
    """The operands of one sign; those of the same sign on the left are taken in."""
    left, right = cast("list[Node]", node["operands"])
    items = [right]
    while operation in _SAME and "node" in left and nodes[left["node"]]["operation"] == operation:
        left, right = cast("list[Node]", nodes[left["node"]]["operands"])
        items.append(right)
    return [left, *reversed(items)]


def _operand(nodes: Nodes, operand: Node, outer: int, word: Callable[[Node], str]) -> str:
    if "node" not in operand:
        return shown(operand["value"])
    node = nodes[cast("int", operand["node"])]
    if node["operation"] in {NAME, LEAF}:
        return str(word(node))
    return _text(nodes, cast("int", operand["node"]), outer, word)
