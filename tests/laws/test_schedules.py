"""Every registered schedule computes every micro-batch once, ends, frees what it holds, and keeps its bounds."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from meshwright.base.errors import ScheduleError
from meshwright.sim.pipeline import Durations, run_pipeline
from meshwright.sim.pipeline_memory import Sizes, pipeline_memory
from meshwright.workload.slots import (
    BACKWARD,
    FORWARD,
    SCHEDULES,
    Shape,
    Work,
    activation_sets,
    checked_shape,
    crossings,
    forward_only,
    read_schedule,
)
from tests.laws.schedule_laws import not_computed_once, not_one_at_a_time, out_of_order

NAMES = SCHEDULES.names()
ONE_ORDER = [name for name in NAMES if name != "dualpipe_declared"]
"""Those whose ranks have one slot order; where two share a stream, more time for one task may shorten the step."""
CHOOSY = [name for name in NAMES if name.startswith(("dualpipe", "interleaved"))]
TWELFTHS = 12
TIMES = st.integers(0, 7 * TWELFTHS).map(lambda count: Fraction(count, TWELFTHS))
POSITIVE = st.integers(1, 7 * TWELFTHS).map(lambda count: Fraction(count, TWELFTHS))
FEW = settings(max_examples=max(25, settings().max_examples // 10))
"""25 of each schedule in the gate, more in a campaign."""
CELLS = st.sampled_from(["divisible", "indivisible"])
TIES = st.sampled_from(["direction", "micro_batch"])


@st.composite
def shapes(draw, name):
    """A shape that the schedule takes."""
    stages = draw(st.integers(1, 7))
    shape = Shape(
        stages=stages,
        micro_batches=draw(st.integers(1, 24) | st.sampled_from([stages, 2 * stages, 2 * stages - 1, 4 * stages])),
        virtual_stages=draw(st.integers(1, 4)),
    )
    refusal = read_schedule(name).refusal(shape)
    if refusal is not None:
        assert refusal.nearest is not None
        part = "micro_batches" if refusal.code == "SCH001" else "stages"
        shape = replace(shape, **{part: refusal.nearest})
        again = read_schedule(name).refusal(shape)
        shape = shape if again is None else replace(shape, micro_batches=again.nearest)
    return shape


@st.composite
def durations(draw, pieces, stages, times=TIMES, **fixed):
    backward = draw(st.lists(times, min_size=pieces, max_size=pieces))
    part = Fraction(draw(st.integers(0, 6)), 6)
    links = st.lists(times, min_size=stages, max_size=stages).map(tuple)
    return Durations(
        forward=tuple(draw(st.lists(times, min_size=pieces, max_size=pieces))),
        backward=tuple(backward),
        weight=tuple(part * whole for whole in backward),
        update=draw(times),
        send=draw(links),
        send_back=draw(links),
        **fixed,
    )


def equal(pieces, stages, work):
    """Equal virtual stages, free transfers."""
    share = Fraction(stages, pieces)
    free = (Fraction(0),) * stages
    return Durations(
        forward=(work.forward * share,) * pieces,
        backward=(work.backward * share,) * pieces,
        weight=(work.weight * share,) * pieces,
        update=Fraction(0),
        send=free,
        send_back=free,
    )


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(data=st.data())
def test_every_micro_batch_is_computed_exactly_once_per_virtual_stage_and_direction(name, data):
    shape = data.draw(shapes(name))
    assert not_computed_once(name, shape, read_schedule(name).slots(shape)) == []


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(data=st.data())
def test_a_cell_is_a_forward_and_a_backward_of_another_micro_batch_or_stage_side_by_side(name, data):
    slots = read_schedule(name).slots(data.draw(shapes(name)))
    inside = np.flatnonzero(slots.cell >= 0)
    for first, second in inside.reshape(-1, 2).tolist():
        assert second == first + 1
        assert slots.cell[first] == slots.cell[second]
        assert slots.rank[first] == slots.rank[second]
        assert (slots.kind[first], slots.kind[second]) == (FORWARD, BACKWARD)


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(data=st.data())
def test_it_ends_and_no_rank_or_wire_runs_two_things_at_once(name, data):
    shape = data.draw(shapes(name))
    slots = read_schedule(name).slots(shape)
    run = run_pipeline(
        slots,
        data.draw(durations(slots.virtual_stages, shape.stages)),
        ties=data.draw(TIES),
        cells=data.draw(CELLS),
    )
    assert not_one_at_a_time(run) == []


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(data=st.data())
def test_dependencies_hold_between_micro_batches_stages_and_halves(name, data):
    shape = data.draw(shapes(name))
    slots = read_schedule(name).slots(shape)
    times = data.draw(durations(slots.virtual_stages, shape.stages))
    assert out_of_order(run_pipeline(slots, times, cells=data.draw(CELLS))) == []


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(data=st.data())
def test_memory_returns_to_nothing_and_never_falls_below(name, data):
    shape = data.draw(shapes(name))
    slots = read_schedule(name).slots(shape)
    run = run_pipeline(slots, data.draw(durations(slots.virtual_stages, shape.stages)), cells=data.draw(CELLS))
    saved = data.draw(st.lists(st.integers(0, 50), min_size=slots.virtual_stages, max_size=slots.virtual_stages))
    used = pipeline_memory(run, Sizes(saved=tuple(saved), activation=3, gradient=5))
    assert used.level_bytes.min() >= 0
    assert used.final_bytes().tolist() == [0] * shape.stages
    for rank in range(shape.stages):
        rows = slice(used.first[rank], used.first[rank + 1])
        assert (np.diff(used.time[rows]) > 0).all()
        assert used.peak_bytes[rank] == used.level_bytes[rows].max() == used.alive_bytes()[rank].sum()


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(data=st.data())
def test_the_step_is_no_shorter_than_any_rank_and_than_one_micro_batch(name, data):
    shape = data.draw(shapes(name))
    slots = read_schedule(name).slots(shape)
    times = data.draw(durations(slots.virtual_stages, shape.stages))
    run = run_pipeline(slots, times, ties=data.draw(TIES), cells=data.draw(CELLS))
    last = Fraction(int(run.last_gradient())) * run.tick_s
    assert last >= max(Fraction(int(spent)) * run.tick_s for spent in run.busy())
    # the first micro-batch alone: down, and the input gradients back up
    inputs = sum(times.backward, Fraction(0)) - sum(times.weight, Fraction(0))
    assert last >= sum(times.forward, Fraction(0)) + inputs
    assert all(idle >= 0 for idle in run.idle_s())


@pytest.mark.parametrize("name", [name for name in NAMES if read_schedule(name).BUBBLE is not None])
@FEW
@given(data=st.data())
def test_the_published_bubble_is_exact_where_it_says_so(name, data):
    shape = data.draw(shapes(name))
    formula = read_schedule(name).BUBBLE
    shape = replace(shape, micro_batches=shape.micro_batches * -(-formula.least(shape.stages) // shape.micro_batches))
    assume(read_schedule(name).refusal(shape) is None)
    ordered = sorted(data.draw(st.tuples(POSITIVE, POSITIVE, POSITIVE)))
    # work of every order of the three; those that a formula does not cover are left out
    forward, inputs, weight = data.draw(st.permutations(ordered) | st.just([ordered[0]] * 3))
    work = Work(forward=forward, backward=inputs + weight, weight=weight, cell=forward + inputs + weight)
    assume(formula.holds(work))
    slots = read_schedule(name).slots(shape)
    run = run_pipeline(slots, equal(slots.virtual_stages, shape.stages, work), cells="indivisible")
    expected = formula.time(shape.stages, slots.virtual_stages // shape.stages, work)
    if formula.of == "step":
        idle = [Fraction(int(ticks)) * run.tick_s for ticks in run.last_gradient() - run.busy()]
    else:
        idle = [Fraction(int(ticks)) * run.tick_s for ticks in run.spans() - run.busy()]
    assert max(idle) == expected


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(data=st.data())
def test_a_step_without_a_barrier_lies_between_the_work_of_any_rank_and_the_step_with_one(name, data):
    shape = data.draw(shapes(name))
    slots = read_schedule(name).slots(shape)
    times = data.draw(durations(slots.virtual_stages, shape.stages))
    run = run_pipeline(slots, times, ties=data.draw(TIES), cells=data.draw(CELLS))
    assert (run.busy() <= run.spans()).all()
    assert (run.spans() <= run.last_gradient()).all()
    most = Fraction(int(run.busy().max())) * run.tick_s + times.update
    assert float(most) <= run.step_without_barrier_s() <= run.makespan_s


@pytest.mark.parametrize("name", ONE_ORDER)
@FEW
@given(data=st.data())
def test_steps_without_a_barrier_follow_each_other_no_later_than_it_says(name, data):
    """Three steps are run here as one, each rank's orders one after the other; equal stages take exactly that."""
    shape = data.draw(shapes(name))
    slots = read_schedule(name).slots(shape)
    even = data.draw(st.booleans())
    free = replace(data.draw(durations(slots.virtual_stages, shape.stages)), update=Fraction(0))
    work = [data.draw(POSITIVE) for _ in range(3)]
    send = data.draw(TIMES)
    equally = replace(
        equal(
            slots.virtual_stages,
            shape.stages,
            Work(forward=work[0], backward=work[1] + work[2], weight=work[2], cell=0),
        ),
        send=(send,) * shape.stages,
        send_back=(send,) * shape.stages,
    )
    cells = data.draw(CELLS)
    one, many = (run_pipeline(each, equally if even else free, cells=cells) for each in (slots, in_a_row(slots, 3)))
    assert one.tick_s == many.tick_s
    count, apart = len(slots.rank), one.spans().max()
    assert one.seconds(apart) == one.step_without_barrier_s()
    for step, starts in enumerate(many.start[: 3 * count].reshape(3, count)):
        assert (starts <= one.start[:count] + step * apart).all()
    if even:
        ends = many.end[: 3 * count].reshape(3, count).max(axis=1)
        assert (ends == one.end[:count].max() + apart * np.arange(3)).all()


