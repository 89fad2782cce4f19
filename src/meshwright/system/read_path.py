"""The registry name of a way to read remote memory goes in; its stages, in their order, come out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from meshwright.base.errors import SystemSpecError
from meshwright.base.parse import build, read_toml
from meshwright.base.registry import Registry
from meshwright.system.facts import Facts, split

READ_PATHS: Final = Registry(
    kind="read_paths",
    package="meshwright.system",
    folder="data/read_paths",
    suffix=".toml",
    error=SystemSpecError,
    number=2,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage. phase: what its time is called.   cycles: of the controller, for a stage whose time they are.

    crosses: whether it crosses PCIe.
    """

    name: str
    phase: str
    cycles: int = 0
    crosses: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPath:
    """Stages one after the other, from the request to the data in the program's hands."""

    id: str
    name: str
    stages: tuple[Stage, ...]
    facts: Facts = field(default_factory=Facts)


def read_path(name: str) -> ReadPath:
    """The path registered as `name`. Raises SYS002 when unknown, SYS003 for faulty facts."""
    values, facts = split(read_toml(READ_PATHS.text(name), name), name)
    return build(ReadPath, {"id": name, **values, "facts": facts}, name)
