"""Functions go in, by a decorator that names their rows; how each row is answered comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any, Final

from tests.golden.context import HERE, Row
from tests.golden.paths import select
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
    return _selected(row_of(fact))


def answer_by(row: Row, *, path: str | None = None, changes: dict[str, Value] | None = None) -> Any:
    """What the product says to a row at another path, or with some places changed."""
    return _selected(replace(row, path=row.path if path is None else path, changes=changes or {}))


_KEPT: Final[dict[tuple[Any, ...], Any]] = {}
_MOST_KEPT: Final = 128
"""Documents of the questions asked last: many rows are fields of one."""


def _selected(row: Row) -> Any:
    """The field of a row in the answer to its question, which is asked once for the rows that share it."""
    function, settings = routes()[row.fact.id].function, row.settings
    question = (function, row.command, tuple(sorted(settings.items())))
    if question not in _KEPT:
        if len(_KEPT) == _MOST_KEPT:
            del _KEPT[next(iter(_KEPT))]
        _KEPT[question] = function(replace(row, path=""))
    return select(_KEPT[question], row.path.format_map(settings))


def command_function(command: str) -> Function:
    """A function that asks a command, whatever the row."""
    return next(route.function for route in routes().values() if route.command == command)


def answered() -> tuple[Fact, ...]:
    """The facts that have an adapter, in order."""
    return tuple(fact for fact in facts() if fact.id in routes())