def in_a_row(slots, steps):
    """The slots of so many steps as those of one with as many times the micro-batches; no rank leaves its order."""
    step = np.repeat(np.arange(steps), len(slots.rank))
    whole = {
        field: np.tile(getattr(slots, field), steps)
        for field in ("rank", "sequence", "kind", "virtual_stage", "micro_batch", "direction", "cell")
    }
    whole["micro_batch"] += step * slots.micro_batches
    whole["cell"] = np.where(whole["cell"] < 0, -1, whole["cell"] + step * (slots.cell.max() + 1))
    return replace(slots, **whole)


@given(data=st.data())
def test_zero_bubble_formulas_do_not_hold_for_longer_weight_gradients(data):
    """The law above would be empty if `holds` were always false; here it is false, and the formula is wrong."""
    stages = data.draw(st.integers(2, 6))
    shape = Shape(stages=stages, micro_batches=data.draw(st.integers(2 * stages, 4 * stages)))
    work = Work(forward=Fraction(1), backward=Fraction(4), weight=Fraction(3), cell=Fraction(5))
    formula = read_schedule("zero_bubble_h1").BUBBLE
    run = run_pipeline(read_schedule("zero_bubble_h1").slots(shape), equal(stages, stages, work))
    assert not formula.holds(work)
    assert max(run.idle_s()) > formula.time(stages, 1, work)


