"""Input against steps: waits, stages, outages and where a restart goes on."""

from __future__ import annotations

import pytest

from meshwright.base.errors import MeshwrightError
from meshwright.scenarios.input_pipeline import (
    Outage,
    Stage,
    data_position,
    input_demand,
    input_pipeline,
    input_wait,
)

STAGES = (Stage(name="read", workers=1, rate=100.0), Stage(name="filter", workers=4, rate=2.0))
AWAY = Outage(stage="filter", workers=2, at=60.0, duration=60.0)
PIPELINE = {
    "stages": STAGES, "sequences": 60, "step_s": 10.0, "queue": 240, "start": 240, "outage": AWAY, "end_s": 600.0
}  # fmt: skip


def asked(**changes):
    return input_pipeline(**{**PIPELINE, **changes})


def test_a_step_takes_what_its_sequences_take_to_prepare_where_that_is_longer():
    slow = input_wait(384, 52.3, 3, 2.0)
    assert (slow.step_s, slow.wait_s) == (pytest.approx(64.0), pytest.approx(11.7))
    assert slow.least_workers == 4
    fast = input_wait(384, 52.3, 4, 2.0)
    assert (fast.step_s, fast.wait_s) == (52.3, 0.0)


def test_the_fewest_workers_are_exact_where_they_just_suffice():
    assert input_wait(30, 1.0, 1, 0.1).least_workers == 300
    assert input_wait(1, 10.0, 1, 5.0).least_workers == 1


def test_the_slowest_stage_gives_the_supply_and_is_named():
    found = asked()
    assert (found.slowest, found.supply_sequences_per_s) == ("filter", 8.0)
    read = asked(stages=(Stage(name="read", workers=1, rate=3.0), STAGES[1]), outage=AWAY)
    assert (read.slowest, read.supply_sequences_per_s) == ("read", 3.0)
    assert read.outage.left_sequences_per_s == 3.0


def test_a_queue_of_the_needed_size_hides_the_outage_and_a_smaller_one_does_not():
    needed = asked().outage.needed_sequences
    assert needed == (6.0 - 4.0) * 60
    assert asked(queue=int(needed), start=int(needed)).outage.hidden
    short = asked(queue=int(needed) - 6, start=int(needed) - 6).outage
    assert not short.hidden
    assert short.waited_s == pytest.approx(1.0)  # six sequences are missing, at six a second


def test_the_queue_is_full_again_after_the_refill_time():
    found = asked(end_s=120.0 + asked().outage.refill_s)
    assert found.levels[-1].end_sequences == pytest.approx(240)
    assert found.levels[-1].blocked_s == pytest.approx(0.0)
    assert asked(sequences=80).outage.refill_s is None


def test_a_deficit_for_good_empties_any_queue():
    found = asked(sequences=100, queue=10**6, start=10**6, end_s=10.0**6)
    assert not found.keeps_up
    assert found.levels[-1].end_sequences == 0.0
    assert found.wait_s == pytest.approx(100 / 8 - 10)


def test_all_workers_of_a_stage_may_be_away():
    gone = asked(outage=Outage(stage="filter", workers=4, at=0.0, duration=60.0), end_s=60.0)
    assert gone.levels[0].waited_s == pytest.approx(60 - 240 / 6)


def test_a_restart_goes_on_behind_the_last_trained_batch():
    found = data_position(108, 100)
    assert (found.pending, found.resume_batch) == (8, 101)
    assert data_position(0, 0).resume_batch == 1


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: input_demand(0.0, 8192, 8), "JOB087"),
        (lambda: input_wait(384, 52.3, 0, 2.0), "JOB087"),
        (lambda: input_wait(384, 52.3, 4, 0.0), "JOB087"),
        (lambda: asked(start=241), "JOB087"),
        (lambda: asked(stages=(Stage(name="filter", workers=0, rate=1.0),)), "JOB087"),
        (lambda: asked(end_s=119.0), "JOB087"),
        (lambda: asked(outage=Outage(stage="filter", workers=-1, at=0.0, duration=1.0)), "JOB088"),
        (lambda: asked(stages=()), "JOB088"),
        (lambda: asked(stages=(STAGES[0], STAGES[0])), "JOB088"),
        (lambda: asked(outage=Outage(stage="filtr", workers=1, at=0.0, duration=1.0)), "JOB088"),
        (lambda: asked(outage=Outage(stage="filter", workers=5, at=0.0, duration=1.0)), "JOB088"),
        (lambda: data_position(99, 100), "JOB089"),
    ],
)
def test_what_makes_no_sense_is_a_coded_error(call, code):
    with pytest.raises(MeshwrightError) as caught:
        call()
    assert caught.value.code == code
    assert caught.value.fix
