"""An answered row goes in; what it states beside the inputs it passes comes out, next to what the product derives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from tests.golden.context import Row, context
from tests.golden.paths import select
from tests.golden.registry import answer_by, command_function, row_of
from tests.golden.rows import Fact, Quantity, Value, facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """A number that a row states and the product derives by itself."""

    name: str
    stated: Quantity
    derived: Any


def compared(fact: Fact) -> tuple[Stated, ...]:
    """Every stated number that no place takes, with the product's own."""
    row = row_of(fact)
    found: list[Stated] = []
    for name, value in fact.stated.items():
        where = comparison(row, name)
        if isinstance(value, Quantity) and where is not None:
            found.append(Stated(name=name, stated=value, derived=_derived(row, where)))
    return tuple(found)


def unused(fact: Fact) -> tuple[str, ...]:
    """What a row states and nobody takes, compares or remarks on."""
    row = row_of(fact)
    return tuple(name for name, value in fact.stated.items() if not _used(row, name, value))


def comparison(row: Row, name: str) -> str | None:
    """`WHERE PATH` of the number to compare with, for an input that no place takes; a command may say that none is."""
    if row.takers(name):
        return None
    tables = context()["stated"]
    model = tables.get(str(row.fact.stated.get("model")), {})
    known = {**tables["all"], **model, **tables.get(row.command, {}), **tables.get(row.fact.id, {})}
    return known.get(name) or None


def _used(row: Row, name: str, value: Value) -> bool:
    number = isinstance(value, Quantity)
    said = context()["remarks"]
    own = said.get(str(row.fact.stated.get("model")), {})
    remarks = {**said["numbers" if number else "words"], **own, **said.get(row.command, {})}
    return bool(row.takers(name)) or name in remarks or (number and comparison(row, name) is not None)


def _derived(row: Row, where: str) -> Any:
    """The row's own answer at another path, or what another command says of the row's model alone."""
    command, _, path = where.rpartition(" ")
    if command == "own":
        return answer_by(row, path=path)
    model = row.fact.stated["model"] if "model" in row.fact.stated else row.places()["model"]
    return select(_of_model(command, str(model)), path)


@cache
def _of_model(command: str, model: str) -> Any:
    """The whole answer of a command for a model, everything else as in the reference data."""
    fact = replace(facts()[0], id="", inputs="")
    return command_function(command)(Row(fact=fact, command=command, path="", changes={"model": model}))
