"""A serving engine's registry name goes in; the rules by which it divides a device's memory come out, with sources."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from meshwright.base.errors import EngineError
from meshwright.base.parse import build, read_toml
from meshwright.base.registry import Registry
from meshwright.base.units import Share
from meshwright.system.facts import Facts, split

ENGINES: Final = Registry(
    kind="engines", package="meshwright.system", folder="engines", suffix=".toml", error=EngineError, number=1
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Rules of one engine, for the `versions` that they hold for.

    gpu_memory_utilization: share of the whole device that it takes unless told otherwise.   block_size: positions of a
    KV block.   uniform_layers: its token count is known only where every layer keeps the same state of all positions.
    """

    id: str
    name: str
    versions: str
    gpu_memory_utilization: Share
    block_size: int
    uniform_layers: bool
    note: str = ""
    facts: Facts = field(default_factory=Facts)


def read_engine(name: str) -> Engine:
    """The engine registered as `name`. Raises ENG001 when unknown, SYS003 for faulty sources."""
    values, facts = split(read_toml(ENGINES.text(name), name), name)
    return build(Engine, {"id": name, **values, "facts": facts}, name)