@pytest.mark.parametrize("name", ONE_ORDER)
@FEW
@given(data=st.data())
def test_the_peak_in_saved_sets_is_what_the_slot_order_says_where_one_order_has_the_stream(name, data):
    shape = data.draw(shapes(name))
    slots = read_schedule(name).slots(shape)
    run = run_pipeline(slots, data.draw(durations(slots.virtual_stages, shape.stages, times=POSITIVE)))
    used = pipeline_memory(run, Sizes(saved=(1,) * slots.virtual_stages, activation=0, gradient=0))
    assert used.peak_bytes.max() == activation_sets(slots, 1)


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(data=st.data())
def test_messages_are_those_of_the_boundaries_between_ranks(name, data):
    shape = data.draw(shapes(name))
    slots = read_schedule(name).slots(shape)
    run = run_pipeline(slots, data.draw(durations(slots.virtual_stages, shape.stages)))
    assert (run.peer >= 0).sum() == 2 * crossings(slots) * shape.micro_batches
    assert (run.rank[run.peer >= 0] != run.peer[run.peer >= 0]).all()


@given(data=st.data())
def test_one_order_on_a_stream_does_not_depend_on_ties(data):
    name = data.draw(st.sampled_from(ONE_ORDER))
    shape = data.draw(shapes(name))
    slots = read_schedule(name).slots(shape)
    times = data.draw(durations(slots.virtual_stages, shape.stages))
    one, other = (run_pipeline(slots, times, ties=ties) for ties in ("direction", "micro_batch"))
    assert one.end.max() == other.end.max()


