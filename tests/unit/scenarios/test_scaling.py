"""Batches against devices, measured scaling, changes of hardware, and larger models."""

from __future__ import annotations

import pytest

from meshwright.base.errors import MeshwrightError
from meshwright.cost.stragglers import expected_max
from meshwright.scenarios.bounds import measured_scaling, overlap_bound
from meshwright.scenarios.hardware_change import hardware_change
from meshwright.scenarios.scale_sweep import compute_growth, scale_sweep
from meshwright.scenarios.scaling import critical_batch, noise_scale, scaling
from meshwright.system.accelerator import read_accelerator

RUN = {
    "tokens": 10**11, "sequence": 8192, "micro_batches": 8, "base_devices": 48, "devices": (48, 96), "compute_s": 52.22,
    "exposed_comm_s": 0.0762, "input_wait_s": 0.5, "noise_scale": 2_000_000,
}  # fmt: skip
SWEEP = {
    "parameters": (10**12,), "tokens": 2 * 10**13, "tokens_per_parameter": 0.0, "active": 1.0, "devices": 16384,
    "state_per_parameter": 16, "accelerators": ("b200-sxm",), "efficiency": 0.4, "deadline_s": 90 * 86400.0,
}  # fmt: skip


def test_at_the_noise_scale_steps_and_tokens_are_twice_their_least():
    found = critical_batch(10**9, 10**6, 10**6)
    assert found.times_least_steps == found.times_least_tokens == 2
    assert found.advice == "keep_batch"
    assert critical_batch(10**9, 10**6, 10**6 + 1).advice == "grow_batch"


def test_a_last_step_with_a_rest_of_the_tokens_is_a_whole_step():
    assert critical_batch(10**6 + 1, 10**6, 10**6).steps == 2
    assert critical_batch(10**6, 10**6, 10**6).steps == 1


def test_the_first_row_is_the_run_itself_and_fewer_devices_take_longer():
    found = scaling(**{**RUN, "devices": (48, 24)})
    same, fewer = found.rows
    assert same.weak_s == pytest.approx(found.steps * found.step_s)
    assert same.strong_s == pytest.approx(found.steps * found.step_s)
    assert fewer.weak_s > same.weak_s
    assert fewer.strong_step_s == pytest.approx(2 * 52.22 + 0.5762)


def test_removing_a_wait_saves_no_more_than_is_exposed():
    found = overlap_bound(10.0, 1.3, 0.2)
    assert (found.most_saving_s, found.hidden_s, found.least_step_s) == (0.2, pytest.approx(1.1), 9.8)


def test_waiting_for_the_slowest_of_more_devices_explains_a_part_of_the_excess():
    even, varied = (measured_scaling(3072, 23.66, 12288, 6.34, sigma) for sigma in (0.0, 0.02))
    assert (even.slowest_s, even.unexplained_s) == (0.0, even.excess_s)
    assert 0 < varied.slowest_s < 0.1 * varied.excess_s
    assert varied.slowest_s + varied.unexplained_s == pytest.approx(varied.excess_s)
    made = 8.0 * (1 + 0.05 * expected_max(64)), 2.0 * (1 + 0.05 * expected_max(256))
    assert measured_scaling(64, made[0], 256, made[1], 0.05).unexplained_s == pytest.approx(0)


def test_the_noise_scale_is_found_again_in_norms_that_were_made_with_it():
    """E|g|^2 at batch B is |G|^2 + tr(Sigma) / B."""
    norms = {batch: 3.0 + 6e6 / batch for batch in (10**5, 10**7)}
    found = noise_scale(10**5, norms[10**5], 10**7, norms[10**7])
    assert found.noise_scale_tokens == pytest.approx(2e6)
    assert found.squared_gradient == pytest.approx(3.0)
    assert found.variance == pytest.approx(6e6)


def test_what_is_hidden_and_stays_so_costs_nothing_and_what_does_not_is_said():
    within = hardware_change(0.1, 0.05, 0.5, 0.02, 0.06)
    assert (within.step_s, within.regime_changed, within.warning) == (0.105, False, None)
    beyond = hardware_change(0.1, 0.05, 0.5, 0.04, 0.06)
    assert beyond.step_s == within.step_s
    assert beyond.newly_exposed_s == pytest.approx(0.02)
    assert "lower bound" in beyond.warning


def test_rates_are_those_of_the_catalog():
    (rate,) = scale_sweep(**SWEEP).rates
    assert rate.peak_flops_per_s == read_accelerator("b200-sxm").peak["bf16"]


def test_a_device_fewer_than_needed_is_late():
    needed = scale_sweep(**SWEEP).rows[0].needed_devices
    enough, short = (scale_sweep(**{**SWEEP, "devices": count}).rows[0] for count in (needed, needed - 1))
    assert (enough.late_s, short.spare_s) == (0.0, 0.0)
    assert enough.spare_s > 0 < short.late_s


def test_a_mixture_computes_by_what_is_active_and_holds_the_state_of_all():
    dense, mixture = (scale_sweep(**{**SWEEP, "active": share}).rows[0] for share in (1.0, 0.1))
    assert mixture.run_s == pytest.approx(dense.run_s / 10)
    assert mixture.state_devices == dense.state_devices


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: critical_batch(10, 11, 1), "JOB082"),
        (lambda: critical_batch(10, 1, 0), "JOB082"),
        (lambda: scaling(**{**RUN, "devices": ()}), "JOB083"),
        (lambda: scaling(**{**RUN, "base_devices": 0}), "JOB083"),
        (lambda: scaling(**{**RUN, "compute_s": 0.0, "exposed_comm_s": 0.0, "input_wait_s": 0.0}), "JOB083"),
        (lambda: overlap_bound(10.0, 0.1, 0.2), "JOB084"),
        (lambda: overlap_bound(0.1, 1.3, 0.2), "JOB084"),
        (lambda: measured_scaling(8, 1.0, 4, 1.0, 0.0), "JOB085"),
        (lambda: measured_scaling(8, 0.0, 8, 1.0, 0.0), "JOB085"),
        (lambda: noise_scale(8, 4.0, 8, 2.0), "JOB082"),
        (lambda: noise_scale(8, 4.0, 80, 4.0), "JOB082"),
        (lambda: noise_scale(8, 40.0, 80, 4.0), "JOB082"),
        (lambda: hardware_change(0.1, 0.05, 0.0, 0.0, 0.0), "JOB086"),
        (lambda: hardware_change(0.1, 0.05, 0.5, 0.2, 0.1), "JOB086"),
        (lambda: scale_sweep(**{**SWEEP, "parameters": ()}), "JOB050"),
        (lambda: scale_sweep(**{**SWEEP, "efficiency": 0.0}), "JOB050"),
        (lambda: scale_sweep(**{**SWEEP, "tokens": 0}), "JOB050"),
        (lambda: compute_growth(0, 1, 1, 0.0), "JOB050"),
        (lambda: scale_sweep(**{**SWEEP, "accelerators": ("b300",)}), "SYS002"),
    ],
)
def test_what_makes_no_sense_is_a_coded_error(call, code):
    with pytest.raises(MeshwrightError) as caught:
        call()
    assert caught.value.code == code
    assert caught.value.fix
