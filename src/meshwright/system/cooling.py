"""The registry name of a way of cooling goes in; what a rack of it is held to, with its sources, comes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Final

from meshwright.base.errors import SystemSpecError
from meshwright.base.parse import build, read_toml
from meshwright.base.registry import Registry
from meshwright.base.units import Watts
from meshwright.system.facts import Facts, split

COOLING: Final = Registry(
    kind="cooling", package="meshwright.system", folder="data/cooling", suffix=".toml", error=SystemSpecError, number=2
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cooling:
    """limit: watts of a rack up to which it is taken to do.   airflow_cfm: that a rack of rack_from to rack_to needs.

    tile_cfm: what one floor tile gives at best.   fan_power: of the fans of a rack of rack_to, at least. Both airflows
    in cubic feet a minute, as their source has them; None where nothing is stated.
    """

    id: str
    name: str
    limit: Watts
    rack_from: Watts | None = None
    rack_to: Watts | None = None
    airflow_cfm: float | None = None
    tile_cfm: float | None = None
    fan_power: Watts | None = None
    facts: Facts = field(default_factory=Facts)


@cache
def read_cooling(name: str) -> Cooling:
    """The cooling registered as `name`. Raises SYS002 when unknown, SYS003 for faulty facts."""
    values, facts = split(read_toml(COOLING.text(name), name), name)
    return build(Cooling, {"id": name, **values, "facts": facts}, name)
