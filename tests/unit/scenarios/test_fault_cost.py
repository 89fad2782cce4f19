"""One fault replayed on every layout, beside the plan."""

import dataclasses

import pytest

from meshwright.base.errors import MeshwrightError
from meshwright.job.faults import Fault, read_fault
from meshwright.job.serve import ServeJob
from meshwright.model.reader import read_model
from meshwright.scenarios.connection_setup import connection_setup
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


def test_connections_that_are_set_up_again_lengthen_the_stop():
    """Chapter "Supernodes", sections 6.5.5 and 6.7.2: 16.3 ms by channels, 17 s in pairs."""
    setup = connection_setup(endpoints=1024, peers=1024, calls=4, call_s=5e-6, round_trip_s=5e-4, cores=32)
    for seconds in (setup.channel.spread_s, setup.pair.spread_s):
        again = layouts(fault=dataclasses.replace(FAULT, reconnect=seconds))
        longer = layouts(fault=dataclasses.replace(FAULT, stall=FAULT.stall + seconds))
        plain = layouts()
        for name, found in again.items():
            assert found.with_fault == longer[name].with_fault
            assert found.with_fault.last_finish_s > plain[name].with_fault.last_finish_s
            assert found.without == plain[name].without


def test_a_fault_reads_its_reconnection():
    assert read_fault("card=0,at=20ms,stall=40ms,reconnect=16ms") == dataclasses.replace(FAULT, reconnect=0.016)
    assert read_fault("card=0,at=20ms,stall=40ms") == FAULT
