"""A fact and the reference data of `context.toml` go in; the question comes out as the product takes it.

A row names its inputs as the chapter does (`HBM`, `alpha`, `p`). The context says where the product takes each
(`takes`), what the row leaves to its question text (`row`) or to the chapter's running example (`given`), and which
stated numbers the product derives by itself, to be compared instead of passed (`stated`). It holds inputs only.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from meshwright.base.parse import build, set_path
from meshwright.base.result import Result, as_json, plain
from meshwright.job.serve import ServeJob
from meshwright.job.train import TrainJob
from meshwright.layout.layout import Layout
from meshwright.model.model import Model
from meshwright.model.reader import read_model
from meshwright.system.system import System, read_system
from tests.golden.paths import select
from tests.golden.rows import Fact, Quantity, Value, read_value

T = TypeVar("T")
HERE: Final = Path(__file__).parent
_PARTS: Final = {Layout: "layout", ServeJob: "job", TrainJob: "job"}


@cache
def context() -> dict[str, Any]:
    """The reference data."""
    return tomllib.loads((HERE / "context.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One question. `command` is how a user asks it, `path` the field of the answer, `changes` replace places."""

    fact: Fact
    command: str
    path: str
    changes: dict[str, Value] = field(default_factory=dict[str, Value])

    @property
    def subject(self) -> str:
        """What the command is about: the study, or the kind of list."""
        return self.command.rpartition(" ")[2]

    @property
    def settings(self) -> dict[str, str]:
        """Every input by its `--set` path, as text."""
        return {place: str(_spelled(place, value)) for place, value in self.places().items()}

    def model(self) -> Model:
        """The row's model."""
        return read_model(self.settings["model"])

    def system(self) -> System:
        """The row's system, with the rates that it states."""
        system = read_system(self.settings["system"])
        for place, text in self.settings.items():
            if place.startswith("system."):
                system = set_path(system, place.removeprefix("system."), text)
        return system

    def record(self, cls: type[T]) -> T:
        """The row's layout, job or options."""
        prefix = f"{_PARTS.get(cls, 'options')}."
        found: dict[str, Any] = {}
        for place, value in self.places().items():
            if place.startswith(prefix):
                *outer, name = place.removeprefix(prefix).split(".")
                inner = found
                for part in outer:
                    inner = inner.setdefault(part, {})
                inner[name] = _listed(cls, name, _spelled(place, value))
        return build(cls, found, self.fact.id)

    def select(self, answer: object) -> Any:
        """The field at `path` of the JSON document that the command prints; `{place}` in it is the row's own."""
        document = as_json(answer) if isinstance(answer, Result) else plain(answer)
        return select(document, self.path.format_map(self.settings))

    def places(self) -> dict[str, Value]:
        """Every input by the place where the product takes it."""
        found: dict[str, Value] = {}
        for values in (read_table("given", self.command), read_table("row", self.fact.id), self.stated()):
            for name, value in values.items():
                found |= {place: self._with_unit(name, value) for place in self.takers(name)}
        return found | self.changes

    def _with_unit(self, name: str, value: Value) -> Value:
        """A rate or time that a row writes bare stands in SI units, or in those of its command, or its own."""
        units = context()["units"]
        unit = {**units, **units.get(self.command, {}), **units.get(self.fact.id, {})}.get(name)
        if not isinstance(value, Quantity) or value.unit or unit is None:
            return value
        return Quantity(number=value.number, unit=unit, digits=value.digits)

    def takers(self, name: str) -> tuple[str, ...]:
        """The places that take an input of this name; none for what is compared or remarked."""
        own = context()["row"].get(self.fact.id, {}).get("takes", {})
        place = own.get(name, context()["takes"].get(self.command, {}).get(name, ()))
        return (place,) if isinstance(place, str) else tuple(place)

    def stated(self) -> dict[str, Value]:
        """What the row itself says."""
        return self.fact.stated


def read_table(table: str, name: str) -> dict[str, Value]:
    """A table of the context as typed values."""
    found = context()[table].get(name, {})
    return {key: read_value(text) for key, text in found.items() if key != "takes"}


def _listed(cls: type, name: str, spelled: str | int) -> Any:
    """The parts of a list that a row writes as text, as the command line takes it."""
    many = str(cls.__annotations__.get(name, "")).startswith("tuple[")
    return [part.strip() for part in str(spelled).split(",")] if many else spelled


def _spelled(place: str, value: Value) -> str | int:
    """A value as an option takes it; the chapter's words for models, devices and goals become registry names."""
    if isinstance(value, Quantity):
        return value.spelled()
    if isinstance(value, tuple):
        return ",".join(str(item) for item in value)
    return context()["words"].get(place, {}).get(str(value), str(value))
