"""How much memory does it take at most? Kinds of buffers with sizes, and lives go in; the peak of each rank comes out.

Two levers lower a peak: smaller buffers, or fewer that live at one time. Residency and peak shrink at different rates,
so that both are told, with what was alive at the peak.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from math import nan
from typing import Final

import numpy as np

from meshwright.base.errors import ScheduleError, suggest
from meshwright.base.units import Bytes, parse_quantity
from meshwright.sim.memory import Buffers, Peak, memory

_MOST_RANKS: Final = 65_536
_MOST_BYTES: Final = 2**62
_LIFE: Final = re.compile(r"([^\s@]+)(?:@([0-9]{1,9}))? (.+?)\.\.(.*)")
_SPELLED: Final = "write KIND FROM..TO, KIND@RANK FROM..TO, or KIND FROM.. for one that is never freed"
_LEFT_OUT: Final = ("what an allocator adds: rounding, fragments and blocks that it keeps",)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPeak:
    """The rank that needs most, the lowest of several, with the least that a device must have; then every rank."""

    fullest_rank: int
    peak_bytes: int
    ranks: tuple[Peak, ...]
    not_modelled: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Life:
    """One buffer. free_s: not a number where it is never freed."""

    kind: str
    rank: int
    alloc_s: float
    free_s: float


def memory_peak(*, sizes: dict[str, Bytes], buffers: tuple[str, ...], resident: tuple[Bytes, ...]) -> MemoryPeak:
    """The peak of every rank: the most that it holds at one time, not a sum of sizes.

    sizes: of one buffer of each kind.   buffers: text, one a buffer: `gather 1ms..3ms` on rank 0, `gather@2 1ms..3ms`
    on rank 2, `gather 1ms..` never freed. At one time frees come before allocations.   resident: bytes that a rank
    holds all the time; one figure for all, or one a rank. Raises SCH030 (spelling), SCH031 (freed before allocated),
    SCH032 (kind), SCH033 (ranks, bytes), IO001..IO003 (times). Source: chapter "Training systems", section 10.1.2.
    """
    lives = tuple(_life(text, sizes) for text in buffers)
    ranks = len(resident) if len(resident) > 1 else max((life.rank for life in lives), default=0) + 1
    _check(lives, ranks, sizes, resident)
    kinds = tuple(sizes)
    held = memory(
        Buffers(
            rank=np.array([life.rank for life in lives], np.int64),
            alloc=np.array([life.alloc_s for life in lives], np.float64),
            free=np.array([life.free_s for life in lives], np.float64),
            size_bytes=np.array([sizes[life.kind] for life in lives], np.int64),
            kind=np.array([kinds.index(life.kind) for life in lives], np.int64),
            kinds=kinds,
            resident_bytes=np.array(resident if len(resident) > 1 else resident * ranks, np.int64),
        )
    )
    peaks = held.peaks(Fraction(1))
    fullest = max(peaks, key=lambda peak: peak.peak_bytes)
    return MemoryPeak(fullest_rank=fullest.rank, peak_bytes=fullest.peak_bytes, ranks=peaks, not_modelled=_LEFT_OUT)


def _life(text: str, sizes: dict[str, Bytes]) -> _Life:
    found = _LIFE.fullmatch(text)
    if found is None:
        raise ScheduleError(30, f"{text!r} is not the life of a buffer", _SPELLED)
    kind, rank, first, last = found.groups()
    if kind not in sizes:
        raise ScheduleError(32, f"{text!r}: kind {kind!r} has no size", suggest(kind, sizes))
    alloc_s = float(parse_quantity(first, "seconds", text))
    free_s = float(parse_quantity(last, "seconds", text)) if last else nan
    if free_s < alloc_s:
        raise ScheduleError(31, f"{text!r} is freed before it is allocated", _SPELLED)
    return _Life(kind=kind, rank=int(rank or 0), alloc_s=alloc_s, free_s=free_s)


def _check(lives: tuple[_Life, ...], ranks: int, sizes: dict[str, Bytes], resident: tuple[Bytes, ...]) -> None:
    """Ranks that are there, and bytes that can be counted."""
    last = max((life.rank for life in lives), default=0)
    if not resident or not last < ranks <= _MOST_RANKS:
        cause = f"rank {last} and {len(resident)} figures of resident bytes"
        raise ScheduleError(33, cause, f"give one figure, or one a rank, of at most {_MOST_RANKS} ranks")
    if max(resident) + sum(sizes[life.kind] for life in lives) >= _MOST_BYTES:
        raise ScheduleError(33, "more bytes than can be counted", "give smaller buffers")
