"""Which slices of a grid can still be given out, and when is rewiring it repaid? Free devices and shapes go in.

A slice without optical switches is a box of neighbours. Each placement of a job is enumerated, and the most that lie
side by side is found by trying all. With optical switches any free blocks make a slice: only their number counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations, product
from typing import Final, Literal, TypeAlias

from meshwright.base.errors import SystemSpecError
from meshwright.base.units import Bytes, BytesPerSecond, Seconds
from meshwright.cost.collectives import transfer_s
from meshwright.scenarios.collective import collective_time

Edges: TypeAlias = Literal["open", "wrapped"]
_MOST_DEVICES: Final = 4096
_MOST_FREE: Final = 36
"""Free devices up to which all sets of placements are tried."""
_MOST_DIMS: Final = 3
_LONGEST_S: Final = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """placements: boxes of free neighbours that a job fits.   jobs: the most at once, and chosen which devices.

    jobs_by_switches: with optical switches between single devices.
    """

    free: int
    placements: int
    jobs: int
    chosen: tuple[tuple[int, ...], ...]
    jobs_by_switches: int
    not_modelled: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewiring:
    """One exchange before and after; repetitions: the fewest that repay the rewiring. Start-up does not change."""

    sent_bytes: float
    before_links: int
    after_links: int
    before_s: float
    after_s: float
    saving_s: float
    repetitions: int
    not_modelled: tuple[str, ...]


def slices(grid: tuple[int, ...], job: tuple[int, ...], free: tuple[int, ...], edges: Edges) -> Slices:
    """Jobs of one shape, turned any way, on the free devices of a grid; free: their numbers, the last dim the fastest.

    edges: open, or wrapped as a torus.   Raises SYS034 (shapes, numbers, or too many free devices to try all). Source:
    chapter "Supernodes", section 6.5.4.
    """
    _check(grid, job, free)
    boxes = _placements(grid, job, frozenset(free), wrapped=edges == "wrapped")
    chosen = _most(frozenset(free), boxes, {})
    return Slices(
        free=len(free),
        placements=len(boxes),
        jobs=len(chosen),
        chosen=tuple(tuple(sorted(box)) for box in chosen),
        jobs_by_switches=len(free) // math.prod(job),
        not_modelled=(
            "rewiring while other jobs run, and blocks of more than one device that share their switches",
            "what a slice's shape does to its exchanges: study rewiring asks one",
        ),
    )


def rewiring(  # noqa: PLR0917 - an exchange, two numbers of links and their rate
    ranks: int,
    message_bytes: Bytes,
    before_links: int,
    after_links: int,
    link_bytes_per_s: BytesPerSecond,
    rewiring_s: Seconds,
) -> Rewiring:
    """A ring all_reduce with before_links of each device in use, and with after_links once it is rewired.

    Raises COL002 (ranks), SYS035 (links, rates, times). Source: chapter "Supernodes", section 6.5.4.
    """
    if not 1 <= before_links < after_links <= _MOST_DEVICES or link_bytes_per_s <= 0:
        cause = f"{before_links} links before and {after_links} after, of {link_bytes_per_s:g} B/s"
        raise SystemSpecError(35, cause, "give at least one link before, more after, and a rate above zero")
    if not 0 < rewiring_s <= _LONGEST_S or message_bytes < 1:
        raise SystemSpecError(35, f"{message_bytes} bytes, rewired in {rewiring_s} s", "give both above zero")
    sent = collective_time("ring", ranks, message_bytes, Seconds(0.0), link_bytes_per_s).sent_bytes
    rates = [links * link_bytes_per_s for links in (before_links, after_links)]
    before, after = (float(transfer_s(sent, 1, 1, rate)) for rate in rates)
    if not sent:
        raise SystemSpecError(35, "one rank sends nothing", "give at least two ranks")
    exact = Fraction(sent) / Fraction(repr(float(link_bytes_per_s)))
    saving = exact / before_links - exact / after_links
    return Rewiring(
        sent_bytes=sent,
        before_links=before_links,
        after_links=after_links,
        before_s=before,
        after_s=after,
        saving_s=float(saving),
        repetitions=math.ceil(Fraction(repr(float(rewiring_s))) / saving),
        not_modelled=("start-up: rounds stay as they are", "work that stands still while mirrors turn"),
    )


def _check(grid: tuple[int, ...], job: tuple[int, ...], free: tuple[int, ...]) -> None:
    count = math.prod(grid)
    if not 1 <= len(grid) == len(job) <= _MOST_DIMS or not all(size >= 1 for size in (*grid, *job)):
        cause = f"jobs of {list(job)} on a grid of {list(grid)}"
        raise SystemSpecError(34, cause, f"give both with the same dims, 1 to {_MOST_DIMS} of them")
    if count > _MOST_DEVICES or len(set(free)) != len(free) or not all(0 <= number < count for number in free):
        cause = f"{len(free)} free devices of {count}"
        raise SystemSpecError(34, cause, f"number each once from 0 to {count - 1}, on up to {_MOST_DEVICES} devices")
    if len(free) > _MOST_FREE:
        raise SystemSpecError(34, f"{len(free)} free devices", f"all ways are tried up to {_MOST_FREE}: give a part")


def _placements(
    grid: tuple[int, ...], job: tuple[int, ...], free: frozenset[int], *, wrapped: bool
) -> list[frozenset[int]]:
    """Every box of the job's shape, turned any way, whose devices are all free."""
    found: dict[frozenset[int], None] = {}
    for shape in sorted(set(permutations(job))):
        if any(size > extent for size, extent in zip(shape, grid, strict=True)):
            continue
        starts = (extent if wrapped else extent - size + 1 for size, extent in zip(shape, grid, strict=True))
        for corner in product(*(range(count) for count in starts)):
            box = frozenset(_number(grid, corner, step) for step in product(*(range(size) for size in shape)))
            if box <= free:
                found[box] = None
    return list(found)


def _number(grid: tuple[int, ...], corner: tuple[int, ...], step: tuple[int, ...]) -> int:
    number = 0
    for extent, start, offset in zip(grid, corner, step, strict=True):
        number = number * extent + (start + offset) % extent
    return number


def _most(
    free: frozenset[int], boxes: list[frozenset[int]], known: dict[frozenset[int], tuple[frozenset[int], ...]]
) -> tuple[frozenset[int], ...]:
    """The most boxes that share no device: the first free device is in one of its boxes, or in none."""
    usable = [box for box in boxes if box <= free]
    if not usable:
        return ()
    if free not in known:
        first = min(min(box) for box in usable)
        best = _most(free - {first}, usable, known)
        for box in usable:
            if first in box:
                taken = (box, *_most(free - box, usable, known))
                best = taken if len(taken) > len(best) else best
        known[free] = best
    return known[free]