@given(data=st.data())
def test_a_line_of_stages_follows_the_recurrence(data):
    """start[i][s] = max(finish[i-1][s], finish[i][s-1]); with buffers, also the start that makes room."""
    stages, batches = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 12))
    buffers = data.draw(st.none() | st.integers(1, 4))
    free = (Fraction(0),) * stages
    forward = tuple(data.draw(st.lists(TIMES, min_size=stages, max_size=stages)))
    times = Durations(
        forward=forward, backward=free, weight=free, update=Fraction(0), send=free, send_back=free, buffers=buffers
    )
    run = run_pipeline(forward_only(Shape(stages=stages, micro_batches=batches)), times)
    start = {}
    leaves = {}
    for batch in range(batches):
        for stage in range(stages):
            earlier = start[batch - 1, stage] + forward[stage] if batch else Fraction(0)
            arrives = leaves[batch, stage - 1] if stage else Fraction(0)
            gone = leaves[batch - 1, stage] if batch and stage < stages - 1 else Fraction(0)
            start[batch, stage] = max(earlier, arrives, gone)
            if stage < stages - 1:
                done = start[batch, stage] + forward[stage]
                room = start[batch - buffers, stage + 1] if buffers is not None and batch >= buffers else Fraction(0)
                leaves[batch, stage] = max(done, room)
    found = run.start[: stages * batches].reshape(stages, batches)
    expected = [[start[batch, stage] for batch in range(batches)] for stage in range(stages)]
    assert [[Fraction(int(ticks)) * run.tick_s for ticks in row] for row in found] == expected


@given(data=st.data())
def test_more_room_between_stages_never_slows_a_line(data):
    stages, batches = data.draw(st.integers(2, 6)), data.draw(st.integers(1, 12))
    times = data.draw(durations(stages, stages, buffers=data.draw(st.integers(1, 3))))
    slots = forward_only(Shape(stages=stages, micro_batches=batches))
    tight, roomier, free = (
        run_pipeline(slots, replace(times, buffers=buffers)) for buffers in (times.buffers, times.buffers + 1, None)
    )
    assert tight.end.max() >= roomier.end.max() >= free.end.max()


@pytest.mark.parametrize("name", ONE_ORDER)
@FEW
@given(data=st.data())
def test_bounded_buffers_neither_stop_it_nor_help(name, data):
    shape = data.draw(shapes(name))
    slots = read_schedule(name).slots(shape)
    times = data.draw(durations(slots.virtual_stages, shape.stages))
    free = run_pipeline(slots, times)
    tight = run_pipeline(slots, replace(times, buffers=data.draw(st.integers(1, 4))))
    assert tight.end.max() >= free.end.max()


@pytest.mark.parametrize("name", CHOOSY)
@FEW
@given(data=st.data())
def test_a_shape_is_refused_with_the_nearest_that_is_taken(name, data):
    shape = Shape(stages=data.draw(st.integers(1, 9)), micro_batches=data.draw(st.integers(1, 30)), virtual_stages=2)
    refusal = read_schedule(name).refusal(shape)
    assume(refusal is not None)
    with pytest.raises(ScheduleError) as caught:
        checked_shape(name, shape)
    assert caught.value.code == refusal.code
    assume(refusal.code == "SCH001")
    assert read_schedule(name).refusal(replace(shape, micro_batches=refusal.nearest)) is None
    distance = abs(refusal.nearest - shape.micro_batches)
    closer = [count for count in range(1, 80) if abs(count - shape.micro_batches) < distance]
    assert all(read_schedule(name).refusal(replace(shape, micro_batches=count)) is not None for count in closer)
