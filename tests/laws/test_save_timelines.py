"""The engine against closed forms where both hold: one bucket, gaps, saves of one writer, storage that is shared."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from meshwright.base.errors import UserError
from meshwright.scenarios.buckets import bucket, bucket_sizes
from meshwright.scenarios.checkpointing import SaveOptions, checkpoint_timeline, save_call
from meshwright.scenarios.gaps import gaps
from meshwright.scenarios.save_and_input import SharedStorage, save_and_input

SECONDS = st.floats(0, 100, allow_subnormal=False)
SOME = st.floats(0.01, 100)


def close(value):
    return pytest.approx(value, rel=1e-9, abs=1e-9)


@st.composite
def saves(draw):
    """Saves of 1 GB units: any captures, policy and clock."""
    steps = draw(st.lists(st.floats(0.1, 50), min_size=1, max_size=8))
    captures = tuple(sum(steps[: number + 1]) for number in range(len(steps)))
    return SaveOptions(
        size=10**9,
        write=1e9 / draw(st.floats(0.1, 80)),
        captures=captures,
        copy=draw(st.floats(0, 5)),
        commit=draw(st.floats(0, 3)),
        mode=draw(st.sampled_from(["async", "sync"])),
        staging=draw(st.sampled_from([None, 1, 2, 3])),
        when_full=draw(st.sampled_from(["block", "drop"])),
        fail=draw(st.none() | st.floats(0, 400)),
        clock=draw(st.sampled_from(["wall", "training"])),
    )


@given(ready=SECONDS, busy=SECONDS, duration=SECONDS, window=SECONDS)
def test_a_bucket_waits_for_its_last_gradient_and_for_the_channel(ready, busy, duration, window):
    found = bucket(ready, busy, duration, window)
    assume(ready > 0 or busy > 0)
    end = max(ready, busy) + duration
    assert found.exposed_wait_s == close(max(0.0, end - window))
    assert found.channel_wait_s == close(max(0.0, busy - ready))
    assert found.overlapped_s + found.exposed_wait_s == close(
        duration + max(0.0, max(ready, busy) - max(window, 0.0)) if end > window else duration
    )


@given(
    layers=st.integers(1, 12), inputs=SOME, weights=SOME, start=SECONDS, rate=st.floats(1, 100), size=st.integers(1, 12)
)
def test_buckets_of_a_backward_pass_follow_the_recurrence_of_one_channel(  # noqa: PLR0917 - given by name
    layers, inputs, weights, start, rate, size
):
    assume(size <= layers)
    for order in ("inputs_first", "weights_first"):
        (found,) = bucket_sizes(
            layers=layers, gradient_bytes=100, input_gradient_s=inputs, weight_gradient_s=weights, ranks=4,
            start_s=start, bandwidth_bytes_per_s=rate, layers_per_bucket=(size,), orders=(order,), algorithm="ring",
        )  # fmt: skip
        free = 0.0
        for first in range(0, layers, size):
            last = min(first + size, layers)
            ready = last * (inputs + weights) - (inputs if order == "weights_first" else 0.0)
            free = max(free, ready) + start + 1.5 * 100 * (last - first) / rate
        backward = layers * (inputs + weights)
        assert found.backward_s == close(backward)
        assert found.exposed_wait_s == close(max(0.0, free - backward))
        assert found.upstream_ready_s == close(backward - (weights if order == "inputs_first" else 0.0))


@given(
    message=st.integers(1, 1000), pieces=st.integers(1, 8), start=st.floats(0, 2), rate=st.floats(10, 1000), gap=SOME,
    count=st.integers(1, 8), busy=SECONDS, ready=SECONDS,
)  # fmt: skip
def test_a_buffer_in_a_gap_is_ready_before_it_and_ends_in_it(  # noqa: PLR0917 - given by name
    message, pieces, start, rate, gap, count, busy, ready
):
    found = gaps(
        message_bytes=message, pieces=pieces, ranks=4, start_s=start, bandwidth_bytes_per_s=rate, gap_s=gap,
        gap_count=count, busy_s=busy, ready_s=ready, algorithm="ring",
    )  # fmt: skip
    for cut in (found.whole, found.split):
        inside = [run for run in cut.runs if run.gap is not None]
        assert len(inside) == cut.placed
        for run in inside:
            begin = run.gap * (busy + gap) + busy
            assert ready <= begin + 1e-9
            assert begin - 1e-9 <= run.start_s
            assert run.end_s <= begin + gap + 1e-9
        ran = sorted((run.start_s, run.end_s) for run in cut.runs)
        assert all(end <= start + 1e-9 for (_, end), (start, _) in pairwise(ran))
        assert cut.exposed_wait_s == close(max(0.0, max(end for _, end in ran) - found.window_s))
        assert (cut.placed == cut.buffers) <= (cut.exposed_wait_s <= 1e-9)
    assert found.extra_service_s == close((pieces - 1) * start)
    assert found.whole.call_s == close(start + 1.5 * message / rate)


@given(options=saves())
def test_one_writer_takes_saves_in_turn_and_commits_after_their_data(options):
    body = checkpoint_timeline(options).body
    taken = [item for item in body["saves"] if item.captured_s is not None]
    copied = [item.captured_s + options.copy for item in taken]
    before = 0.0
    for item, ready in zip(taken, copied, strict=True):
        assert item.upload_start_s == close(max(ready, before))
        assert item.upload_end_s == close(item.upload_start_s + options.write_s)
        before = item.upload_end_s
    records = 0.0
    for item in taken:
        records = max(item.upload_end_s, records) + options.commit
        assert item.committed_s == close(records)
        assert item.resumed_s == close(item.committed_s if options.mode == "sync" else item.captured_s + options.copy)
    assert all(later.captured_s >= item.resumed_s - 1e-9 for item, later in pairwise(taken))
    assert body["stall_s"] == close(sum(item.stall_s for item in taken))


@given(options=saves())
def test_staging_buffers_bound_what_is_under_way_and_unbounded_ones_never_hold_training(options):
    body = checkpoint_timeline(options).body
    taken = [item for item in body["saves"] if item.captured_s is not None]
    held = [sum(item.captured_s <= at.captured_s < item.upload_end_s for item in taken) for at in taken]
    if options.mode == "async":
        assert body["buffers_used"] == max(held)
        assert max(held) <= (options.staging or len(taken))
    if options.when_full == "block" or options.staging is None or options.mode == "sync":
        assert len(taken) == len(options.due_s)
    if options.mode == "async" and (options.staging is None or options.when_full == "drop"):
        assert all(item.stall_s == close(options.copy) for item in taken) or options.clock == "wall"


@given(options=saves())
def test_a_capture_is_dropped_only_when_every_buffer_is_held(options):
    options = replace(options, when_full="drop", staging=options.staging or 1, mode="async", clock="wall")
    rows = checkpoint_timeline(options).body["saves"]
    resumed = 0.0
    for number, item in enumerate(rows):
        at = max(item.due_s, resumed)
        held = sum(other.captured_s is not None and other.upload_end_s > at for other in rows[:number])
        assert (item.state == "dropped") == (held >= options.staging)
        resumed = resumed if item.resumed_s is None else item.resumed_s


@given(options=saves(), fail=st.floats(0, 400), exact=st.booleans())
def test_a_failure_goes_back_to_the_newest_save_committed_by_then(options, fail, exact):
    plan = checkpoint_timeline(replace(options, fail=None)).body["saves"]
    done = [item.committed_s for item in plan if item.committed_s is not None]
    fail = done[0] if exact else fail  # what ends at the failure's own moment has ended
    loss = checkpoint_timeline(replace(options, fail=fail)).body["failure"]
    usable = [item for item in plan if item.committed_s is not None and item.committed_s <= fail]
    assert loss.recovered == (usable[-1].id if usable else None)
    assert loss.rework_s == close(fail - (usable[-1].captured_s if usable else 0.0))
    assert 0 <= loss.stood_s <= loss.rework_s + 1e-9
    assert 0 <= loss.uploaded_bytes <= options.size * (1 + 1e-9)


@given(options=saves())
def test_a_faster_writer_without_a_bound_never_recovers_less(options):
    options = replace(options, fail=options.fail or 100.0, staging=None, mode="async")
    slow, fast = (checkpoint_timeline(replace(options, write=options.write * factor)).body for factor in (1, 3))
    assert fast["failure"].rework_s <= slow["failure"].rework_s
    assert fast["stall_s"] == close(slow["stall_s"])
    assert fast["largest_backlog_bytes"] <= slow["largest_backlog_bytes"] * (1 + 1e-9)


@given(options=saves())
def test_every_flip_of_the_write_rate_is_replayed_on_both_sides(options):
    options = replace(options, fail=options.fail or 60.0)
    for flip in checkpoint_timeline(options).flips:
        for factor, wanted in ((1 - 1e-6, flip["from"]), (1 + 1e-6, flip["to"])):
            moved = replace(options, write=flip["value"] * factor)
            found = checkpoint_timeline(moved).body["failure"].recovered
            assert found == wanted


@given(every=st.floats(1, 100), write_s=st.floats(1, 100), copy=st.floats(0, 1))
def test_a_writer_that_keeps_up_holds_one_save_and_one_that_does_not_piles_them_up(every, write_s, copy):
    options = SaveOptions(size=10**9, write=1e9 / write_s, every=every, count=20, copy=copy)
    body = checkpoint_timeline(options).body
    assume(abs(write_s - every) > 1e-6 and abs(copy - every) > 1e-6)
    assert body["keeps_up"] == (write_s < every)
    waits = [item.upload_start_s - item.resumed_s for item in body["saves"]]
    assert (max(waits) < 1e-6) == body["keeps_up"]
    grown = sum(item.upload_end_s - item.resumed_s for item in body["saves"][-1:]) - write_s
    assert grown == close(max(0.0, 19 * (write_s - every)))


@given(returned=SECONDS, more=SECONDS, killed=SECONDS)
def test_a_kill_before_the_commit_goes_back_whatever_the_call_returned(returned, more, killed):
    found = save_call(returned, returned + more, killed)
    assume(not killed < found.committed_s <= math.nextafter(killed, math.inf))  # a kill on the commit is behind it
    assert (found.recovers_to == "this save") == (killed >= found.committed_s)


def test_a_commit_before_the_return_is_refused():
    with pytest.raises(UserError, match="CKP004"):
        save_call(2.0, 1.0, 0.5)


STORAGE = SharedStorage(
    bandwidth=3e9, batch=2 * 10**9, readers=1, queue=8, step=1.0, steps=160, save=60 * 10**9, save_at=40.0
)


@pytest.mark.parametrize("save", [20, 40, 60, 100])
@pytest.mark.parametrize("cap", [None, 0.6e9, 1.2e9, 1.4e9])
def test_shared_storage_runs_the_queue_down_as_the_fluid_integral_says(save, cap):
    """q(t) = q0 + integral of supply less demand; batches are whole, so the two differ by some of them."""
    found = save_and_input(replace(STORAGE, save=save * 10**9, write_cap=cap))
    rate = min(cap or math.inf, 1.5e9)
    seconds = save * 1e9 / rate
    supply = min(3e9 - rate, 3e9)
    deficit = max(0.0, (2e9 - supply) * seconds)
    ahead = STORAGE.queue * STORAGE.batch
    assert found.wait_s == pytest.approx(max(0.0, deficit - ahead) / 2e9, abs=2.0)
    assert found.upload_s == pytest.approx(seconds, rel=0.06)
    assert (found.lowest_queue == 0) >= (found.wait_s > 0)


def test_the_largest_hidden_save_and_the_highest_waitless_cap_are_boundaries():
    found = save_and_input(STORAGE)
    assert found.wait_s > 0
    for size, waits in ((0.999 * found.hidden_save_bytes, False), (1.001 * found.hidden_save_bytes, True)):
        assert (save_and_input(replace(STORAGE, save=int(size))).wait_s > 0) == waits
    for cap, waits in ((0.999, False), (1.001, True)):
        capped = replace(STORAGE, write_cap=cap * found.waitless_cap_bytes_per_s)
        assert (save_and_input(capped).wait_s > 0) == waits
