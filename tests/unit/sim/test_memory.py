"""Buffers with lifetimes, counted by hand: levels, peaks, what was alive, and what comes or goes at one time."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from meshwright.sim.memory import Buffers, Peak, memory

GIB = 2**30
NEVER = math.nan


def held(rows, resident, *, time=np.float64):
    """rows: (rank, from, to, bytes, kind)."""
    rank, alloc, free, size, kind = zip(*rows, strict=True) if rows else ((),) * 5
    return memory(
        Buffers(
            rank=np.array(rank, np.int64),
            alloc=np.array(alloc, time),
            free=np.array(free, time),
            size_bytes=np.array(size, np.int64),
            kind=np.array(kind, np.int64),
            kinds=("activations", "gather"),
            resident_bytes=np.array(resident, np.int64),
        )
    )


@pytest.mark.parametrize(("gather", "peak"), [(3, 12), (4, 8)])
@pytest.mark.parametrize("time", [np.int64, np.float64])
def test_a_gather_beside_the_activations_adds_to_them_and_after_them_it_does_not(gather, peak, time):
    """8 GiB of activations and a gather of 4 GiB: 12 when they overlap, 8 when one follows the other."""
    used = held([(0, 0, 4, 8 * GIB, 0), (0, gather, 6, 4 * GIB, 1)], [0], time=time)
    assert used.peak_bytes.tolist() == [peak * GIB]
    assert used.alive_bytes().tolist() == [[8 * GIB, (peak - 8) * GIB]]
    assert used.final_bytes().tolist() == [0]


def test_the_level_steps_at_each_time_and_the_peak_says_when_and_what_was_alive():
    used = held([(0, 1, 3, 10, 0), (0, 1, 6, 20, 1), (1, 0, 1, 5, 0)], [100, 7])
    assert used.first.tolist() == [0, 4, 6]
    assert used.time.tolist() == [0, 1, 3, 6, 0, 1]
    assert used.level_bytes.tolist() == [100, 130, 120, 100, 12, 7]
    assert used.peak_bytes.tolist() == [130, 12]
    assert used.peak_at.tolist() == [1, 0]
    assert used.alive(0).tolist() == [1, 0]
    assert used.alive_bytes().tolist() == [[10, 20], [5, 0]]
    assert used.final_bytes().tolist() == [100, 7]


def test_a_peak_is_told_in_seconds_with_what_persists_and_what_a_sum_of_sizes_would_be():
    used = held([(0, 1, 3, 10, 0), (0, 3, 6, 20, 1), (0, 4, 4, 9, 1)], [100, 7], time=np.int64)
    assert used.peaks(Fraction(1, 10)) == (
        Peak(rank=0, resident_bytes=100, peak_bytes=120, peak_s=0.3, alive_bytes={"gather": 20}, sum_bytes=130),
        Peak(rank=1, resident_bytes=7, peak_bytes=7, peak_s=0.0, alive_bytes={}, sum_bytes=7),
    )


def test_of_equal_peaks_the_first_counts():
    used = held([(0, 1, 2, 4, 0), (0, 5, 6, 4, 1)], [0])
    assert used.peak_at.tolist() == [1]
    assert used.alive_bytes().tolist() == [[4, 0]]


def test_what_is_never_freed_stays_and_what_is_never_allocated_never_comes():
    used = held([(0, 2, NEVER, 3, 0), (0, NEVER, NEVER, 9, 1)], [1])
    assert used.level_bytes.tolist() == [1, 4]
    assert used.final_bytes().tolist() == [4]
    assert used.alive(0).tolist() == [0]


def test_what_is_freed_as_it_comes_takes_no_room():
    used = held([(0, 2, 2, 3, 0)], [1])
    assert used.peak_bytes.tolist() == [1]
    assert used.alive(0).tolist() == []


def test_a_rank_without_buffers_holds_what_is_resident_and_there_may_be_no_ranks():
    assert held([(0, 0, 1, 3, 0)], [0, 42]).peak_bytes.tolist() == [3, 42]
    assert held([], []).peak_bytes.tolist() == []


def test_bytes_are_exact_beyond_what_a_float_counts():
    odd = 2**60 + 1
    used = held([(0, 0, 1, odd, 0), (1, 0, 1, odd, 1), (1, 0, 1, 2, 1)], [0, 0])
    assert used.peak_bytes.tolist() == [odd, odd + 2]
    assert used.alive_bytes().tolist() == [[odd, 0], [0, odd + 2]]


def test_a_buffer_that_is_freed_before_it_is_allocated_is_a_bug():
    with pytest.raises(AssertionError, match="freed after"):
        held([(0, 2, 1, 3, 0)], [0])
