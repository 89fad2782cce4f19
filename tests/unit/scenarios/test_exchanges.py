"""Buckets, gaps, measured pairs and tuning at their edges: what just fits, what just pays, and what cannot be."""

from __future__ import annotations

from itertools import product

import pytest

from meshwright.base.errors import CheckpointError, CollectiveError
from meshwright.base.result import as_json
from meshwright.base.units import Bytes, Seconds
from meshwright.scenarios.buckets import bucket, bucket_sizes
from meshwright.scenarios.checkpointing import SaveOptions, checkpoint_timeline, save_call, save_rates
from meshwright.scenarios.gaps import gaps
from meshwright.scenarios.overlap import interference
from meshwright.scenarios.tuning import Settings, tuned, tuning

PAIR = {
    "communication_alone_s": 2.67e-3,
    "computation_alone_s": 11.53e-3,
    "communication_together_s": 6.14e-3,
    "computation_together_s": 11.52e-3,
    "finish_s": 11.58e-3,
}
"""4 MiB: chapter "Supernodes", section 6.4.3, experiment 6-5."""


def cut(pieces, gap_s, **more):
    """Buffers of 0.1 ms each over two ranks, of which each sends its message once; by default in one gap."""
    given = {"gap_count": 1, "busy_s": 0.001, "ready_s": 0.0} | more
    return gaps(
        message_bytes=100 * pieces, pieces=pieces, ranks=2, start_s=0.0, bandwidth_bytes_per_s=1e6, gap_s=gap_s,
        algorithm="ring", **given,
    ).split  # fmt: skip


@pytest.mark.parametrize(("pieces", "tenths"), [*product((2, 3, 6, 7), (0,)), (3, 1), (7, 1)])
def test_as_many_buffers_as_fill_a_gap_exactly_fit_in_it(pieces, tenths):
    found = cut(pieces, pieces * 0.0001 + tenths * 0.00001)
    assert found.call_s == pytest.approx(0.0001)
    assert found.placed == pieces
    assert found.exposed_wait_s == 0


def test_a_gap_that_is_too_short_by_a_little_holds_one_buffer_less():
    found = cut(3, 0.000299)
    assert found.placed == 2
    assert found.exposed_wait_s == pytest.approx(0.000001)  # it follows the two, and ends after the gap


def test_a_gradient_that_is_ready_during_the_exchange_fits_in_the_gap_after_it():
    assert [run.gap for run in cut(1, 0.001, gap_count=2, ready_s=0.0005).runs] == [0]
    assert [run.gap for run in cut(1, 0.001, gap_count=2, ready_s=0.001).runs] == [0]
    assert [run.gap for run in cut(1, 0.001, gap_count=2, ready_s=0.0011).runs] == [1]


def test_a_reduction_that_starts_after_the_window_overlaps_nothing():
    found = bucket(Seconds(0.009), Seconds(0.0), Seconds(0.003), Seconds(0.005))
    assert (found.overlapped_s, found.exposed_wait_s) == (0.0, pytest.approx(0.007))
    within = bucket(Seconds(0.0), Seconds(0.0), Seconds(0.003), Seconds(0.005))
    assert (within.overlapped_s, within.exposed_wait_s) == (0.003, 0.0)


def test_the_last_bucket_carries_the_layers_that_are_left():
    """Five layers of 1 ms, buckets of two: the last one is half as long, and only it is exposed."""
    (found,) = bucket_sizes(
        layers=5,
        gradient_bytes=Bytes(1000),
        input_gradient_s=Seconds(0.0),
        weight_gradient_s=Seconds(0.001),
        ranks=2,
        start_s=Seconds(0.0),
        bandwidth_bytes_per_s=1e6,
        layers_per_bucket=(2,),
        orders=("inputs_first",),
        algorithm="ring",
    )
    assert (found.buckets, found.bucket_bytes) == (3, 2000)
    assert found.service_s == pytest.approx(0.005)
    assert found.ready_wait_s == pytest.approx(0.001)
    assert found.exposed_wait_s == pytest.approx(0.002)  # ready at 2 and 4 ms, sent at 2 to 4, 4 to 6 and 6 to 7 ms


def test_a_pair_is_bound_by_what_ends_last_together_not_alone():
    crossed = PAIR | {"communication_together_s": 13e-3, "finish_s": 13e-3}
    assert interference(**PAIR).bound_by == "computation"
    assert interference(**crossed).bound_by == "communication"


def test_a_pair_that_hides_all_of_the_shorter_has_a_share_of_one():
    free = interference(**PAIR | {"communication_together_s": 2.67e-3, "finish_s": 11.53e-3})
    assert free.hidden_share == pytest.approx(1)
    assert free.interference_s == 0


