"""The text of an adapter module goes in; what breaks the rules of adapters comes out.

An adapter names, calls and returns; it has no arithmetic, no literal, no branch, no loop and no import. Around the
adapters a module holds imports and the constants of its routing only.
"""

from __future__ import annotations

import ast
from typing import Final

_IN_ADAPTERS: Final = (
    ast.Assign,
    ast.Attribute,
    ast.Call,
    ast.Load,
    ast.Name,
    ast.Return,
    ast.Store,
    ast.keyword,
)


def faults(text: str) -> list[str]:
    """Each fault with its line."""
    found: list[str] = []
    for place, node in enumerate(ast.parse(text).body):
        if isinstance(node, ast.FunctionDef):
            found += _faults_of(node)
        elif not _may_surround(node, first=place == 0):
            found.append(f"line {node.lineno}: {type(node).__name__} beside the adapters")
    return found


def called(text: str) -> dict[str, set[str]]:
    """For each adapter the names and attribute chains that it calls: `fit`, `row.select`."""
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    calls = {node.name: [item for item in _inside(node) if isinstance(item, ast.Call)] for node in functions}
    return {name: {_chain(item.func) for item in found} for name, found in calls.items()}


def read(text: str) -> set[str]:
    """The attributes of products' records that adapters read: `job.last_position`; not what they ask of their row."""
    nodes = [node for item in ast.parse(text).body if isinstance(item, ast.FunctionDef) for node in _inside(item)]
    functions = [node.func for node in nodes if isinstance(node, ast.Call)]
    chains = {_chain(node) for node in nodes if isinstance(node, ast.Attribute) and node not in functions}
    return {chain for chain in chains if not chain.startswith("row.")}


def _faults_of(function: ast.FunctionDef) -> list[str]:
    found = [
        f"line {function.lineno}: {function.name} holds {type(node).__name__}"
        for node in _inside(function)
        if not isinstance(node, _IN_ADAPTERS)
    ]
    given = function.args
    if len(given.args) != 1 or given.defaults or given.vararg or given.kwarg or given.kwonlyargs or given.posonlyargs:
        found.append(f"line {function.lineno}: {function.name} takes more than its row")
    if not all(isinstance(node, ast.Call) and _chain(node.func) == "answers" for node in function.decorator_list):
        found.append(f"line {function.lineno}: {function.name} has a decorator that is no routing")
    if not function.decorator_list:
        found.append(f"line {function.lineno}: {function.name} answers no row")
    return found


def _inside(function: ast.FunctionDef) -> list[ast.AST]:
    """The nodes of the body; arguments, annotations and routing decorators stand outside it."""
    return [node for statement in function.body for node in ast.walk(statement)]


def _may_surround(node: ast.stmt, *, first: bool) -> bool:
    """Imports, routing constants (text only), and the module's docstring."""
    if isinstance(node, ast.AnnAssign):
        return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    docstring = first and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return docstring or isinstance(node, (ast.Import, ast.ImportFrom))


def _chain(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_chain(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"
