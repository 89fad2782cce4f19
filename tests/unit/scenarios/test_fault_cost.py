"""One fault replayed on every layout, beside the plan."""

import dataclasses

import pytest

from meshwright.base.errors import MeshwrightError
from meshwright.job.faults import Fault
from meshwright.job.serve import ServeJob
from meshwright.model.reader import read_model
from meshwright.scenarios.fault_cost import fault_cost
from meshwright.scenarios.serving import ServeOptions, plan_serve
from meshwright.system.system import read_system

QWEN3_32B, BOX = read_model("Qwen/Qwen3-32B"), read_system("hgx-h100")
JOB = ServeJob(sessions=4, context=131064, new_tokens=8, deadline=0.13, on_time=0.75)
FAULT = Fault(domain="card", index=0, at=0.02, stall=0.04)
RING = ServeOptions(all_reduce="ring")


def layouts(job=JOB, fault=FAULT, system=BOX):
    return {item.id: item for item in fault_cost(QWEN3_32B, system, job, fault, RING).layouts}


def test_both_ways_are_the_plans_own_for_every_layout_that_fits():
    plan = plan_serve(QWEN3_32B, BOX, JOB, dataclasses.replace(RING, fault=FAULT, flips="none"))
    found = layouts()
    assert set(found) == {item.id for item in plan.candidates if item.fits}
    for item in (item for item in plan.candidates if item.fits):
        row = found[item.id]
        assert row.stopped_replicas == tuple(item.measures["fault"]["stopped_replicas"])
        for served, measures in ((row.without, item.measures), (row.with_fault, item.measures["fault"])):
            names = ("last_finish_s", "on_time_count", "cost_gpu_s", "cost_per_on_time_gpu_s", "energy_j")
            assert {name: getattr(served, name) for name in names} == {name: measures[name] for name in names}
            assert served.finish_times_s == tuple(measures["finish_times_s"])
            assert served.on_time_share == measures["on_time_count"] / 4


def test_the_ratio_is_of_an_on_time_session_and_missing_where_nobody_is_on_time():
    found = layouts()
    for row in found.values():
        pair = (row.without.cost_per_on_time_gpu_s, row.with_fault.cost_per_on_time_gpu_s)
        assert row.cost_ratio == (None if None in pair else pair[1] / pair[0])
        assert (row.with_fault.cost_per_on_time_gpu_s is None) == (row.with_fault.on_time_count == 0)
    assert {row.cost_ratio is None for row in found.values()} == {True, False}


def test_a_stop_of_no_time_before_anything_ran_costs_nothing():
    nothing = Fault(domain="card", index=0, at=0.0, stall=0.0)
    found = layouts(fault=nothing, job=dataclasses.replace(JOB, deadline=None))
    assert {row.cost_ratio for row in found.values()} == {1.0}


@pytest.mark.parametrize(
    ("domain", "index", "code"), [("switch", 0, "JOB005"), ("card", 8, "JOB005"), ("card", -1, "JOB001")]
)
def test_a_part_that_the_system_does_not_have_is_refused(domain, index, code):
    with pytest.raises(MeshwrightError) as caught:
        layouts(fault=Fault(domain=domain, index=index, at=0.02, stall=0.04))
    assert caught.value.code == code
