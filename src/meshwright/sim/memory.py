"""Buffers with lifetimes go in; the bytes of every rank over time, its peak and what was alive then come out.

The one ledger of memory over time. The peak of a rank is the most of what it holds at one time, what persists and every
buffer that lives then, not a sum of sizes (source: chapter "Training systems", section 10.1.2). A buffer lives from its
allocation up to, and without, the time at which it is freed: at one time frees come before allocations, so that one
takes the room of the other. Bytes are whole and exact. Left out is what an allocator adds: rounding and fragments.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from meshwright.base.numbers import Bools, Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Buffers:
    """Columns, one row a buffer, and what every rank holds all the time.

    rank: whose.   alloc, free: when, in one unit, whole ticks or seconds, from 0 on; NaN where it never is.
    size_bytes.   kind: which of `kinds`.   resident_bytes: of each rank, what persists.
    """

    rank: Ints
    alloc: NDArray[Any]
    free: NDArray[Any]
    size_bytes: Ints
    kind: Ints
    kinds: tuple[str, ...]
    resident_bytes: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """One rank. resident_bytes: what it holds all the time.   peak_bytes, peak_s: the most, and when that begins.

    alive_bytes: of its buffers at that time, by kind; with `resident_bytes` they are the peak.   sum_bytes: what would
    be needed if no buffer took the room of another.
    """

    rank: int
    resident_bytes: int
    peak_bytes: int
    peak_s: float
    alive_bytes: dict[str, int]
    sum_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Memory:
    """Bytes of each rank as a function of time: rows first[r] to first[r + 1] are those of rank r.

    time: in the unit of its buffers; level_bytes: what the rank holds from then to the next row's time. The first row
    of a rank is time zero.   peak_bytes, peak_at: of each rank, its highest level and when that is first reached.
    """

    buffers: Buffers
    first: Ints
    time: NDArray[Any]
    level_bytes: Ints
    peak_bytes: Ints
    peak_at: NDArray[Any]

    def final_bytes(self) -> Ints:
        """What each rank holds when all is over: `resident_bytes`, where every buffer was freed."""
        return self.level_bytes[self.first[1:] - 1]

    def alive(self, rank: int) -> Ints:
        """Rows of the buffers that live at the peak of a rank, the largest first, then by number."""
        held = np.flatnonzero(self._at_peak() & (self.buffers.rank == rank))
        return held[np.argsort(-self.buffers.size_bytes[held], kind="stable")]

    def alive_bytes(self) -> Ints:
        """[ranks, kinds]: what the buffers of each kind take at the peak; `resident_bytes` comes on top."""
        known, held = self.buffers, self._at_peak()
        found = np.zeros((len(self.peak_bytes), len(known.kinds)), np.int64)
        np.add.at(found, (known.rank[held], known.kind[held]), known.size_bytes[held])
        return found

    def peaks(self, tick_s: Fraction) -> tuple[Peak, ...]:
        """The peak of every rank. tick_s: seconds of the unit of time of the buffers, 1 where they are in seconds."""
        known, alive = self.buffers, self.alive_bytes().tolist()
        total = known.resident_bytes.copy()
        np.add.at(total, known.rank, np.where(_lives(known), known.size_bytes, 0))
        return tuple(
            Peak(
                rank=rank,
                resident_bytes=int(known.resident_bytes[rank]),
                peak_bytes=int(self.peak_bytes[rank]),
                peak_s=float(Fraction(self.peak_at[rank].item()) * tick_s),
                alive_bytes={kind: size for kind, size in zip(known.kinds, alive[rank], strict=True) if size},
                sum_bytes=int(total[rank]),
            )
            for rank in range(len(self.peak_bytes))
        )

    def _at_peak(self) -> Bools:
        at = self.peak_at[self.buffers.rank]
        return _lives(self.buffers) & (self.buffers.alloc <= at) & ~(self.buffers.free <= at)


def memory(buffers: Buffers) -> Memory:
    """What each rank holds over time. A buffer that is freed when it is allocated takes no room."""
    lives = _lives(buffers)
    freed = lives & ~np.isnan(buffers.free)
    assert (buffers.alloc[lives] >= 0).all(), "time starts at zero"
    assert (buffers.free[freed] > buffers.alloc[freed]).all(), "a buffer is freed after it is allocated"
    ranks = len(buffers.resident_bytes)
    # One event at time zero for what persists, one for each allocation and for each free.
    rank = np.concatenate([np.arange(ranks), buffers.rank[lives], buffers.rank[freed]])
    time = np.concatenate([np.zeros(ranks, buffers.alloc.dtype), buffers.alloc[lives], buffers.free[freed]])
    change = np.concatenate([buffers.resident_bytes, buffers.size_bytes[lives], -buffers.size_bytes[freed]])
    order = np.lexsort((time, rank))
    rank, time, total = rank[order], time[order], np.cumsum(change[order])
    # What happens at one time in one rank is one step, so that frees and allocations of that time are summed.
    final = np.append((rank[1:] != rank[:-1]) | (time[1:] != time[:-1]), np.ones(min(len(rank), 1), np.bool_))
    rank, time, total = rank[final], time[final], total[final]
    first = np.searchsorted(rank, np.arange(ranks + 1))
    before = np.concatenate([[0], total])[first[:-1]]  # what the ranks before it hold in the end
    level = total - np.repeat(before, np.diff(first))
    peaks = np.array([low + level[low:high].argmax() for low, high in pairwise(first.tolist())], np.int64)
    return Memory(
        buffers=buffers, first=first, time=time, level_bytes=level, peak_bytes=level[peaks], peak_at=time[peaks]
    )


def _lives(buffers: Buffers) -> Bools:
    """Those that are allocated, and not freed at once."""
    return ~np.isnan(buffers.alloc) & (buffers.free != buffers.alloc) & (buffers.size_bytes > 0)
