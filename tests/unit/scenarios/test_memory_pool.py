"""Borrowing, windows and reads: the chapter's numbers, and what every answer keeps."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.base.errors import JobError
from meshwright.scenarios.memory_pool import PoolOptions, pool

GB = 10**9
CHAPTER = PoolOptions(demand=(100 * GB, 60 * GB, 40 * GB, 40 * GB), node=(80 * GB,), path=50e9, latency=7.52e-6)
SIZES = st.lists(st.integers(1, 200), min_size=1, max_size=8)


def answer(**given):
    return pool(replace(CHAPTER, **given))


def test_memory_never_grows_by_borrowing():
    """Chapter "Supernodes", section 6.6.1: 100 GB are free elsewhere before, and 80 GB everywhere after."""
    body = answer().body
    assert body["used_bytes"] == [80 * GB, 80 * GB, 40 * GB, 40 * GB]
    assert (body["free_elsewhere_before_bytes"], body["free_after_bytes"]) == (100 * GB, 80 * GB)
    assert [(row.owner, row.host) for row in body["regions"] if row.kind == "borrowed"] == [(0, 1)]
    assert body["nodes"][0].working_bytes == 100 * GB


@settings(max_examples=60, deadline=None)
@given(demand=SIZES, data=st.data())
def test_bytes_are_conserved(demand, data):
    node = data.draw(st.lists(st.integers(1, 200), min_size=len(demand), max_size=len(demand)))
    found = pool(PoolOptions(demand=tuple(demand), node=tuple(node)))
    body = found.body
    assert (found.verdict.answer == "yes") == (sum(demand) <= sum(node))
    assert body["capacity_bytes"] == sum(body["used_bytes"]) + body["free_after_bytes"]
    assert sum(row.size_bytes for row in body["regions"]) == sum(body["used_bytes"])
    if body["loans"] is not None:
        assert sum(body["used_bytes"]) == sum(demand)
        assert [row.working_bytes for row in body["nodes"]] == demand


def test_requests_that_fill_the_path_are_exact():
    """Chapter "Supernodes", section 6.6.2: 1468.75 and 2937.5 before rounding."""
    assert answer(window=128).body["window"].least_requests == 1469
    assert answer(latency=15.04e-6).body["window"].least_requests == 2938
    assert answer(item=1).body["window"].least_requests == 376_000


def test_a_faster_path_does_not_help_a_window():
    """Rejected answer 16: 4.36 GB/s stay 4.36 GB/s, whatever the path; more requests under way change them."""
    rates = [answer(window=128, path=path).body["window"].usable_bytes_per_s for path in (50e9, 100e9, 800e9)]
    assert rates == [pytest.approx(4.36e9, rel=1e-3)] * 3
    assert answer(window=256).body["window"].usable_bytes_per_s == pytest.approx(2 * rates[0])
    assert any("a faster path changes nothing" in line for line in answer(window=128).warnings)


@given(window=st.integers(1, 10**6), item=st.integers(1, 2**20), trip=st.integers(1, 10**6))
def test_the_window_is_the_limit_exactly_below_the_least_requests(window, item, trip):
    found = answer(window=window, item=item, latency=trip * 1e-9).body["window"]
    assert (found.limited_by == "window") == (window < found.least_requests)
    assert found.usable_bytes_per_s <= min(found.path_bytes_per_s, found.window_bytes_per_s)
    needed = Fraction(repr(found.path_bytes_per_s)) * Fraction(repr(found.round_trip_s)) / item
    assert found.least_requests - 1 < needed <= found.least_requests


def test_reads_keep_up_while_a_period_is_not_shorter():
    """Chapter "Supernodes", section 6.6.3."""
    slow, even, fast = answer(periods=(1.0, 0.4, 0.05)).body["reads"].periods
    assert (slow.keeps_up, slow.idle_s, slow.behind_s) == (True, pytest.approx(0.6), 0.0)
    assert (even.keeps_up, even.idle_s) == (True, 0.0)
    assert (fast.keeps_up, fast.behind_s) == (False, pytest.approx(9 * 0.35))


def test_fetching_once_pays_from_the_second_read_on():
    found = answer().body["reads"]
    assert (found.even_reads, found.sooner) == (2, "fetch")
    assert answer(reads=1).body["reads"].sooner == "remote"
    assert answer(local=50e9).body["reads"].even_reads is None


@settings(max_examples=30)
@given(window=st.integers(1, 5000), reads=st.integers(1, 20), size=st.integers(60, 120))
def test_every_flip_happens(window, reads, size):
    options = replace(CHAPTER, window=window, reads=reads, node=(size * GB,), data=20 * GB)
    for flip in pool(options).flips:
        for value, side in ((flip["value"] - 1, "from"), (flip["value"], "to")):
            assert named(options, flip["parameter"], value) == flip[side], flip


def named(options, parameter, value):
    body = pool(replace(options, **{parameter: (value,) if parameter == "node" else value})).body
    if parameter == "node":
        return None if body["loans"] is None else f"loans={body['loans']}"
    if parameter == "window":
        return f"limited_by={body['window'].limited_by}"
    return f"sooner={body['reads'].sooner}"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"demand": ()}, "JOB100"),
        ({"node": (80 * GB, 80 * GB)}, "JOB100"),
        ({"node": (0,)}, "JOB100"),
        ({"path": 0.0}, "JOB101"),
        ({"window": 4, "latency": None}, "JOB101"),
        ({"window": 0}, "JOB101"),
        ({"item": 0}, "JOB101"),
        ({"data": 1, "path": None, "latency": None}, "JOB102"),
        ({"reads": 0}, "JOB102"),
        ({"periods": (0.0,)}, "JOB102"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_code(given, code):
    with pytest.raises(JobError) as caught:
        answer(**given)
    assert caught.value.code == code
    assert caught.value.fix
