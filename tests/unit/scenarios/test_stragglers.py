"""Reactions to a slow device, and which device is slow."""

from __future__ import annotations

import pytest

from meshwright.base.errors import MeshwrightError
from meshwright.base.parse import build
from meshwright.base.units import Share
from meshwright.scenarios.reliability import published_reliability
from meshwright.scenarios.stragglers import slow_device, stragglers
from meshwright.system.reliability import RELIABILITY, read_reliability

JOB = {
    "devices": 48, "compute_s": 52.2, "sigma": build(Share, "2%", "sigma"), "wait_s": 0.58, "slack_s": 14.4,
    "slow_sigmas": 3.0, "slow_steps": 1, "interval_s": 600.0, "restart_s": 120.0,
}  # fmt: skip


def asked(**changes):
    return stragglers(**{**JOB, **changes})


def by_name(found):
    return {item.name: item for item in found.reactions}


def test_a_single_late_step_is_waited_for():
    for devices in (2, 8, 48, 1024):
        assert asked(devices=devices).best == "wait"


def test_a_device_slow_for_long_is_taken_out_from_the_step_that_repays_it():
    first = asked().exclude_from_steps
    assert asked(slow_steps=first).best == "exclude"
    assert asked(slow_steps=first - 1).best == "wait"


def test_a_device_far_behind_has_its_work_spread_until_the_restart_is_repaid():
    late = {"slow_sigmas": 20.0, "slow_steps": 5}
    assert asked(**late).best == "redistribute"
    assert asked(**late, interval_s=1.0, restart_s=1.0).best == "exclude"


def test_among_many_devices_the_chapters_form_says_nothing_is_lost_and_the_exact_one_a_little():
    wait = by_name(asked(devices=1024))["wait"]
    assert wait.extra_s == 0.0 < wait.exact_extra_s < 0.1


def test_without_slack_no_share_of_it_is_gone_and_without_spread_no_step_is_longer():
    assert asked(slack_s=0.0).slack_share is None
    even = asked(sigma=0.0)
    assert even.step_s == even.even_step_s
    assert even.exclude_from_steps is None


def test_the_slow_device_waits_least():
    found = slow_device((1.4, 1.6, 0.1, 1.5))
    assert (found.device, found.wait_s) == (2, 0.1)
    assert found.behind_s == pytest.approx(1.4)
    assert found.behind_sigmas > found.expected_max
    assert slow_device((1.0, 0.5, 1.0)).behind_sigmas is None


@pytest.mark.parametrize("name", RELIABILITY.names())
def test_a_published_cluster_has_its_source_and_says_something(name):
    found = read_reliability(name)
    assert found.source in {item.key for item in found.sources}
    assert found.slow_machines is not None or found.jobs


def test_slow_machines_are_counted_by_machine_and_not_by_device():
    few, many = (published_reliability("megascale", devices, 8) for devices in (8, 8192))
    assert few.any_slow_machine == pytest.approx(few.slow_machines)
    assert many.expected_slow_machines == pytest.approx(1024 * few.slow_machines)
    assert many.any_slow_machine > 0.99


def test_failures_of_small_jobs_are_not_those_of_large_ones_by_their_devices():
    found = published_reliability("meta-research", 8, 8)
    assert found.mtbf_s > 1.1 * found.proportional_mtbf_s
    assert published_reliability("meta-research", 48, 8).mtbf_s is None


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: asked(devices=1), "JOB080"),
        (lambda: asked(compute_s=0.0), "JOB080"),
        (lambda: asked(slow_steps=0), "JOB080"),
        (lambda: slow_device((1.0, 2.0)), "JOB081"),
        (lambda: published_reliability("megascale", 0, 8), "JOB051"),
        (lambda: published_reliability("megascal", 8, 8), "SYS002"),
    ],
)
def test_what_makes_no_sense_is_a_coded_error(call, code):
    with pytest.raises(MeshwrightError) as caught:
        call()
    assert caught.value.code == code
    assert caught.value.fix
