"""A simulated training step runs as its schedule does, meets closed forms where these are exact, and frees all."""

from __future__ import annotations

from dataclasses import fields, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from meshwright.base.units import Share
from meshwright.cost.training_state import state_columns
from meshwright.job.train import TrainJob
from meshwright.layout.layouts import table
from meshwright.scenarios._training_options import TrainOptions
from meshwright.scenarios._training_simulated import simulated_step, step_plan
from meshwright.scenarios._training_table import training_table
from meshwright.sim.pipeline import Durations, run_pipeline
from meshwright.sim.timeline import busy_s
from meshwright.sim.training_step import run_step
from meshwright.sim.training_step_memory import step_memory
from meshwright.sim.training_uses import Modules, StepPlan
from meshwright.system.system import read_systems
from meshwright.workload.slots import SCHEDULES, Shape, read_schedule
from tests.laws.strategies import layouts, mixed_models, models

NAMES = SCHEDULES.names()
FEW = settings(
    max_examples=max(6, settings().max_examples // 16), deadline=None, phases=(Phase.explicit, Phase.generate)
)
SECONDS = [item.name for item in fields(Modules) if item.name.endswith("_s")]
CHANNEL = [name for name in SECONDS if name.startswith(("gather", "reduce"))]
BYTES = [item.name for item in fields(Modules) if item.name.endswith("_bytes")]
WHOLE = st.integers(0, 9)
EITHER = st.sampled_from(["on", "off"])
SYSTEM = read_systems("dgx-h100 x4")[0]


@st.composite
def plans(draw, name, *, prefetch=EITHER, most_stages=5):
    """A step of whole seconds: two kinds of layers and the ends, dealt to stages as they come."""
    stages = draw(st.integers(1, most_stages))
    shape = Shape(stages=stages, micro_batches=draw(st.integers(1, 10)), virtual_stages=draw(st.integers(1, 3)))
    program = read_schedule(name)
    refusal = program.refusal(shape)
    if refusal is not None:
        part = "micro_batches" if refusal.code == "SCH001" else "stages"
        shape = replace(shape, **{part: refusal.nearest})
        assume(program.refusal(shape) is None)
    slots = program.slots(shape)
    held = [draw(st.lists(st.sampled_from([0, 1]), min_size=1, max_size=3)) for _ in range(slots.virtual_stages)]
    held[0].insert(0, 2)
    held[-1].append(3)
    columns = {name: np.array([draw(WHOLE) for _ in range(4)], np.float64) for name in SECONDS}
    columns |= {name: np.array([draw(WHOLE) for _ in range(4)], np.int64) for name in BYTES}
    return StepPlan(
        slots=slots,
        stages=tuple(map(tuple, held)),
        modules=Modules(**columns),
        prefetch=draw(prefetch),
        send_s=float(draw(WHOLE)),
        activation_bytes=draw(WHOLE),
        update_s=float(draw(WHOLE)),
    )


def without_exchanges(plan):
    none = np.zeros(4)
    return replace(plan, modules=replace(plan.modules, **dict.fromkeys(CHANNEL, none)))


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(data=st.data())
def test_without_exchanges_a_step_is_its_pipeline(name, data):
    plan = without_exchanges(data.draw(plans(name)))

    def of_stages(*names):
        rows = [list(stage) for stage in plan.stages]
        return tuple(Fraction(sum(getattr(plan.modules, name)[row].sum() for name in names)) for row in rows)

    sends = (Fraction(plan.send_s),) * plan.slots.ranks
    pipeline = run_pipeline(
        plan.slots,
        Durations(
            forward=of_stages("forward_s"),
            backward=of_stages("input_s", "weight_s"),
            weight=of_stages("weight_s"),
            update=Fraction(plan.update_s),
            send=sends,
            send_back=sends,
        ),
    )
    run = run_step(plan)
    assert run.total_s == pipeline.makespan_s
    assert run.slot_start_s.tolist() == pipeline.start_s[: len(plan.slots.rank)].tolist()


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(data=st.data())
def test_a_step_is_no_shorter_than_what_a_rank_does_in_it(name, data):
    plan = data.draw(plans(name))
    run = run_step(plan)
    spent = run.channel_s() if plan.prefetch == "on" else run.channel_s() + run.busy_s()
    assert run.total_s >= (np.maximum(run.busy_s(), spent) + plan.update_s).max()
    assert (busy_s(run.timeline) <= run.total_s).all()
    assert run.gradients_s + plan.update_s == run.total_s


@pytest.mark.parametrize("name", ["one_f_one_b", "interleaved", "zero_bubble_h1", "fill_drain"])
@FEW
@given(data=st.data())
def test_exchanges_and_messages_never_shorten_a_step(name, data):
    plan = data.draw(plans(name))
    assert run_step(plan).total_s >= run_step(plan.alone()).total_s


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(data=st.data())
def test_every_pass_waits_for_its_gather_and_every_reduction_for_its_pass(name, data):
    plan = data.draw(plans(name))
    run = run_step(plan)
    uses = run.uses
    assert (run.gather_start_s + uses.gather_s <= run.start_s).all()
    assert (run.end_s + uses.reduce_s <= run.reduce_end_s).all()
    assert (run.end_s - run.start_s == uses.own_s).all()
    assert run.gradients_s >= run.reduce_end_s.max()


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(data=st.data())
def test_every_module_is_gathered_twice_and_reduced_once_for_each_micro_batch(name, data):
    plan = data.draw(plans(name))
    none, one = np.zeros(4), np.ones(4)
    each = replace(plan.modules, gather_each_s=one, reduce_each_s=one, gather_once_s=none, reduce_last_s=none)
    run = run_step(replace(plan, modules=each))
    of_modules = np.zeros(plan.slots.ranks)
    for row, ranks in enumerate(plan.slots.placement.tolist()):
        batches = len(np.unique(plan.slots.micro_batch[plan.slots.direction == row]))
        np.add.at(of_modules, ranks, [len(stage) * batches for stage in plan.stages])
    assert run.channel_s().tolist() == (of_modules * 3).tolist()
    once = replace(plan.modules, gather_each_s=none, reduce_each_s=none, gather_once_s=one, reduce_last_s=one)
    run = run_step(replace(plan, modules=once))
    held = np.zeros(plan.slots.ranks)
    for ranks in plan.slots.placement.tolist():
        np.add.at(held, ranks, [len(stage) for stage in plan.stages])
    assert run.channel_s().tolist() == (held * 2).tolist()


@pytest.mark.parametrize("name", NAMES)
@FEW
@given(data=st.data())
def test_a_step_ends_with_what_persists(name, data):
    plan = data.draw(plans(name))
    resident = np.arange(plan.slots.ranks) * 5
    held = step_memory(run_step(plan), resident)
    assert held.final_bytes().tolist() == resident.tolist()
    assert (held.level_bytes >= np.repeat(resident, np.diff(held.first))).all()
    assert (held.peak_bytes == held.alive_bytes().sum(axis=1) + resident).all()


@FEW
@given(data=st.data())
def test_of_one_rank_prefetch_never_lengthens_a_step_and_without_it_all_is_in_turn(data):
    plan = data.draw(plans("one_f_one_b", most_stages=1, prefetch=st.just("off")))
    serial, beside = run_step(plan), run_step(replace(plan, prefetch="on"))
    assert serial.total_s == serial.busy_s()[0] + serial.channel_s()[0] + plan.update_s
    assert beside.total_s <= serial.total_s


# ------------------------------------------------------------------------------------- against the closed forms of cost


def drawn(draw, *, pp, zero=None, schedules=("one_f_one_b", "fill_drain")):
    """A model, a layout of it that trains, and a job of a few micro-batches."""
    model = draw(models() | mixed_models())
    layout = draw(layouts(model).filter(lambda item: (item.pp == 1) == (pp == 1)))
    layout = replace(
        layout,
        replicas=1,
        attention="data_parallel",
        micro_batch=draw(st.integers(1, 2)),
        recompute=draw(st.sampled_from(["none", "full"])),
        schedule=draw(st.sampled_from(schedules)) if layout.pp > 1 else None,
        zero=layout.zero if zero is None else zero,
    )
    count = draw(st.integers(1, 6))
    batch = layout.dp_shard * layout.dp_replicate * layout.micro_batch * count
    return model, layout, TrainJob(tokens=10**6, sequence=24, global_batch=batch)


def both(model, layout, job, **options):
    """One layout by the closed forms and by a simulated step."""
    known = TrainOptions(**options)
    rows = table([layout])
    found = training_table(model, SYSTEM, job, known, rows)
    state = state_columns(model, rows, job.recipe, shards=known.shards)
    plan, _ = step_plan(model, SYSTEM, job, known, rows, found.count, state)
    return found, plan, simulated_step(model, SYSTEM, job, known, rows, found.count)


@FEW
@given(data=st.data())
def test_without_prefetch_one_rank_takes_what_the_closed_form_says(data):
    model, layout, job = drawn(data.draw, pp=1)
    efficiency = data.draw(st.sampled_from([None, Share(0.4)]))
    found, _, step = both(model, layout, job, prefetch="off", efficiency=efficiency)
    assert step.total_s == pytest.approx(found.step.total_s[0], rel=1e-9)
    assert step.compute_s == pytest.approx(found.step.compute_s[0], rel=1e-9)
    assert step.exposed_comm_s == pytest.approx(found.step.exposed_comm_s[0], rel=1e-6, abs=1e-9 * step.total_s)


@FEW
@given(data=st.data())
def test_where_computation_hides_exchanges_one_rank_exposes_those_of_the_ends_and_of_the_first_layer(data):
    model, layout, job = drawn(data.draw, pp=1)
    found, plan, _ = both(model, layout, job, efficiency=Share(1e-9))
    modules, first, layer = plan.modules, plan.stages[0][0], plan.stages[0][1]
    lookup = np.zeros(len(modules.forward_s))
    lookup[first] = 1.0  # of the embedding, which no efficiency makes longer
    plan = replace(plan, modules=replace(modules, forward_s=modules.forward_s + lookup))
    reduced = (modules.reduce_each_s + modules.reduce_last_s)[layer]
    expected = found.step.state_exchange_s[0] + reduced
    alone = run_step(plan.alone()).total_s
    assert run_step(plan).gradients_s - alone == pytest.approx(expected, rel=1e-3, abs=1e-12 * alone)


@FEW
@given(data=st.data())
def test_equal_stages_take_what_the_formula_of_their_schedule_says(data):
    model, layout, job = drawn(data.draw, pp=2)
    assume(len(model.kinds) == 1 and model.layers % layout.pp == 0)
    layout = replace(layout, tp=1, cp=1, ep=1, etp=1, sp=False, dp_shard=1, dp_replicate=1, zero=0)
    found, plan, _ = both(model, layout, replace(job, global_batch=layout.micro_batch * 5), efficiency=Share(0.4))
    expected = found.step.total_s[0] - found.step.boundary_s[0]
    assert run_step(replace(plan, send_s=0.0)).total_s == pytest.approx(expected, rel=1e-9)


@settings(max_examples=max(20, settings().max_examples // 5), deadline=None)
@given(data=st.data())
def test_a_simulated_peak_stays_within_the_ledger_and_the_copies_of_messages(data):
    model, layout, job = drawn(data.draw, pp=data.draw(st.sampled_from([1, 2])))
    prefetch = data.draw(st.sampled_from(["on", "off"]))
    efficiency = data.draw(st.sampled_from([None, Share(1e-6), Share(1e-9)]))
    known = TrainOptions(prefetch=prefetch, efficiency=efficiency)
    rows = table([layout])
    found = training_table(model, SYSTEM, job, known, rows)
    state = state_columns(model, rows, job.recipe, shards=known.shards)
    plan, _ = step_plan(model, SYSTEM, job, known, rows, found.count, state)
    step = simulated_step(model, SYSTEM, job, known, rows, found.count)
    copies = step.alive_bytes.get("sent_messages", 0) + step.alive_bytes.get("received_messages", 0)
    assert step.peak_bytes - copies <= found.ledger.computed[0]
    assert sum(step.alive_bytes.values()) == step.peak_bytes
    assert plan.slots.ranks == layout.pp


@FEW
@given(data=st.data())
def test_the_channel_is_busy_as_long_as_the_closed_form_says(data):
    model, layout, job = drawn(data.draw, pp=1)
    found, plan, _ = both(model, layout, job)
    assert run_step(plan).channel_s()[0] == pytest.approx(found.step.channel_s[0], rel=1e-9)
