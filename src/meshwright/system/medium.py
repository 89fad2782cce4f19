"""The registry name of a medium between boxes goes in; how far it reaches, with its sources, comes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Final

from meshwright.base.errors import SystemSpecError
from meshwright.base.parse import build, read_toml
from meshwright.base.registry import Registry
from meshwright.base.units import Metres
from meshwright.system.facts import Facts, split

MEDIA: Final = Registry(
    kind="media", package="meshwright.system", folder="data/media", suffix=".toml", error=SystemSpecError, number=2
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Medium:
    """What carries a link. reach: metres at the rates of today's links.   note: what it asks for."""

    id: str
    name: str
    reach: Metres
    note: str = ""
    facts: Facts = field(default_factory=Facts)


def read_medium(name: str) -> Medium:
    """The medium registered as `name`. Raises SYS002 when unknown, SYS003 for faulty facts."""
    values, facts = split(read_toml(MEDIA.text(name), name), name)
    return build(Medium, {"id": name, **values, "facts": facts}, name)


@cache
def media() -> tuple[Medium, ...]:
    """Every medium, by name."""
    return tuple(read_medium(name) for name in MEDIA.names())
