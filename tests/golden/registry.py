"""Functions go in, by a decorator that names their rows; how each row is answered comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any, Final

from tests.golden.context import HERE, Row
from tests.golden.rows import Fact, Value, facts

Function = Callable[[Row], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """How one row is answered."""

    function: Function
    command: str
    path: str


_ROUTES: Final[dict[str, Route]] = {}


def answers(command: str, fields: Mapping[str, str]) -> Callable[[Function], Function]:
    """Register a function for the rows of `fields` (path in the answer -> row ids), asked by `meshwright COMMAND`."""

    def register(function: Function) -> Function:
        for path, ids in fields.items():
            for name in ids.split():
                assert name not in _ROUTES, f"{name} has two adapters"
                _ROUTES[name] = Route(function=function, command=command, path=path)
        return function

    return register


def modules() -> tuple[str, ...]:
    """The adapter modules, by name."""
    return tuple(sorted(path.stem for path in (HERE / "adapters").glob("[!_]*.py")))


@cache
def routes() -> dict[str, Route]:
    """Every answered row."""
    for name in modules():
        import_module(f"tests.golden.adapters.{name}")
    return dict(sorted(_ROUTES.items()))


def row_of(fact: Fact) -> Row:
    """The question of an answered row."""
    route = routes()[fact.id]
    return Row(fact=fact, command=route.command, path=route.path)


def answer(fact: Fact) -> Any:
    """What the product says to a row."""
    return routes()[fact.id].function(row_of(fact))


def answer_by(row: Row, *, path: str | None = None, changes: dict[str, Value] | None = None) -> Any:
    """What the product says to a row at another path, or with some places changed."""
    other = replace(row, path=row.path if path is None else path, changes=changes or {})
    return routes()[row.fact.id].function(other)


def command_function(command: str) -> Function:
    """A function that asks a command, whatever the row."""
    return next(route.function for route in routes().values() if route.command == command)


def answered() -> tuple[Fact, ...]:
    """The facts that have an adapter, in order."""
    return tuple(fact for fact in facts() if fact.id in routes())
