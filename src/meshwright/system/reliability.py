"""A name goes in; how often the machines of a published cluster stopped or ran slow comes out, with its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from meshwright.base.errors import SystemSpecError
from meshwright.base.parse import build, read_toml
from meshwright.base.registry import Registry
from meshwright.base.result import Source
from meshwright.base.units import Seconds, Share
from meshwright.system.facts import split

RELIABILITY: Final = Registry(
    kind="clusters", package="meshwright.system", folder="reliability", suffix=".toml", error=SystemSpecError, number=2
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMtbf:
    """Mean time between failures of jobs on so many devices."""

    devices: int
    mtbf: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """What was published of one cluster. slow_machines: the share that ran noticeably slow, None where not said."""

    name: str
    platform: str
    source: str
    sources: tuple[Source, ...]
    slow_machines: Share | None = None
    jobs: tuple[JobMtbf, ...] = ()


def read_reliability(name: str) -> Reliability:
    """The cluster registered as `name`. Raises SYS002 when unknown, SYS003 for one without its source."""
    values, facts = split(read_toml(RELIABILITY.text(name), name), name)
    found = build(Reliability, {**values, "sources": facts.sources}, name)
    if found.source not in {item.key for item in found.sources}:
        cause = f"{name}: it names the source {found.source!r}, which the file does not have"
        raise SystemSpecError(3, cause, f"add [sources.{found.source}] with title, place and read")
    return found
