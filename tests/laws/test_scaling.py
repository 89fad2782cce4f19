"""What holds of scale at every size: trade-offs, limits, queues, orders."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.cost.input_pipeline import input_wait_s, prepare_s
from meshwright.cost.scaling import least_steps, least_tokens, speed_up_limit, steps_at, tokens_at
from meshwright.cost.stragglers import expected_max
from meshwright.scenarios.hardware_change import hardware_change
from meshwright.scenarios.input_pipeline import Outage, Stage, input_pipeline
from meshwright.scenarios.scaling import scaling

COUNT = st.integers(1, 10**6)
TOKENS = st.integers(10**3, 10**9)
TIME = st.floats(0.01, 1e4)


@given(steps=COUNT, batch=TOKENS, other=TOKENS, noise=TOKENS)
def test_steps_and_tokens_trade_against_each_other_at_every_batch(steps, batch, other, noise):
    fewest, least = least_steps(steps, batch, noise), least_tokens(steps * batch, batch, noise)
    more_steps, more_tokens = steps_at(fewest, other, noise), tokens_at(least, other, noise)
    assert (more_steps / fewest - 1) * (more_tokens / least - 1) == pytest.approx(1, rel=1e-4)
    assert more_steps * other == pytest.approx(more_tokens)
    assert least / fewest == pytest.approx(noise)
    assert steps_at(fewest, batch, noise) == pytest.approx(steps)


@given(devices=st.integers(1, 10**4), noise=TOKENS, compute=TIME, wait=TIME)
def test_twice_the_devices_never_halve_the_time_while_anything_waits_or_the_batch_has_a_noise_scale(
    devices, noise, compute, wait
):
    found = scaling(
        tokens=10**13, sequence=1024, micro_batches=1, base_devices=devices, devices=(devices, 2 * devices, 10**9),
        compute_s=compute, exposed_comm_s=wait, input_wait_s=0.0, noise_scale=noise,
    )  # fmt: skip
    one, two, most = found.rows
    assert one.weak_s / 2 < two.weak_s < one.weak_s
    assert one.strong_s / 2 < two.strong_s < one.strong_s
    assert one.weak_s / most.weak_s <= speed_up_limit(found.batch_tokens, noise) * (1 + 1e-9)


@given(counts=st.lists(st.integers(1, 10**8), min_size=1, max_size=8))
def test_the_largest_of_more_is_larger_and_below_its_classic_bound(counts):
    column = np.array(sorted(set(counts)))
    found = expected_max(column)
    assert (np.diff(found) > 0).all()
    assert (found <= np.sqrt(2 * np.log(column)) + 1e-12).all()


@given(step=TIME, sequences=COUNT, workers=COUNT, rate=st.floats(0.01, 1e3))
def test_a_step_with_its_wait_is_the_longer_of_computing_and_preparing(step, sequences, workers, rate):
    wait = input_wait_s(step, sequences, workers, rate)
    assert wait >= 0
    assert step + wait == pytest.approx(max(step, prepare_s(sequences, workers, rate)))


@given(
    workers=st.integers(1, 6),
    away=st.integers(0, 6),
    sequences=st.integers(1, 60),
    queue=st.integers(0, 200),
    at=st.integers(0, 50),
    duration=st.integers(1, 100),
)
def test_what_the_stages_put_in_is_trained_or_in_the_queue(*, workers, away, sequences, queue, at, duration):
    """Supply while not blocked, and demand while not waiting, are the change of the level; and it is as stepped."""
    found = input_pipeline(
        stages=(Stage(name="filter", workers=workers, rate=2.0),),
        sequences=sequences,
        step_s=5.0,
        queue=queue,
        start=queue // 2,
        outage=Outage(stage="filter", workers=min(away, workers), at=float(at), duration=float(duration)),
        end_s=200.0,
    )
    demand, level, parts = sequences / 5.0, queue // 2, 64
    for part in found.levels:
        length = part.end_s - part.start_s
        blocked = part.blocked_s * (1 - demand / part.supply_sequences_per_s) if part.blocked_s else 0.0
        made, used = part.supply_sequences_per_s * (length - blocked), demand * (length - part.waited_s)
        assert part.end_sequences - part.start_sequences == pytest.approx(made - used, abs=1e-6)
        for _ in range(int(length) * parts):
            level = min(max(level + (part.supply_sequences_per_s - demand) / parts, 0.0), queue)
        assert part.end_sequences == pytest.approx(level, abs=1e-6)
        assert 0 <= part.end_sequences <= queue


@given(step=TIME, share=st.floats(0, 1), times=st.floats(0.01, 100))
def test_a_change_and_its_reverse_leave_the_step_as_it_was(step, share, times):
    there = hardware_change(step, share, times, 0.0, 0.0)
    left = (share / times) / (1 - share + share / times)
    assert hardware_change(there.step_s, left, 1 / times, 0.0, 0.0).step_s == pytest.approx(step)
    assert (there.step_s <= step * (1 + 1e-12)) == (times >= 1 or there.increase_share == pytest.approx(0))
