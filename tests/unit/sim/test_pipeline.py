"""A pipeline on the event engine: exact times, ties, cells, wires, buffers and what ranks hold."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from meshwright.base.errors import ScheduleError
from meshwright.sim.pipeline import Durations, run_pipeline
from meshwright.sim.pipeline_memory import Sizes, pipeline_memory
from meshwright.workload.slots import Shape, read_schedule

MS = Fraction(1, 1000)
LAYER_BYTES = 26_768_384
HEAD_BYTES = 79_888_896
"""Saved sets of 128 tokens of Qwen3-8B, a layer and the head: chapter "Training systems", section 10.3.2."""


def times(pieces, stages=4, *, layers=None, send=1, **more):
    """Forward 10 ms, backward 20 ms, half of it weight gradient, of a stage of 9 layers; update 1 ms."""
    counts = [Fraction(36, pieces)] * pieces if layers is None else layers
    return Durations(
        forward=tuple(10 * MS * count * stages / 36 for count in counts),
        backward=tuple(20 * MS * count * stages / 36 for count in counts),
        weight=tuple(10 * MS * count * stages / 36 for count in counts),
        update=MS,
        send=(send * MS,) * stages,
        send_back=(send * MS,) * stages,
        **more,
    )


def layers_of(pieces):
    return [36 // pieces + (piece < 36 % pieces) for piece in range(pieces)]


def run(name, micro_batches=8, *, even=False, send=1, **how):
    slots = read_schedule(name).slots(Shape(stages=4, micro_batches=micro_batches, virtual_stages=2))
    pieces = slots.virtual_stages
    return run_pipeline(slots, times(pieces, layers=None if even else layers_of(pieces), send=send), **how)


def total_ms(*asked, **how):
    found = run(*asked, **how)
    return Fraction(int(found.end.max())) * found.tick_s / MS


@pytest.mark.parametrize(
    ("name", "eight", "sixteen"),
    [
        ("fill_drain", 337, 577),
        ("one_f_one_b", 347, 599),
        ("interleaved", Fraction(893, 3), Fraction(1613, 3)),
        ("zero_bubble_h1", 283, 523),
        ("dualpipe_declared", 306, 558),
        ("dualpipe_published", 258, 498),
    ],
)
def test_the_step_takes_exactly_what_the_chapter_and_its_note_say(name, eight, sixteen):
    assert total_ms(name, 8) == eight
    assert total_ms(name, 16) == sixteen


def test_even_chunks_and_indivisible_cells():
    assert [total_ms("interleaved", count, even=True) for count in (8, 16)] == [300, 540]
    assert [total_ms("dualpipe_published", count, cells="indivisible") for count in (8, 16)] == [274, 526]


def test_the_declared_dualpipe_hangs_on_its_tie_rule_and_no_other_does():
    assert [total_ms("dualpipe_declared", count, ties="micro_batch") for count in (8, 16)] == [255, 505]
    for name in ("fill_drain", "one_f_one_b", "interleaved", "zero_bubble_h1", "dualpipe_published"):
        assert total_ms(name, ties="micro_batch") == total_ms(name)


def test_without_a_barrier_zero_bubble_h2_and_v_lose_what_their_ranks_start_late():
    """Eight micro-batches of 30 ms and an update of 1 ms; rank s of H2 starts s forwards after rank 0."""
    for name in ("zero_bubble_h2", "zero_bubble_v"):
        found = run(name, even=True, send=0)
        assert [found.seconds(ticks) for ticks in found.spans()] == [0.24] * 4
        assert found.step_without_barrier_s() == 0.241
    assert run("zero_bubble_h2", even=True, send=0).makespan_s == 0.271
    assert run("one_f_one_b").step_without_barrier_s() == run("one_f_one_b").makespan_s == 0.347
    assert run("zero_bubble_h2").step_without_barrier_s() == 0.247


def test_idle_time_without_transfers_is_the_formulas_for_indivisible_published_cells_and_not_for_the_declared_order():
    assert run("dualpipe_published", cells="indivisible", send=0).idle_s() == [0.02] * 4
    assert run("dualpipe_declared", send=0).idle_s() == [0.06] * 4
    assert run("zero_bubble_h1", send=0).idle_s() == [0.03] * 4
    assert run("interleaved", send=0).idle_s() == [0.05] * 4


@pytest.mark.parametrize(
    ("name", "mib"),
    [
        ("fill_drain", [1840.04, 1840.04, 1840.04, 2447.54]),
        ("one_f_one_b", [921.02, 692.26, 462.51, 307.94]),
        ("interleaved", [1329.47, 1126.25, 896.49, 691.87]),
        ("zero_bubble_h1", [921.02, 921.02, 921.02, 1225.77]),
        ("dualpipe_declared", [1227.96, 1612.28, 1612.28, 1227.96]),
    ],
)
def test_every_rank_peaks_as_the_chapter_says(name, mib):
    found = run(name)
    saved = [LAYER_BYTES * count for count in layers_of(found.slots.virtual_stages)]
    saved[-1] += HEAD_BYTES
    sizes = Sizes(saved=tuple(saved), activation=2**20, gradient=2**21)
    assert [round(peak / 2**20, 2) for peak in pipeline_memory(found, sizes).peak_bytes.tolist()] == mib


def test_what_is_alive_at_a_peak_is_told_apart():
    found = run("one_f_one_b")
    used = pipeline_memory(found, Sizes(saved=(100,) * 4, activation=1, gradient=2))
    assert used.buffers.kinds == ("saved", "sent", "received")
    assert used.alive_bytes()[0].tolist() == [400, 0, 2]
    assert (used.peak_bytes[0], found.seconds(used.peak_at[0])) == (402, 0.105)


def test_a_sender_keeps_its_copy_until_the_transfer_ends_and_a_receiver_until_it_starts():
    """Two ranks, one micro-batch: F 10, send 1, F 10, B 20, send 1, B 20."""
    slots = read_schedule("fill_drain").slots(Shape(stages=2, micro_batches=1))
    found = run_pipeline(slots, times(2, stages=2))
    used = pipeline_memory(found, Sizes(saved=(0, 0), activation=3, gradient=5))
    moments = [found.seconds(moment) for moment in used.time]
    assert list(zip(moments, used.level_bytes.tolist(), strict=True)) == 2 * [
        (0.0, 0),
        (0.01, 3),
        (0.011, 0),
        (0.041, 5),
        (0.042, 0),
    ]


def test_wires_of_two_directions_do_not_wait_for_each_other_and_one_is_first_come_first_served():
    """A wire slower than its stages spaces the results by itself."""
    slots = read_schedule("fill_drain").slots(Shape(stages=2, micro_batches=4))
    slow = replace(times(2, stages=2), send=(30 * MS, 30 * MS), send_back=(0 * MS, 0 * MS))
    found = run_pipeline(slots, slow)
    starts = sorted(found.start[:8][(slots.rank[:8] == 0)].tolist()) and [
        found.seconds(start)
        for start, rank, kind in zip(found.start, found.rank, found.kind, strict=True)
        if rank == 1 and kind == 0
    ]
    assert starts == [0.04, 0.07, 0.1, 0.13]


@pytest.mark.parametrize("slow", range(10, 50, 10))
def test_messages_of_both_kinds_leave_on_a_slow_wire_in_the_order_in_which_they_come(slow):
    """Two ranks, two virtual stages each: activations of the way round share a wire with gradients."""
    slots = read_schedule("interleaved").slots(Shape(stages=2, micro_batches=12, virtual_stages=2))
    found = run_pipeline(slots, replace(times(4, stages=2), send=(slow * MS,) * 2, send_back=(12 * MS,) * 2))
    sends = np.flatnonzero(found.peer >= 0)
    for wire in np.unique(found.problem.resource[sends]):
        rows = sends[found.problem.resource[sends] == wire]
        rows = rows[np.argsort(found.start[rows], kind="stable")]
        assert (np.diff(found.end[found.source[rows]]) >= 0).all()


def test_times_that_do_not_fit_whole_ticks_are_seconds():
    slots = read_schedule("one_f_one_b").slots(Shape(stages=4, micro_batches=8))
    odd = replace(times(4), update=Fraction(1, 2**61 - 1), send=(Fraction(1, 3**30),) * 4)
    found = run_pipeline(slots, odd)
    assert found.tick_s == 1
    assert found.start.dtype.kind == "f"
    near = run_pipeline(slots, replace(odd, update=Fraction(0), send=(Fraction(0),) * 4))
    assert found.makespan_s == pytest.approx(near.makespan_s)


def test_ticks_of_which_one_task_fits_and_the_step_does_not_are_seconds():
    slots = read_schedule("fill_drain").slots(Shape(stages=2, micro_batches=4))
    long = replace(times(2, stages=2), forward=(Fraction(3),) * 2, update=Fraction(1, 10**18))
    found = run_pipeline(slots, long)
    assert found.start.dtype.kind == "f"
    assert found.makespan_s == pytest.approx(5 * 3 + 5 * 0.02 + 2 * 0.001)


def test_slots_that_wait_for_each_other_are_refused():
    slots = read_schedule("interleaved").slots(Shape(stages=2, micro_batches=4, virtual_stages=2))
    backwards = replace(slots, kind=slots.kind[::-1].copy(), virtual_stage=slots.virtual_stage[::-1].copy())
    with pytest.raises(ScheduleError) as caught:
        run_pipeline(backwards, times(4, stages=2))
    assert caught.value.code == "SCH002"
