"""A name goes in; an exchange and a computation measured alone and together come out, with platform and source.

What running both at once costs is a measurement: it follows neither from the times alone nor from their longest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from meshwright.base.errors import SystemSpecError
from meshwright.base.parse import build, read_toml
from meshwright.base.registry import Registry
from meshwright.base.result import Source
from meshwright.base.units import Bytes, Seconds
from meshwright.system.facts import split

OVERLAPS: Final = Registry(
    kind="overlaps", package="meshwright.system", folder="overlaps", suffix=".toml", error=SystemSpecError, number=2
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """Each by itself."""

    communication: Seconds
    computation: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Started at once. finish: when both have ended, as the work behind them sees it."""

    communication: Seconds
    computation: Seconds
    finish: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """One measured pair. protocol: how often, in which order, and what is taken of the runs."""

    name: str
    platform: str
    operation: str
    message: Bytes
    protocol: str
    source: str
    alone: Alone
    together: Together
    sources: tuple[Source, ...]


def read_overlap(name: str) -> Overlap:
    """The pair registered as `name`. Raises SYS002 when unknown, SYS003 for one without its source."""
    values, facts = split(read_toml(OVERLAPS.text(name), name), name)
    found = build(Overlap, {**values, "sources": facts.sources}, name)
    if found.source not in {item.key for item in found.sources}:
        cause = f"{name}: it names the source {found.source!r}, which the file does not have"
        raise SystemSpecError(3, cause, f"add [sources.{found.source}] with title, place and read")
    return found
