"""A name goes in; the memory that one training job was logged to take at several numbers of ranks comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from meshwright.base.errors import SystemSpecError
from meshwright.base.parse import build, read_toml
from meshwright.base.registry import Registry
from meshwright.base.result import Source
from meshwright.base.units import Bytes

MEMORY_LOGS: Final = Registry(
    kind="memory_logs",
    package="meshwright.system",
    folder="memory_logs",
    suffix=".toml",
    error=SystemSpecError,
    number=2,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedMemory:
    """One run. state: what stays between steps on a rank.   peak: the most that was live on it at once."""

    ranks: int
    state: Bytes
    peak: Bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLog:
    """The same job at several numbers of ranks."""

    name: str
    platform: str
    runs: tuple[LoggedMemory, ...]
    source: Source


def read_memory_log(name: str) -> MemoryLog:
    """The log registered as `name`. Raises SYS002 when unknown."""
    data = read_toml(MEMORY_LOGS.text(name), name)
    return build(MemoryLog, {**data, "name": name, "source": {"key": name, **data["source"]}}, name)
