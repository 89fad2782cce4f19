"""A training step on paper: two layers and the ends, in whole seconds and bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshwright.sim.training_step import run_step
from meshwright.sim.training_step_memory import WHAT, step_memory
from meshwright.sim.training_uses import Modules, StepPlan
from meshwright.workload.slots import Shape, read_schedule

LAYER, FIRST, LAST = range(3)
NONE = {"gather_once_s": (0, 0, 0), "gather_each_s": (0, 0, 0), "reduce_each_s": (0, 0, 0), "reduce_last_s": (0, 0, 0)}
SHARDED = {"gather_each_s": (2, 3, 4), "reduce_each_s": (1, 2, 3)}


def plan(*, stages=((FIRST, LAYER, LAYER, LAST),), schedule="one_f_one_b", shape=(1, 1, 1), prefetch="on", **columns):
    """Layers: 10 s forward, 20 s backward; the head half of that; the embedding takes no time."""
    count, batches, pieces = shape
    held = {
        "forward_s": (10, 0, 5),
        "input_s": (12, 0, 6),
        "weight_s": (8, 0, 4),
        "saved_bytes": (100, 10, 40),
        "rebuilt_bytes": (30, 0, 70),
        "gathered_bytes": (0, 0, 0),
        "gradient_bytes": (0, 0, 0),
    }
    held |= NONE | columns
    modules = {name: np.array(row, np.int64 if name.endswith("_bytes") else np.float64) for name, row in held.items()}
    return StepPlan(
        slots=read_schedule(schedule).slots(Shape(stages=count, micro_batches=batches, virtual_stages=pieces)),
        stages=stages,
        modules=Modules(**modules),
        prefetch=prefetch,
        send_s=0.0,
        activation_bytes=0,
        update_s=0.0,
    )


def test_prefetch_exposes_gathers_up_to_the_first_layer_and_reductions_from_it_on():
    # 3 + 2 s of gathers, 25 + 50 s of passes, 1 + 2 s of reductions
    assert run_step(plan(**SHARDED)).total_s == 5 + 75 + 3


def test_gathers_without_prefetch_are_part_of_every_pass():
    run = run_step(plan(**SHARDED, prefetch="off"))
    assert run.total_s == 75 + 2 * (2 + 2 + 3 + 4) + (1 + 1 + 2 + 3)
    assert run.gather_start_s[:2].tolist() == [0, 3]
    assert run.start_s[:2].tolist() == [3, 5]


def test_a_gather_is_sent_when_the_pass_before_it_starts():
    run = run_step(plan(**SHARDED))
    # forward: embedding and first layer at once, then each when the layer before starts
    assert run.gather_start_s[:4].tolist() == [0, 3, 5, 15]
    assert run.start_s[:4].tolist() == [3, 5, 15, 25]


def test_reductions_of_whole_gradients_hold_the_backward_of_the_next_but_one():
    slow = plan(gather_each_s=(0, 0, 0), reduce_each_s=(50, 1, 60))
    run = run_step(slow)
    # head 25..35+5, its reduction 40..100; first layer back 35..; the layer behind it waits for the head's
    backward = run.uses.kind == 1
    starts = run.start_s[backward].tolist()
    assert starts[:2] == [25, 35]
    assert starts[2] == 35 + 60


def test_an_all_reduce_of_the_last_backward_waits_for_the_channel():
    run = run_step(plan(shape=(1, 2, 1), reduce_last_s=(4, 6, 9)))
    assert run.uses.reduce_s[run.uses.reduce_s > 0].tolist() == [9, 4, 4, 6]
    assert run.total_s == 150 + 4 + 6
    behind = run_step(plan(shape=(1, 2, 1), reduce_last_s=(4, 6, 90)))
    # the head's reduction starts when its last backward ends, 40 s before the end of the last
    assert behind.total_s == 150 - 40 + 90 + 4 + 4 + 6


def test_updated_parameters_are_gathered_before_the_first_forward_alone():
    run = run_step(plan(shape=(1, 2, 1), gather_once_s=(2, 3, 4)))
    assert run.uses.gather_s.sum() == 2 + 2 + 3 + 4
    assert run.total_s == 150 + 5


def test_gathers_go_before_reductions_that_came_with_them():
    # both layers take as long as what they wait for, so that one reduction in front of a gather would show
    run = run_step(plan(shape=(1, 3, 1), gather_each_s=(9, 0, 0), reduce_each_s=(1, 9, 0)))
    assert run.total_s == 9 + 3 * 75 + 1 + 9


def test_memory_holds_activations_until_their_layers_backward_and_the_peak_is_in_the_heads():
    run = run_step(plan())
    held = step_memory(run, np.array([1000]))
    # saved 10 + 100 + 100 + 40 at the head, whose backward takes 70 beside
    assert held.peak_bytes.tolist() == [1000 + 250 + 70]
    assert held.peak_at.tolist() == [25]
    (peak,) = held.peaks(run.timeline.tick_s)
    assert peak.alive_bytes == {"activations": 250, "transient": 70}
    levels = dict(zip(held.time.tolist(), held.level_bytes.tolist(), strict=True))
    assert levels == {0: 1110, 10: 1210, 20: 1250, 25: 1320, 35: 1240, 55: 1140, 75: 1000}


def test_a_module_that_is_gathered_again_while_it_is_whole_takes_no_second_room():
    run = run_step(plan(**SHARDED, gathered_bytes=(100, 300, 400), saved_bytes=(0, 0, 0), rebuilt_bytes=(0, 0, 0)))
    held = step_memory(run, np.array([0]))
    # a layer in use and the head, which is gathered before its forward and again before its backward
    assert held.peak_bytes.tolist() == [500]
    gathered = held.buffers.size_bytes[held.buffers.kind == WHAT.index("gathered")]
    assert sorted(gathered.tolist()) == [100, 100, 100, 100, 300, 300, 400]


@pytest.mark.parametrize(("uneven", "peak"), [((LAYER,), 5 * 100), ((LAYER, LAYER), 7 * 100)])
def test_uneven_virtual_stages_count_as_what_each_holds(uneven, peak):
    # rank 0 keeps five sets, three of virtual stage 0 and two of virtual stage 2
    stages = ((FIRST, LAYER), (LAYER,), uneven, (LAYER, LAST))
    sizes = {"saved_bytes": (100, 0, 0), "rebuilt_bytes": (0, 0, 0)}
    run = run_step(plan(stages=stages, schedule="interleaved", shape=(2, 4, 2), **sizes))
    held = step_memory(run, np.zeros(2, np.int64))
    uses = run.uses
    saved = [
        (
            run.start_s[row],
            run.end_s[(uses.place == uses.place[row]) & (uses.micro_batch == uses.micro_batch[row])].max(),
        )
        for row in np.flatnonzero(uses.is_forward & (uses.rank == 0) & (uses.module == LAYER))
    ]
    moments = [begin for begin, _ in saved]
    most = max(sum(begin <= moment < end for begin, end in saved) for moment in moments)
    assert held.peak_bytes[0] == most * 100 == peak


def test_copies_of_messages_live_from_the_slot_that_sends_to_the_slot_that_takes():
    halves = plan(
        stages=((FIRST, LAYER), (LAYER, LAST)), shape=(2, 1, 1), saved_bytes=(0, 0, 0), rebuilt_bytes=(0, 0, 0)
    )
    run = run_step(replace(halves, send_s=2.0, activation_bytes=7))
    held = step_memory(run, np.zeros(2, np.int64))
    assert held.peak_bytes.tolist() == [7, 7]
    assert run.total_s == 10 + 2 + 15 + 30 + 2 + 20
