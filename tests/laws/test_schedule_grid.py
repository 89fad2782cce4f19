"""Every schedule of every small shape, stages and links unequal: laws, the orders of torch, and what simpy says.

The gate takes three stages and a few micro-batches; the campaign eight stages, four times as many micro-batches and
other times each run.
"""

from __future__ import annotations

import random
from zlib import crc32

import pytest
from hypothesis import given, settings

from meshwright.scenarios.schedule import ScheduleOptions, schedule, simulated
from meshwright.sim.engine import simulate
from meshwright.workload.slots import SCHEDULES, Shape, read_schedule
from tests.laws.problems import EXCLUSIVE, problems
from tests.laws.schedule_laws import not_computed_once, not_one_at_a_time, out_of_order
from tests.oracle.schedule_oracle import told
from tests.oracle.simpy_model import Model

NAMES = SCHEDULES.names()
CUT = "interleaved"
"""The one that takes any number of virtual stages a rank."""
IN_PAIRS = ("dualpipe_declared", "dualpipe_published")
"""Those that take an even number of stages."""
EVEN = 12
"""Bytes of saved sets are multiples of it, so that one to four virtual stages a rank hold whole bytes."""


def shapes_of(name, stages, most):
    """Every shape that a schedule takes, up to `most` micro-batches."""
    every = (
        Shape(stages=stages, micro_batches=count, virtual_stages=pieces)
        for count in range(1, most + 1)
        for pieces in (range(1, 5) if name == CUT else (1,))
    )
    return [shape for shape in every if read_schedule(name).refusal(shape) is None]


def drawn(name, shape, dice):
    """Whole seconds and bytes for a shape, other ones for each stage and link; buffers only where orders are fixed."""

    def each(most, unit, times=1, places=shape.stages):
        return ",".join(f"{times * dice.randint(0, most)}{unit}" for _ in range(places))

    links = shape.stages if shape.stages > 2 else 1  # two stages have one, whichever way round

    return ScheduleOptions(
        stages=shape.stages,
        micro_batches=shape.micro_batches,
        virtual_stages=shape.virtual_stages,
        schedule=name,
        forward=",".join(f"{dice.randint(1, 9)}s" for _ in range(shape.stages)),
        backward=each(18, "s"),
        weight_grad=dice.choice([0.0, 0.25, 0.5, 0.75, 1.0]),
        send=each(4, "s", places=links),
        send_back=dice.choice([None, each(6, "s", places=links)]),
        update=f"{dice.randint(0, 5)}s",
        saved=each(9, "B", EVEN),
        saved_head=f"{dice.randint(0, 40)}B",
        forward_message=f"{dice.randint(0, 5)}B",
        backward_message=f"{dice.randint(0, 9)}B",
        buffers=None if name == "dualpipe_declared" else dice.choice([None, None, 1, 2]),
        ties=dice.choice(["direction", "micro_batch"]),
        cells=dice.choice(["divisible", "indivisible"]),
    )


def check(name, shape, options):
    """One case; its tasks are counted."""
    run = simulated(name, options)
    assert not_computed_once(name, shape, run.slots) == []
    assert not_one_at_a_time(run) == []
    assert out_of_order(run) == []
    pieces = run.slots.virtual_stages // shape.stages
    saved = [int(item.removesuffix("B")) // pieces for item in options.saved.split(",") for _ in range(pieces)]
    saved[-1] += int(options.saved_head.removesuffix("B"))
    update_s = int(options.update.removesuffix("s"))
    activation, gradient = (int(size.removesuffix("B")) for size in (options.forward_message, options.backward_message))
    other = told(run, saved, activation, gradient, int(update_s / run.tick_s))
    assert run.start.tolist() == other.start.tolist()
    assert run.end.tolist() == other.end.tolist()
    (row,) = schedule(options).body["schedules"]
    tick = float(run.tick_s)
    assert row.total_s == pytest.approx(other.total * tick)
    assert row.gradients_s == pytest.approx(other.gradients * tick)
    assert row.idle_s == pytest.approx([ticks * tick for ticks in other.idle])
    assert row.step_without_barrier_s == pytest.approx(other.step_without_barrier * tick)
    assert list(row.peak_bytes) == other.peak_bytes
    return len(run.start)


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_the_small_grid_keeps_the_laws_and_runs_as_simpy_says(name, stages):
    dice = random.Random(crc32(f"{name} {stages}".encode()))  # noqa: S311 - test cases, not secrets
    shapes = shapes_of(name, stages, 8)
    assert bool(shapes) == (stages % 2 == 0 or name not in IN_PAIRS)
    for shape in dice.sample(shapes, min(4, len(shapes))):
        check(name, shape, drawn(name, shape, dice))


@pytest.mark.campaign
@pytest.mark.parametrize("stages", range(1, 9))
@pytest.mark.parametrize("name", NAMES)
def test_the_whole_grid_keeps_the_laws_and_runs_as_simpy_says(name, stages, record_property):
    """Three draws of times and sizes for each shape. A failure shows the shape and what was drawn."""
    dice = random.SystemRandom()
    cases = [(shape, drawn(name, shape, dice)) for shape in shapes_of(name, stages, 4 * stages + 2) for _ in range(3)]
    tasks = sum(check(name, shape, options) for shape, options in cases)
    record_property("cases", len(cases))
    record_property("tasks", tasks)


@pytest.mark.campaign
@pytest.mark.parametrize("stages", range(2, 13))
@pytest.mark.parametrize("name", ["interleaved", "zero_bubble_h1", "zero_bubble_v", "dualpipe_v"])
def test_the_orders_of_the_whole_grid_are_torchs(name, stages, record_property):
    torch = pytest.importorskip("tests.oracle.test_torch_schedules")
    shapes = [shape for shape in shapes_of(name, stages, 6 * stages + 1) if torch_takes(name, shape)]
    for shape in shapes:
        slots = read_schedule(name).slots(shape)
        pieces = slots.virtual_stages // stages
        for rank in range(stages):
            assert torch.own_order(slots, rank) == torch.torch_order(name, shape, pieces, rank), (shape, rank)
    record_property("cases", len(shapes))
    record_property("orders as torch's", len(shapes) * stages)


def torch_takes(name, shape):
    """Its split 1F1B wants whole rounds of micro-batches."""
    return name != "zero_bubble_h1" or shape.micro_batches % shape.stages == 0


@pytest.mark.campaign
@settings(max_examples=4000)
@given(problems(queues=EXCLUSIVE))
def test_any_problem_of_exclusive_resources_runs_as_simpy_says(known):
    start, end = Model(known).run()
    times = simulate(known, compiled=False)
    assert times.start.tolist() == start.tolist()
    assert times.end.tolist() == end.tolist()
