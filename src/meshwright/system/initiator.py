"""The registry name of who starts a transfer goes in; the steps of one request, with where each goes, come out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from meshwright.base.errors import SystemSpecError
from meshwright.base.parse import build, read_toml
from meshwright.base.registry import Registry
from meshwright.system.facts import Facts, split

INITIATORS: Final = Registry(
    kind="initiators",
    package="meshwright.system",
    folder="data/initiators",
    suffix=".toml",
    error=SystemSpecError,
    number=2,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a request. start, end: where it comes from and goes to; PCIe lies between any two of them.

    path: what it carries.   side: of the initiator or of the remote node.
    """

    name: str
    path: Literal["control", "payload", "completion"]
    side: Literal["initiator", "remote"] = "initiator"
    start: Literal["host", "gpu", "nic"]
    end: Literal["host", "gpu", "nic"]

    @property
    def crosses(self) -> bool:
        """Whether it crosses PCIe."""
        return self.start != self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class Initiator:
    """cores: what a transfer occupies while it is driven."""

    id: str
    name: str
    cores: str
    steps: tuple[Step, ...]
    note: str = ""
    facts: Facts = field(default_factory=Facts)


def read_initiator(name: str) -> Initiator:
    """The initiator registered as `name`. Raises SYS002 when unknown, SYS003 for faulty facts."""
    values, facts = split(read_toml(INITIATORS.text(name), name), name)
    return build(Initiator, {"id": name, **values, "facts": facts}, name)