@pytest.mark.parametrize("change", [{name: 0.0} for name in PAIR] + [{"finish_s": 11.51e-3}])
def test_times_of_a_pair_that_cannot_be_are_refused(change):
    with pytest.raises(CollectiveError) as caught:
        interference(**PAIR | change)
    assert caught.value.code == "COL006"


def test_a_search_is_repaid_by_the_calls_that_save_just_what_it_cost():
    found = tuning(Seconds(0.6), Seconds(0.2), 3)
    assert (found.payback_calls, found.exceeding_calls, found.net_saving_s, found.pays) == (3, 4, 0.0, True)
    between = tuning(Seconds(0.7), Seconds(0.2), 3)
    assert (between.payback_calls, between.exceeding_calls, between.pays) == (4, 4, False)


def test_channels_are_tuned_on_the_path_that_was_chosen_before():
    def tried(protocol, channels, in_place_s):
        return Settings(
            algorithm="ring", protocol=protocol, transport="p2p", channels=channels, threads=256,
            chunk_bytes=Bytes(1024), alone_s=Seconds(1.0 / channels), in_place_s=Seconds(in_place_s),
        )  # fmt: skip

    now, path, best, other = tried("a", 4, 7.0), tried("b", 4, 6.0), tried("b", 2, 5.0), tried("a", 2, 1.0)
    found = tuned((now, path, best, other))
    assert (found.path, found.chosen, found.looked_at) == (path, best, 3)
    assert found.saving_s == 2.0


def test_a_kill_at_the_moment_of_the_commit_finds_the_save():
    moments = (Seconds(0.25), Seconds(0.5))
    assert save_call(*moments, moments[1]).recovers_to == "this save"
    assert save_call(moments[1], moments[1], moments[1]).recovers_to == "this save"
    assert save_call(*moments, Seconds(0.499)).recovers_to == "the save before"


def test_a_faster_writer_avoids_rework():
    """112 GB, captures at 20 and 40 s, failure at 50 s: chapter "Training systems", section 10.4.3."""
    slow, fast = save_rates(Bytes(112 * 10**9), (20.0, 40.0), Seconds(0.5), Seconds(50.0), (7e9, 20e9))
    assert (slow.rework_s, fast.rework_s, slow.rework_avoided_s, fast.rework_avoided_s) == (30, 10, 0, 20)


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (SaveOptions(size=10**12, write=1e-9, captures=(20.0,)), "CKP001", "take at most 1e+12 s"),
        (SaveOptions(size=0, write=1.0, captures=(20.0,)), "CKP001", "both above zero"),
        (SaveOptions(size=1, write=0.0, captures=(20.0,)), "CKP001", "both above zero"),
        (SaveOptions(size=1, write=1.0, captures=(1e13,)), "CKP002", "at most 1e+12 s"),
        (SaveOptions(size=1, write=1.0, every=1e12, count=2), "CKP002", "at most 1e+12 s"),
        (SaveOptions(size=1, write=1.0, captures=(2.0, 1.0)), "CKP002", "rising times"),
    ],
)
def test_a_save_that_cannot_be_is_refused_by_what_is_wrong_with_it(options, code, told):
    with pytest.raises(CheckpointError) as caught:
        checkpoint_timeline(options)
    assert caught.value.code == code
    assert told in caught.value.fix


def test_a_synchronous_save_needs_no_buffer_and_one_buffer_lets_no_copy_start_during_an_upload():
    saves = SaveOptions(size=16, write=1.0, every=20.0, count=3, copy=1.0)
    sync = checkpoint_timeline(SaveOptions(size=16, write=1.0, every=20.0, count=3, copy=1.0, mode="sync", staging=1))
    assert (sync.body["least_interval_s"], sync.body["buffers_used"], sync.body["saves_taken"]) == (17, 0, 3)
    assert checkpoint_timeline(saves).body["least_interval_s"] == 16
    one = SaveOptions(size=16, write=1.0, every=20.0, count=3, copy=1.0, staging=1)
    assert checkpoint_timeline(one).body["least_interval_s"] == 17


def test_a_synchronous_save_is_late_and_never_dropped():
    sync = SaveOptions(size=16, write=1.0, every=10.0, count=3, mode="sync", staging=1, when_full="drop")
    assert [save["captured_s"] for save in as_json(checkpoint_timeline(sync))["saves"]] == [10, 26, 42]


def test_a_buffer_that_is_free_at_the_moment_of_a_capture_holds_it():
    on_time = SaveOptions(size=10, write=1.0, every=10.0, count=3, staging=1, when_full="drop")
    assert checkpoint_timeline(on_time).body["saves_taken"] == 3
    late = SaveOptions(size=11, write=1.0, every=10.0, count=3, staging=1, when_full="drop")
    assert checkpoint_timeline(late).body["saves_taken"] == 2
