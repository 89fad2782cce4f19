"""Stages that sleep, run by the executor over gloo: every schedule waits as the event engine says."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from fractions import Fraction
from time import sleep

import numpy as np
import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("needs the extra torch", allow_module_level=True)

from meshwright.base.errors import RunError, UserError
from meshwright.runtime.pipeline.orders import orders_of
from meshwright.scenarios.slot_orders import one_order
from meshwright.sim.pipeline import run_pipeline
from meshwright.verify import _slept
from meshwright.verify.bubbles import SHARE, BubbleOptions, bubbles, durations_of, read_sleep
from meshwright.workload.slots import SCHEDULES, Shape, checked_shape
from tests.runtime.undisturbed import undisturbed

SLEEP = read_sleep("forward=4ms, backward=8ms, weight=4ms, update=2ms")
OPTIONS = BubbleOptions(sleep=SLEEP, stages=2, micro_batches=4)


def check_rows(body, micro_batches):
    """Whatever the machine does: nothing ends before the simulation, and the bound is what it is said to be."""
    for row in body["bubbles"]:
        assert row.excluded is None
        assert row.lowest_s >= row.simulated_s
        assert row.measured_step_s >= row.simulated_step_s
        assert row.measured_bubble >= row.simulated_bubble
        assert row.allowed_s == pytest.approx(float(SHARE) * row.simulated_s + row.overhead_s)
        assert row.overhead_s >= 2 * micro_batches * body["slot_overhead_s"]
        assert row.within == (row.measured_s - row.simulated_s <= row.allowed_s)


def test_no_schedule_ends_before_it_does_in_the_simulation():
    body = bubbles(replace(OPTIONS, repeats=1)).body
    check_rows(body, OPTIONS.micro_batches)
    assert {row.schedule for row in body["bubbles"]} == set(SCHEDULES.names())


@pytest.mark.campaign
@pytest.mark.parametrize(("stages", "micro_batches"), [(2, 4), (4, 8)])
def test_every_schedule_waits_as_simulated(stages, micro_batches, record_property):
    """Within the stated bound, at the second try at most. Of the campaign: a busy machine is beyond any bound."""
    left, tries = list(SCHEDULES.names()), 0
    while left and tries < 2:
        tries += 1
        options = replace(OPTIONS, stages=stages, micro_batches=micro_batches, schedule=",".join(left))
        with undisturbed():
            body = bubbles(options).body
        check_rows(body, micro_batches)
        left = [row.schedule for row in body["bubbles"] if not row.within]
    record_property("cases", len(SCHEDULES.names()))
    assert left == []


def test_forwards_that_take_longer_than_told_are_beyond_the_bound(monkeypatch):
    """The same bound refuses a run that is not the one simulated."""
    monkeypatch.setattr(_slept._Nap, "forward", staticmethod(_slow(_slept._Nap.forward)))
    with undisturbed():
        result = bubbles(replace(OPTIONS, schedule="one_f_one_b", repeats=1))
    assert result.verdict.answer == "no"
    assert "one_f_one_b" in result.verdict.text


def _slow(forward):
    calls = []

    def slow(ctx, rows, weight, naps, later):
        calls.append(naps)
        if len(calls) > 8:  # past the line of one micro-batch, by which overhead is measured
            sleep(naps.forward_s * 4)
        return forward(ctx, rows, weight, naps, later)

    return slow


def test_a_schedule_of_two_orders_is_resolved_by_its_timeline():
    shape = Shape(stages=4, micro_batches=8)
    slots = checked_shape("dualpipe_declared", shape).slots(shape)
    timeline = run_pipeline(slots, durations_of(slots, SLEEP))
    with pytest.raises(RunError):
        orders_of(slots, 0)
    one = one_order(slots, timeline)
    assert set(one.sequence.tolist()) == {0}
    again = run_pipeline(one, durations_of(one, SLEEP))
    assert again.gradients_s == timeline.gradients_s
    for column in ("kind", "virtual_stage", "micro_batch", "direction"):
        for rank in range(4):
            mine, before = (np.sort(getattr(item, column)[item.rank == rank]) for item in (one, slots))
            assert mine.tolist() == before.tolist()


def test_schedules_that_do_not_take_the_shape_are_told_apart():
    result = bubbles(replace(OPTIONS, stages=2, micro_batches=1, schedule="dualpipe_declared,one_f_one_b", repeats=1))
    rows = {row.schedule: row for row in result.body["bubbles"]}
    assert rows["dualpipe_declared"].excluded.code == "SCH001"
    assert rows["one_f_one_b"].measured_s > 0


def test_sleep_times_are_read_exactly():
    sleep = read_sleep("forward=10ms,backward=20ms,weight=5ms")
    assert (sleep.forward, sleep.backward) == (Fraction(1, 100), Fraction(1, 50))
    assert (sleep.weight, sleep.update) == (Fraction(1, 200), 0)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "RUN042"),
        ("forward=1ms,backward=2ms", "RUN042"),
        ("forward=1ms,forward=1ms", "RUN042"),
        ("forwards=1ms", "RUN042"),
        ("forward=1,backward=2ms,weight=1ms", "IO002"),
        ("forward=x,backward=2ms,weight=1ms", "IO001"),
        ("forward=1ms,backward=2ms,weight=2ms", "RUN042"),
        ("forward=0s,backward=2ms,weight=1ms", "RUN042"),
        ("forward=1h,backward=2ms,weight=1ms", "RUN042"),
    ],
)
def test_sleep_times_that_are_none_are_refused(text, code):
    with pytest.raises(UserError) as refused:
        bubbles(replace(OPTIONS, sleep=read_sleep(text)))
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"stages": 0}, "RUN043"),
        ({"stages": 65}, "RUN043"),
        ({"micro_batches": 0}, "RUN043"),
        ({"repeats": 0}, "RUN043"),
        ({"schedule": "one_f_two_b"}, "SCH003"),
        ({"schedule": "dualpipe_declared", "micro_batches": 1}, "SCH001"),
    ],
)
def test_sizes_and_names_are_checked(changed, code):
    with pytest.raises(UserError) as refused:
        bubbles(replace(OPTIONS, **changed))
    assert refused.value.code == code
