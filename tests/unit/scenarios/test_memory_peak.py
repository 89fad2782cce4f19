"""The study of memory peaks: what its text spells, and what it refuses."""

from __future__ import annotations

import pytest

from meshwright.base.errors import MeshwrightError
from meshwright.scenarios.memory_peak import memory_peak

SIZES = {"activations": 8, "gather": 4}


def peaks(*buffers, resident=(0,)):
    found = memory_peak(sizes=SIZES, buffers=buffers, resident=resident)
    return [(peak.peak_bytes, peak.peak_s, peak.alive_bytes) for peak in found.ranks]


def test_buffers_that_follow_each_other_share_room_and_those_that_overlap_do_not():
    assert peaks("activations 0ms..2ms", "gather 1ms..3ms") == [(12, 0.001, {"activations": 8, "gather": 4})]
    assert peaks("activations 0ms..1ms", "gather 1ms..3ms") == [(8, 0.0, {"activations": 8})]


def test_times_of_different_units_meet_and_one_without_an_end_stays():
    assert peaks("activations 0s..0.015s", "gather 15 ms .. 1 min")[0][0] == 8
    assert peaks("gather 1ms..", "activations 1h..2h") == [(12, 3600.0, {"activations": 8, "gather": 4})]


def test_every_rank_has_a_peak_of_its_own_and_the_fullest_is_named():
    found = memory_peak(sizes=SIZES, buffers=("gather@2 0s..1s", "gather@2 0s..1s", "gather 1s..2s"), resident=(3,))
    assert [peak.peak_bytes for peak in found.ranks] == [7, 3, 11]
    assert [peak.sum_bytes for peak in found.ranks] == [7, 3, 11]
    assert [peak.resident_bytes for peak in found.ranks] == [3, 3, 3]
    assert (found.fullest_rank, found.peak_bytes) == (2, 11)


def test_residency_and_peak_shrink_at_different_rates():
    """Halving what persists leaves what is not shared: 18 and 9 with 21 on top, as in section 10.1.2 of the chapter."""
    found = memory_peak(sizes={"unsharded": 21}, buffers=("unsharded@1 0s..1s", "unsharded 0s..1s"), resident=(18, 9))
    assert [(peak.resident_bytes, peak.peak_bytes) for peak in found.ranks] == [(18, 39), (9, 30)]


def test_a_rank_without_buffers_holds_what_persists():
    assert peaks(resident=(5, 6)) == [(5, 0.0, {}), (6, 0.0, {})]


@pytest.mark.parametrize(
    ("buffer", "code"),
    [
        ("gather", "SCH030"),
        ("gather 1ms", "SCH030"),
        ("gather ..2ms", "SCH030"),
        ("gather@x 1ms..2ms", "SCH030"),
        ("gather@-1 1ms..2ms", "SCH030"),
        ("", "SCH030"),
        ("gather 2ms..1ms", "SCH031"),
        ("bucket 1ms..2ms", "SCH032"),
        ("gather@99999999 1ms..2ms", "SCH033"),
        ("gather 1..2", "IO002"),
        ("gather 1ms..2GB", "IO002"),
        ("gather -1ms..2ms", "IO003"),
        ("gather x..2ms", "IO001"),
    ],
)
def test_a_life_that_is_none_is_a_coded_error(buffer, code):
    with pytest.raises(MeshwrightError) as caught:
        peaks(buffer)
    assert caught.value.code == code


@pytest.mark.parametrize(("resident", "rank"), [((), 0), ((1, 2), 2), ((2**62,), 0), ((2**62 - 4,), 0)])
def test_ranks_and_bytes_out_of_range_are_a_coded_error(resident, rank):
    with pytest.raises(MeshwrightError) as caught:
        peaks(f"gather@{rank} 0s..1s", resident=resident)
    assert caught.value.code == "SCH033"
