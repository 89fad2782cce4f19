"""A name goes in; what was fitted to measured times of one operation on one link, and for which sizes, comes out.

A fit belongs to an accelerator, a link, an operation and a family (how the exchange was done and timed). It has at most
three numbers; rounds and bytes come from the family's programs (`cost.collective_fits`). Files are written by the
command that fits them, and are never edited.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from meshwright.base.errors import SystemSpecError
from meshwright.base.parse import build, read_toml
from meshwright.base.registry import Registry
from meshwright.base.result import Source
from meshwright.base.units import Bytes, BytesPerSecond, Seconds
from meshwright.system.facts import split

COLLECTIVE_FITS: Final = Registry(
    kind="collective_fits",
    package="meshwright.system",
    folder="collective_fits",
    suffix=".toml",
    error=SystemSpecError,
    number=2,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeSpread:
    """Measured over fitted time of messages of at least `least` bytes, to the next spread.

    low, high: nine of ten rows lie between them.   rows: how many there were.   held_out: whether the fit had not seen
    them.
    """

    least: Bytes
    low: float
    high: float
    rows: int
    held_out: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveFit:
    """One fit.

    accelerator, link: registry names, or as the source names what the catalog does not have.   owner: whose one-way
    bandwidth it is.   launch: what one call costs at least.   latency: of a round.   boxes, ranks: that were measured.
    least, most: sizes that were.   date: when the rows were read.
    """

    name: str
    accelerator: str
    link: str
    operation: str
    family: str
    owner: Literal["device", "nic"]
    boxes: int
    ranks: tuple[int, ...]
    launch: Seconds
    latency: Seconds
    bandwidth: BytesPerSecond
    least: Bytes
    most: Bytes
    rows: int
    date: str
    spread: tuple[SizeSpread, ...]
    sources: tuple[Source, ...]

    def spread_at(self, message_bytes: float) -> SizeSpread | None:
        """The spread of a message's size; None where no row of that size was measured."""
        found = [item for item in self.spread if item.least <= message_bytes]
        return found[-1] if found and message_bytes >= self.least / 2 else None

    def covers(self, ranks: int, boxes: int, message_bytes: float) -> bool:
        """Whether it speaks of so many ranks and of that size: measured ones and those between, and larger messages."""
        between = self.ranks[0] <= ranks <= self.ranks[-1]
        return between and boxes == self.boxes and self.spread_at(message_bytes) is not None


@cache
def collective_fits() -> tuple[CollectiveFit, ...]:
    """Every fit of the package and of outsiders, by name. Raises SYS003 for a source that is incomplete."""
    return tuple(read_collective_fit(name) for name in COLLECTIVE_FITS.names())


def read_collective_fit(name: str) -> CollectiveFit:
    """The fit registered as `name`. Raises SYS002 when unknown, SYS003 for its sources."""
    values, facts = split(read_toml(COLLECTIVE_FITS.text(name), name), name)
    return build(CollectiveFit, {**values, "name": name, "sources": facts.sources}, name)
