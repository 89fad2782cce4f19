"""A system, an operation, ranks and sizes go in; the bus bandwidth to expect, with its interval and bound, comes out.

Three ways, the firmest first: an archived time of this platform and size, a fit to measured times of this accelerator
and link, and the wire: what a program may reach at most over the datasheet's links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from meshwright.base.result import Basis
from meshwright.cost.collective_fits import FAMILIES, fitted_s
from meshwright.cost.collectives import AUTO, COLLECTIVES, algorithms, busbw_factor, start_up_s
from meshwright.cost.program_sizes import program_size
from meshwright.system.calibrations import measured_time
from meshwright.system.collective_fits import CollectiveFit, collective_fits
from meshwright.system.link import LINKS, Link, read_link

if TYPE_CHECKING:
    from meshwright.base.result import Source
    from meshwright.system.system import System

IN_SWITCH: Final = "in_switch"
RING: Final = "ring"
_ALIKE: Final = {"nccl": (IN_SWITCH,), "framework": ("in_switch_framework",)}
"""What a library may choose beside the programs of a family."""
_USUAL: Final = ("ring", "one_shot", "send_recv")
"""The first of these that an operation has is what busbw is compared with."""
_CROSSING: Final = ("tree", "hierarchical", "double_binary_tree")
"""Other programs that a library may choose over boxes: they may cross between boxes less often."""
_LONG: Final = 10
"""The wire tells nothing of a message that start-up takes more than a tenth of."""
_LATE: Final = 3
"""How many times a datasheet's latency a round may take and be normal (assumed)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One group of ranks on a system. nics: that each box has in use.   algorithm: `auto`, or a registered name.

    wire: of a link's bandwidth, what is expected of a program that nobody measured.   least: and what is normal there.
    within: around an archived time.
    """

    system: System
    operation: str
    ranks: int
    boxes: int
    nics: int
    family: str
    algorithm: str
    wire: float
    least: float
    within: float

    @property
    def link(self) -> Link:
        """The slowest link between the ranks."""
        found = self.system.scale_up if self.boxes == 1 else self.system.scale_out
        assert found is not None
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Of one size, bus bandwidths. bound: no program known goes above it.   by: the fit, the archive, or the program.

    None where nothing is known: a size that start-up decides, and no measured time.
    """

    busbw: float | None
    low: float | None
    high: float | None
    bound: float
    basis: Basis
    by: str
    algorithm: str
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The bus bandwidth at which a program fills the wire, and how often a byte of the message crosses it."""

    algorithm: str
    busbw: float
    bytes_per_byte: float
    start_up_s: float


def expected(asked: Asked, message_bytes: int) -> Expected:
    """What to expect of one size. Raises COL001 for an unknown algorithm."""
    most = max(bounds(asked), key=lambda bound: bound.busbw)
    return (
        _archived(asked, message_bytes, most)
        or _fitted(asked, message_bytes, most)
        or _on_the_wire(asked, message_bytes, most)
    )


def bounds(asked: Asked) -> tuple[Bound, ...]:
    """Of every program that the exchange may be done by: the ring first.

    Raises COL001 (an unknown algorithm), COL002 (ranks that it does not take), COL010 (an operation that it has not).
    """
    if asked.algorithm != AUTO:
        return (_bound(asked, asked.algorithm),)
    known = algorithms(asked.operation)
    usual = next(name for name in _USUAL if name in known)
    others = () if asked.boxes == 1 else tuple(name for name in _CROSSING if name in known)
    names = [usual, *others]
    if asked.operation == "all_reduce" and asked.boxes == 1 and reduces_in_switch(asked.system.scale_up):
        names.append(IN_SWITCH)
    fitting = [name for name in names if COLLECTIVES.module(name).permits(asked.operation, asked.ranks)]
    return tuple(_bound(asked, name) for name in fitting)


def reduces_in_switch(link: Link) -> bool:
    """Whether switches of this link, at whatever rate and latency, were measured to reduce."""
    known = {fit.link for fit in collective_fits() if fit.family == IN_SWITCH}
    return any(_catalog_link(name).name == link.name for name in known if name in LINKS.names())


def fits_of(asked: Asked, families: Sequence[str]) -> tuple[CollectiveFit, ...]:
    """Fits of these families to this accelerator, link, operation and number of boxes."""
    return tuple(
        fit
        for fit in collective_fits()
        if fit.family in families
        and fit.operation == asked.operation
        and fit.accelerator == asked.system.accelerator.id
        and fit.boxes == asked.boxes
        and same_link(fit.link, asked.link)
    )


@cache
def _catalog_link(name: str) -> Link:
    return read_link(name)


def same_link(name: str, link: Link) -> bool:
    """Whether a registered link has the numbers of this one."""
    if name not in LINKS.names():
        return False
    known = _catalog_link(name)
    return (known.bandwidth, known.latency) == (link.bandwidth, link.latency)


def busbw_of(asked: Asked, message_bytes: float, seconds: float) -> float:
    """The bus bandwidth of a time, in bytes a second."""
    return busbw_factor(asked.operation, asked.ranks) * message_bytes / seconds


def fitted_busbw(asked: Asked, fit: CollectiveFit, message_bytes: int) -> tuple[float, float, float]:
    """Expected bus bandwidth by a fit, and the interval of its spread."""
    seconds: Any = fitted_s(fit, asked.ranks, float(message_bytes))
    spread = fit.spread_at(message_bytes)
    assert spread is not None
    middle = busbw_of(asked, message_bytes, float(seconds))
    return middle, middle / max(spread.high, 1.0), middle / min(spread.low, 1.0)


def _archived(asked: Asked, message_bytes: int, most: Bound) -> Expected | None:
    if asked.operation != "all_reduce" or asked.family != "nccl" or asked.algorithm != AUTO:
        return None
    if asked.boxes > 1 and asked.nics != asked.system.nics_per_node:
        return None
    found = measured_time(asked.operation, asked.system, asked.boxes, asked.ranks, message_bytes)
    if found is None or found.size != message_bytes:
        return None
    middle = busbw_of(asked, message_bytes, found.time)
    return Expected(
        busbw=middle,
        low=middle * (1 - asked.within),
        high=middle * (1 + asked.within),
        bound=most.busbw,
        basis=Basis.MEASURED,
        by=found.platform,
        algorithm=AUTO,
        sources=(found.source,),
    )


def _fitted(asked: Asked, message_bytes: int, most: Bound) -> Expected | None:
    families = (asked.family, *_ALIKE.get(asked.family, ()))
    if asked.algorithm != AUTO:
        families = tuple(
            name for name in families if asked.algorithm in FAMILIES[name].programs.get(asked.operation, ())
        )
    covering = [
        fit
        for fit in fits_of(asked, families)
        if fit.covers(asked.ranks, asked.boxes, message_bytes)
        and (asked.boxes == 1 or asked.nics == asked.system.nics_per_node)
    ]
    if not covering:
        return None
    found = max(covering, key=lambda fit: fitted_busbw(asked, fit, message_bytes)[0])
    middle, low, high = fitted_busbw(asked, found, message_bytes)
    return Expected(
        busbw=middle,
        low=low,
        high=high,
        bound=most.busbw,
        basis=Basis.CALIBRATED,
        by=found.name,
        algorithm=IN_SWITCH if found.family.startswith(IN_SWITCH) else asked.algorithm,
        sources=found.sources,
    )


def _on_the_wire(asked: Asked, message_bytes: int, most: Bound) -> Expected:
    """Against the first program, a ring where there is one: its start-up, and the share of its bound that is usual."""
    first = bounds(asked)[0]
    transfer_s = busbw_factor(asked.operation, asked.ranks) * message_bytes / first.busbw
    judged = transfer_s >= _LONG * first.start_up_s
    usual_s = first.start_up_s + transfer_s / asked.wire
    most_s = _LATE * first.start_up_s + transfer_s / asked.least
    return Expected(
        busbw=busbw_of(asked, message_bytes, usual_s) if judged else None,
        low=busbw_of(asked, message_bytes, most_s) if judged else None,
        high=most.busbw if judged else None,
        bound=most.busbw,
        basis=Basis.DATASHEET,
        by="the wire",
        algorithm=first.algorithm,
    )


def _bound(asked: Asked, name: str) -> Bound:
    """The slower of the box's links and its NICs, each full."""
    size = program_size(asked.operation, name, asked.ranks, asked.boxes)
    factor, system = busbw_factor(asked.operation, asked.ranks), asked.system
    inside = size.device_bytes_per_byte / system.scale_up.bandwidth
    outside = 0.0 if asked.boxes == 1 else size.box_bytes_per_byte / (asked.nics * asked.link.bandwidth)
    slower = size.device_bytes_per_byte if inside >= outside else size.box_bytes_per_byte
    start_up: Any = start_up_s(size.rounds, cast("Any", asked.link.latency))
    return Bound(
        algorithm=name,
        busbw=factor / max(inside, outside),
        bytes_per_byte=slower,
        start_up_s=float(start_up),
    )
