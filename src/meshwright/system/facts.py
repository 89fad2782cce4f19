"""A catalog file goes in, a tree whose leaves are facts; plain values of the same shape and their provenance come out.

A leaf is a plain value or `{ value, source, scope, ... }`. A fact says where it was read, to what it applies (chip,
node, link), whether a rate is one way or both, dense or sparse, its basis, and for a measurement the platform and date.
A datasheet's total of both directions is never used as a one-way rate: it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from meshwright.base.errors import SystemSpecError
from meshwright.base.result import Basis, Source

_WORDS: Final = ("scope", "direction", "density", "source", "platform", "date", "note")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Where one number of a system comes from. `path` is dotted, as in `accelerator.memory_bandwidth`."""

    path: str
    value: str
    basis: Basis
    scope: str | None = None
    direction: str | None = None
    density: str | None = None
    source: str | None = None
    platform: str | None = None
    date: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The provenance of a whole file: its facts, and the sources that they name."""

    facts: tuple[Fact, ...] = ()
    sources: tuple[Source, ...] = ()

    def under(self, prefix: str) -> Facts:
        """The same facts as parts of something larger: their paths and sources with `prefix` before them."""
        moved = tuple(replace(fact, path=f"{prefix}.{fact.path}") for fact in self.facts)
        return Facts(facts=moved, sources=self.sources)

    def joined(self, *others: Facts) -> Facts:
        """These facts and others; equal sources once."""
        facts = [*self.facts, *(fact for other in others for fact in other.facts)]
        sources = dict.fromkeys([*self.sources, *(source for other in others for source in other.sources)])
        return Facts(facts=tuple(facts), sources=tuple(sources))

    def basis_of(self, path: str, otherwise: Basis) -> Basis:
        """The basis of the fact at `path`."""
        return next((fact.basis for fact in self.facts if fact.path == path), otherwise)


def split(data: Mapping[str, Any], what: str) -> tuple[dict[str, Any], Facts]:
    """Plain values with the shape of `data`, and the provenance of each.

    Raises SYS003 (a source that is missing or incomplete, an unknown basis) and SYS004 (a rate of both directions, or a
    sparse one).
    """
    sources = data.get("sources", {})
    if not isinstance(sources, Mapping):
        raise SystemSpecError(3, f"{what}: sources is not a table", "write [sources.KEY] with title, place and read")
    known = tuple(_source(str(key), entry, what) for key, entry in cast("Mapping[str, object]", sources).items())
    facts: list[Fact] = []
    values = {key: _strip(value, key, facts, what) for key, value in data.items() if key != "sources"}
    missing = [fact for fact in facts if fact.source is not None and fact.source not in sources]
    if missing:
        cause = f"{what}: {missing[0].path} names the source {missing[0].source!r}, which the file does not have"
        raise SystemSpecError(3, cause, f"add [sources.{missing[0].source}] with title, place and read")
    return values, Facts(facts=tuple(facts), sources=known)


def _source(key: str, entry: object, what: str) -> Source:
    table: Mapping[str, object] = cast("Mapping[str, object]", entry) if isinstance(entry, Mapping) else {}
    absent = [name for name in ("title", "place", "read") if name not in table]
    if absent:
        raise SystemSpecError(3, f"{what}: the source {key!r} has no {absent[0]}", "a source has title, place and read")
    return Source(key=key, title=str(table["title"]), place=str(table["place"]), read=str(table["read"]))


def _strip(value: object, path: str, facts: list[Fact], what: str) -> object:
    if not isinstance(value, Mapping):
        _check_bare(value, path, what)
        return value
    table = cast("Mapping[str, Any]", value)
    if "value" not in table:
        return {key: _strip(item, f"{path}.{key}", facts, what) for key, item in table.items()}
    fact = _fact(table, path, what)
    _check_direction(fact, what)
    facts.append(fact)
    return table["value"]


def _check_bare(value: object, path: str, what: str) -> None:
    """A rate without its direction or density could be either: it must be written as a table that says."""
    *above, name = path.split(".")
    if _is_link_rate(name):
        cause = f"{what}: {path} = {value!r} does not say whether it is one way or both"
        raise SystemSpecError(4, cause, f'write {name} = {{ value = "450 GB/s", direction = "one way" }}')
    if above[-1:] == ["peak"]:
        cause = f"{what}: {path} = {value!r} does not say whether it is dense or sparse"
        raise SystemSpecError(4, cause, f'write {name} = {{ value = "989.4 TFLOP/s", density = "dense" }}')


def _is_link_rate(name: str) -> bool:
    return name.endswith("bandwidth") and name != "memory_bandwidth"


def _fact(table: Mapping[str, Any], path: str, what: str) -> Fact:
    basis = str(table.get("basis", "datasheet"))
    if basis not in set(Basis):
        raise SystemSpecError(3, f"{what}: {path} has the basis {basis!r}", f"known: {', '.join(Basis)}")
    words = {key: str(table[key]) for key in _WORDS if key in table}
    return Fact(path=path, value=str(table["value"]), basis=Basis(basis), **words)


def _check_direction(fact: Fact, what: str) -> None:
    """A link's bandwidth must be stated one way; a peak must be the dense one."""
    *above, name = fact.path.split(".")
    if _is_link_rate(name) and fact.direction != "one way":
        stated = fact.direction or "no direction"
        cause = f"{what}: {fact.path} = {fact.value} is given with {stated!r}, and only a one-way rate can be used"
        raise SystemSpecError(4, cause, 'halve a total of both directions and write direction = "one way"')
    if above[-1:] == ["peak"] and fact.density != "dense":
        cause = f"{what}: {fact.path} = {fact.value} is given as {fact.density or 'neither dense nor sparse'!r}"
        raise SystemSpecError(4, cause, 'give the dense rate and write density = "dense"')
