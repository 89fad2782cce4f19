"""An accelerator's registry name goes in; its memory, rates and power come out, with their sources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from meshwright.base.errors import SystemSpecError
from meshwright.base.parse import build, read_toml
from meshwright.base.registry import Registry
from meshwright.base.units import Bytes, BytesPerSecond, FlopsPerSecond, Watts
from meshwright.system.facts import Facts, split

ACCELERATORS: Final = Registry(
    kind="accelerators",
    package="meshwright.system",
    folder="data/accelerators",
    suffix=".toml",
    error=SystemSpecError,
    number=2,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One accelerator by its datasheet.

    id: registry name.   memory: bytes of HBM or GDDR (80 GB is 80e9).   memory_bandwidth: bytes a second.
    power: watts of the board.   peak: dense matrix rate in FLOP/s by compute format (one multiply-add is 2 FLOP).
    """

    id: str
    name: str
    memory: Bytes
    memory_bandwidth: BytesPerSecond
    peak: Mapping[str, FlopsPerSecond]
    power: Watts | None = None
    vendor: str = ""
    note: str = ""
    facts: Facts = field(default_factory=Facts)

    def peak_for(self, formats: tuple[str, ...]) -> tuple[str, FlopsPerSecond]:
        """The first of `formats` that this accelerator multiplies in, and its rate. Raises SYS005 when it has none."""
        for name in formats:
            if name in self.peak:
                return name, self.peak[name]
        known = ", ".join(self.peak) or "none"
        cause = f"{self.name} has no matrix rate for {' or '.join(dict.fromkeys(formats))} (known: {known})"
        raise SystemSpecError(5, cause, "choose another format (--weights, --recipe), or another accelerator")


def read_accelerator(name: str) -> Accelerator:
    """The accelerator registered as `name`. Raises SYS002 when unknown, SYS003 and SYS004 for faulty facts."""
    values, facts = split(read_toml(ACCELERATORS.text(name), name), name)
    return build(Accelerator, {"id": name, **values, "facts": facts}, name)


def accelerator_called(name: str) -> Accelerator | None:
    """The one accelerator of the catalog that a driver calls `name`, as in "NVIDIA A100-SXM4-80GB"; None if not sure.

    Every part of its id stands in the name, but for the socket (sxm), which drivers seldom say. What shares a chip's
    name and runs slower is left out: PCIe and NVL cards, laptops, the D edition, a MIG slice. The longest id is meant.
    """
    words = set(re.findall(r"[a-z]+\d+[a-z]*|\d+[a-z]*|[a-z]+", name.lower()))
    if words & _CARDS:
        return None
    fitting = [item for item in ACCELERATORS.names() if _parts(item) <= words]
    longest = max((len(_parts(item)) for item in fitting), default=0)
    first, *others = [item for item in fitting if len(_parts(item)) == longest] or [None]
    return None if first is None or others else read_accelerator(first)


_CARDS: Final = frozenset({"pcie", "nvl", "laptop", "d", "mig"})
_SOCKET: Final = "sxm"


def _parts(name: str) -> set[str]:
    return {part for part in name.split("-") if part != _SOCKET}
