"""Flows whose times are known by hand, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.base.errors import CollectiveError
from meshwright.sim import flow_events
from meshwright.sim.network import flows_of, run_flows
from meshwright.workload import traffic
from meshwright.workload.traffic import Traffic
from tests.laws.flow_problems import direct_program, fabric_of, program_of, ring, ring_program, star


def placed(fabric, program, size, **more):
    return Traffic(program=program, participants=fabric.devices, message_bytes=size, **more)


def test_rates_change_when_a_flow_ends_and_when_another_arrives():
    # Two sends leave device 0 over one link of 1 B/s: 1 B and 3 B share it until 2 s, then the longer one has it alone.
    fabric = star(3, bandwidth=1.0, latency=0.0)
    both = placed(fabric, program_of(3, [([(0, 1, 1), (0, 2, 3)], 1)]), 1.0)
    assert run_flows(fabric, (both,)).end_s == (pytest.approx(4.0),)
    late = placed(fabric, program_of(3, [([(0, 1, 2)], 1)]), 1.0, start_s=3.0)
    # The late one starts at 3 s, when 1 B of the 3 is left: each has half, and it needs 2 B.
    assert run_flows(fabric, (both, late)).end_s == (pytest.approx(5.0), pytest.approx(6.0))


def test_a_flow_that_is_held_elsewhere_leaves_its_share_to_the_others():
    # 0 > 2 and 1 > 2 share the link into 2 (4 B/s), and 0 leaves by 1 B/s: the other one has 3.
    links = [(0, 3, 1.0, 0.0), (1, 3, 4.0, 0.0), (3, 2, 4.0, 0.0)]
    fabric = fabric_of(4, links, range(3))
    one, other = (placed(fabric, program_of(3, [([(rank, 2, 1)], 1)]), 3.0) for rank in (0, 1))
    assert run_flows(fabric, (one, other)).end_s == (pytest.approx(3.0), pytest.approx(1.0))


def test_a_participant_waits_for_all_its_sends_and_receives_and_for_no_others():
    fabric = star(4, bandwidth=1.0, latency=0.0)
    rounds = [([(0, 1, 1), (2, 3, 5)], 1), ([(1, 0, 1)], 1), ([(3, 2, 1)], 1)]
    found = flows_of(fabric, (placed(fabric, program_of(4, rounds), 1.0),)).run()
    assert found.end_s == (pytest.approx(6.0),)
    assert found.link_bytes.sum() == pytest.approx(2 * 8)


def test_a_run_at_another_size_is_a_program_of_that_size():
    fabric = ring(6)
    program = direct_program(6)
    flows = flows_of(fabric, (placed(fabric, program, 600.0),))
    for times in (0.5, 1.0, 40.0):
        alone = run_flows(fabric, (placed(fabric, program, 600.0 * times),))
        assert flows.run(times).end_s == pytest.approx(alone.end_s)
        assert flows.run(times).link_bytes == pytest.approx(alone.link_bytes)


def test_a_program_without_rounds_ends_as_it_starts():
    fabric = star(2)
    assert run_flows(fabric, (placed(fabric, program_of(2, []), 8.0, start_s=2.0),)).end_s == (2.0,)


def test_ranks_of_one_vertex_exchange_at_once():
    fabric = star(2)
    item = Traffic(program=ring_program(4), participants=np.zeros(4, np.int64), message_bytes=1e9)
    assert run_flows(fabric, (item,)).end_s == (0.0,)


def test_more_sends_than_fit_are_refused(monkeypatch):
    monkeypatch.setattr(traffic, "MOST_SENDS", 11)
    fabric = star(4)
    run_flows(fabric, (placed(fabric, ring_program(4), 8.0),))
    with pytest.raises(CollectiveError, match="COL030"):
        run_flows(fabric, (placed(fabric, direct_program(4), 8.0),))


def test_rates_that_change_too_often_are_refused(monkeypatch):
    monkeypatch.setattr(flow_events, "MOST_WORK", 20)
    fabric = star(4)
    run_flows(fabric, (placed(fabric, ring_program(4), 8.0),))
    with pytest.raises(CollectiveError, match="COL031"):
        run_flows(fabric, (placed(fabric, program_of(4, [([(0, 1, 1), (0, 2, 2), (0, 3, 3)], 9)]), 8.0),))
