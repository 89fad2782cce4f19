"""A prompt and a decode step over ranks that share a context."""

from __future__ import annotations

import pytest

from meshwright.model.reader import read_model
from meshwright.scenarios.context_parallel import context_parallel
from meshwright.system.system import read_system

BOXES = read_system("hgx-h100 x2")
DENSE, HYBRID = read_model("Qwen/Qwen3-32B"), read_model("Qwen/Qwen3.6-35B-A3B")


@pytest.fixture(scope="module")
def found():
    return context_parallel(DENSE, BOXES, 131072, 2, (1, 2, 4, 8))


def test_ranks_of_one_box_make_a_step_faster_by_less_than_their_number_and_a_nic_may_not(found):
    """Weights are read by every rank of cp, and merges over the NIC wait for it."""
    speeds = {row.cp: row.times_faster for row in found.decode}
    assert 1.0 == speeds[1] < speeds[2] < speeds[4]
    assert speeds[8] < speeds[4]
    assert all(speed < cp for cp, speed in speeds.items() if cp > 1)


def test_state_is_shared_and_partial_results_of_every_head_are_merged(found):
    """64 heads of 128 over tp=2: a vector and two numbers each, in fp32."""
    alone, *others = found.decode
    assert (alone.merge_bytes, alone.merge_s) == (0.0, 0.0)
    for row in others:
        assert row.state_bytes == pytest.approx(alone.state_bytes / row.cp, rel=1e-4)
        assert row.merge_bytes == 32 * (128 + 2) * 4
        assert row.merge_s > 0


def test_zigzag_attends_as_fast_by_any_exchange_and_neighbours_slower(found):
    by_way = {(row.split, row.exchange): row for row in found.prompt}
    assert len(by_way) == 7
    zigzag = by_way["zigzag", "ring"].attention_s
    assert by_way["zigzag", "all_gather"].attention_s == by_way["zigzag", "ulysses"].attention_s == zigzag
    assert by_way["contiguous", "ring"].attention_s > 1.8 * zigzag


def test_a_recurrence_forbids_stripes_and_ulysses():
    rows = context_parallel(HYBRID, BOXES, 4096, 1, (2,)).prompt
    assert {row.excluded for row in rows if row.prompt_s is None} == {"LAY051"}
    assert {row.split for row in rows if row.excluded} == {"striped", "zigzag"}
