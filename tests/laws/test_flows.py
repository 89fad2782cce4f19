"""What holds for all flows: fair rates, bytes that arrive, bounds that no time beats, one answer in every way to it."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.cost.program_times import port_times, round_times
from meshwright.sim.flow_classes import flow_classes
from meshwright.sim.flow_events import flow_events
from meshwright.sim.max_min import Crossings, solver
from meshwright.sim.network import duration_s, run_flows
from meshwright.workload.traffic import NO_BACKGROUND, Background, Traffic, sends_of
from tests.laws.flow_problems import (
    direct_program,
    fabrics,
    program_of,
    programs,
    ring,
    ring_program,
    shifts_program,
    star,
)
from tests.oracle.exact_flows import exact_ends, max_min

CLOSE = 1e-9
NEEDS_NUMBA = pytest.mark.skipif(find_spec("numba") is None, reason="the extra numba is not installed")


@st.composite
def crossings(draw, most_links=6):
    links = draw(st.integers(1, most_links))
    path = st.lists(st.integers(0, links - 1), min_size=1, max_size=4, unique=True)
    paths = draw(st.lists(path, min_size=1, max_size=12))
    return Crossings(
        first=np.concatenate([[0], np.cumsum([len(item) for item in paths])]),
        link=np.array([link for item in paths for link in item]),
        load=np.ones(sum(len(item) for item in paths), np.int64),
        capacity_bytes_per_s=np.array(draw(st.lists(st.floats(0.1, 1e6), min_size=links, max_size=links))),
    )


@given(crossings(), st.data())
def test_every_flow_has_a_full_link_on_which_none_is_faster(known, data):
    flows = len(known.first) - 1
    moving = np.array(sorted(data.draw(st.sets(st.integers(0, flows - 1), min_size=1))))
    rate = dict(zip(moving.tolist(), solver(known, compiled=False)(moving).tolist(), strict=True))
    on = {link: [] for link in range(len(known.capacity_bytes_per_s))}
    for flow in moving.tolist():
        for row in range(known.first[flow], known.first[flow + 1]):
            on[int(known.link[row])].append(rate[flow])
    for link, rates in on.items():
        assert sum(rates) <= known.capacity_bytes_per_s[link] * (1 + CLOSE)
    for flow in moving.tolist():
        links = known.link[known.first[flow] : known.first[flow + 1]].tolist()
        full = [link for link in links if sum(on[link]) >= known.capacity_bytes_per_s[link] * (1 - CLOSE)]
        assert any(rate[flow] >= max(on[link]) * (1 - CLOSE) for link in full)


@given(crossings())
def test_rates_are_those_of_exact_filling(known):
    flows = len(known.first) - 1
    paths = {flow: known.link[known.first[flow] : known.first[flow + 1]].tolist() for flow in range(flows)}
    wanted = max_min(paths, exact(known.capacity_bytes_per_s))
    found = solver(known, compiled=False)(np.arange(flows))
    assert found.tolist() == pytest.approx([float(wanted[flow]) for flow in range(flows)], rel=CLOSE)


def exact(column):
    from fractions import Fraction

    return [Fraction(float(item)) for item in column]


@NEEDS_NUMBA
@given(crossings())
def test_compiled_filling_is_the_same_function(known):
    every = np.arange(len(known.first) - 1)
    assert solver(known, compiled=True)(every).tolist() == solver(known, compiled=False)(every).tolist()


@st.composite
def problems(draw):
    """One or two programs, and background, on one fabric."""
    fabric = draw(fabrics())
    vertices = len(fabric.kind)
    traffic = []
    for _ in range(draw(st.integers(1, 2))):
        ranks = draw(st.integers(2, 4))
        places = draw(st.lists(st.integers(0, vertices - 1), min_size=ranks, max_size=ranks))
        traffic.append(
            Traffic(
                program=draw(programs(ranks)),
                participants=np.array(places),
                message_bytes=draw(st.sampled_from([0.0, 1.0, 4.0, 7.0])),
                start_s=draw(st.sampled_from([0.0, 1.0, 5.5])),
            )
        )
    ends = st.tuples(
        st.integers(0, vertices - 1),
        st.integers(0, vertices - 1),
        st.sampled_from([2.0, 30.0, None]),
        st.sampled_from([0.0, 3.0]),
        st.sampled_from([0.5, None]),
    )
    rows = draw(st.lists(ends.filter(lambda row: row[0] != row[1]), max_size=2))
    return fabric, tuple(traffic), tuple(rows)


def background_of(rows):
    if not rows:
        return NO_BACKGROUND
    sender, receiver, size, start, limit = zip(*rows, strict=True)
    return Background(
        sender=np.array(sender),
        receiver=np.array(receiver),
        size_bytes=np.array([np.inf if item is None else item for item in size]),
        start_s=np.array(start),
        limit_bytes_per_s=np.array([np.inf if item is None else item for item in limit]),
    )


@given(problems())
def test_programs_end_when_exact_flows_one_by_one_say(problem):
    fabric, traffic, rows = problem
    found = run_flows(fabric, traffic, background_of(rows))
    assert found.end_s == pytest.approx([float(end) for end in exact_ends(fabric, traffic, rows)], rel=CLOSE)


@given(problems())
def test_classes_and_repeated_rounds_change_no_time_and_no_byte(problem):
    fabric, traffic, rows = problem
    sends = sends_of(fabric, traffic, background_of(rows))
    plain, merged = flow_classes(sends, merge=False), flow_classes(sends)
    slow, fast = flow_events(plain, forward=False), flow_events(merged)
    assert fast.end_s[merged.of_participant] == pytest.approx(slow.end_s[plain.of_participant], rel=CLOSE)
    of_programs = sends.sender >= 0
    left, right = (run.moved_bytes[kinds.of_send][of_programs] for run, kinds in ((fast, merged), (slow, plain)))
    assert left == pytest.approx(right, rel=CLOSE, abs=CLOSE)


@given(problems())
def test_every_link_carries_the_bytes_that_programs_send_over_it(problem):
    fabric, traffic, _ = problem
    wanted = np.zeros(len(fabric.sender))
    for item in traffic:
        piece = item.message_bytes / item.program.message_pieces
        for step in item.program.steps:
            routes = fabric.route(item.participants[step.sender], item.participants[step.receiver])
            each = np.repeat(step.pieces * piece * step.times, np.diff(routes.first))
            np.add.at(wanted, routes.links, each)
    assert run_flows(fabric, traffic).link_bytes == pytest.approx(wanted, rel=CLOSE, abs=CLOSE)


@given(problems())
def test_no_program_ends_before_its_busiest_link_has_carried_its_bytes(problem):
    fabric, (item, *_), rows = problem
    alone = run_flows(fabric, (item,))
    bound = float(np.max(alone.link_bytes / fabric.bandwidth_bytes_per_s, initial=0.0))
    assert alone.end_s[0] - item.start_s >= bound * (1 - CLOSE)
    beside = run_flows(fabric, (item,), background_of(rows))
    assert beside.end_s[0] - item.start_s >= bound * (1 - CLOSE)


@given(problems(), st.randoms(use_true_random=False))
def test_numbers_of_vertices_do_not_matter(problem, random):
    fabric, traffic, _ = problem
    names = list(range(len(fabric.kind)))
    random.shuffle(names)
    new, old = np.array(names), np.argsort(names)
    moved = replace(
        fabric,
        sender=new[fabric.sender],
        receiver=new[fabric.receiver],
        route=lambda sender, receiver: fabric.route(old[sender], old[receiver]),
    )
    there = tuple(replace(item, participants=new[item.participants]) for item in traffic)
    assert run_flows(moved, there).end_s == pytest.approx(run_flows(fabric, traffic).end_s, rel=CLOSE)


@given(problems(), st.sampled_from([0.25, 3.0]))
def test_time_scales_with_bytes_and_latencies_together(problem, by):
    fabric, traffic, _ = problem
    slower = replace(fabric, latency_s=fabric.latency_s * by)
    larger = tuple(replace(item, message_bytes=item.message_bytes * by, start_s=item.start_s * by) for item in traffic)
    wanted = [end * by for end in run_flows(fabric, traffic).end_s]
    assert run_flows(slower, larger).end_s == pytest.approx(wanted, rel=CLOSE)


@given(
    st.integers(2, 6),
    st.sampled_from([star, ring]),
    st.sampled_from([ring_program, direct_program]),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from([1e3, None])), max_size=3),
)
def test_other_traffic_makes_no_synchronous_program_faster(ranks, build, make, others):
    fabric = build(ranks)
    item = Traffic(program=make(ranks), participants=fabric.devices, message_bytes=4096.0)
    rows = [(one % ranks, other % ranks, size, 0.0, None) for one, other, size in others if (one - other) % ranks]
    alone = duration_s(fabric, item)
    assert duration_s(fabric, item, background_of(rows)) >= alone * (1 - CLOSE)


def test_a_ring_of_many_repetitions_is_put_forward_to_the_time_of_every_round():
    fabric, ranks = star(64), 64
    item = Traffic(program=ring_program(ranks), participants=fabric.devices, message_bytes=64e6)
    found = run_flows(fabric, (item,))
    assert found.end_s[0] == pytest.approx(126 * (1e-6 + 1e6 / 1e9), rel=CLOSE)
    assert found.classes == 1
    assert found.moments < 10


def test_one_slow_link_sets_the_pace_of_a_ring_once_all_have_waited_for_it():
    fabric = star(16)
    rates = fabric.bandwidth_bytes_per_s.copy()
    rates[0] /= 2
    slow = replace(fabric, bandwidth_bytes_per_s=rates)
    item = Traffic(program=ring_program(16), participants=fabric.devices, message_bytes=16e6)
    sends = sends_of(slow, (item,), NO_BACKGROUND)
    every = flow_events(flow_classes(sends, merge=False), forward=False)
    assert run_flows(slow, (item,)).end_s[0] == pytest.approx(every.end_s.max(), rel=CLOSE)
    assert run_flows(slow, (item,)).end_s[0] > duration_s(fabric, item)


def test_a_flow_with_a_limit_leaves_the_rest_of_the_link():
    fabric = star(3, latency=0.0)
    item = Traffic(program=program_of(3, [([(0, 1, 1)], 1)]), participants=fabric.devices, message_bytes=1e9)
    fair = background_of([(0, 2, None, 0.0, None)])
    held = background_of([(0, 2, None, 0.0, 0.25e9)])
    assert duration_s(fabric, item, fair) == pytest.approx(2.0)
    assert duration_s(fabric, item, held) == pytest.approx(1 / 0.75)


SHIFTS = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3), st.integers(1, 6)), min_size=1, max_size=3)


@given(st.integers(2, 9), SHIFTS, st.sampled_from([0.0, 1e3, 1e9]))
def test_all_depths_agree_on_one_switch_that_blocks_nothing(ranks, shifts, size):
    fabric = star(ranks)
    shifts = [(far, pieces, times) for far, pieces, times in shifts if far % ranks]
    for program in (ring_program(ranks), direct_program(ranks), *([shifts_program(ranks, shifts)] if shifts else [])):
        item = Traffic(program=program, participants=fabric.devices, message_bytes=size)
        wanted = pytest.approx(duration_s(fabric, item), rel=CLOSE)
        assert port_times(fabric, (item,)).total_s == wanted
        assert round_times(fabric, (item,)).total_s == wanted


@given(st.integers(3, 9), SHIFTS, st.sampled_from([0.0, 1e3, 1e9]))
def test_rounds_and_flows_agree_where_rounds_are_symmetric(ranks, shifts, size):
    fabric = ring(ranks)
    shifts = [(far, pieces, times) for far, pieces, times in shifts if far % ranks and 2 * (far % ranks) != ranks]
    item = Traffic(
        program=shifts_program(ranks, shifts) if shifts else ring_program(ranks),
        participants=fabric.devices,
        message_bytes=size,
    )
    assert round_times(fabric, (item,)).total_s == pytest.approx(duration_s(fabric, item), rel=CLOSE)


@given(problems())
def test_ports_alone_are_never_slower_than_all_links(problem):
    fabric, (item, *_), rows = problem
    for beside in (NO_BACKGROUND, background_of(rows)):
        ports, links = (depth(fabric, (item,), beside).total_s for depth in (port_times, round_times))
        assert ports <= links * (1 + CLOSE)


@given(problems())
def test_all_depths_count_the_same_bytes_on_every_link(problem):
    fabric, (item, *_), _ = problem
    found = [depth(fabric, (item,)).link_bytes for depth in (port_times, round_times, run_flows)]
    assert found[0] == pytest.approx(found[2], rel=CLOSE, abs=CLOSE)
    assert found[1] == pytest.approx(found[2], rel=CLOSE, abs=CLOSE)


@given(problems())
def test_one_round_of_flows_takes_no_less_than_its_busiest_link(problem):
    fabric, (item, *_), _ = problem
    first = replace(item.program.steps[0], times=1)
    alone = replace(item, program=replace(item.program, steps=(first,)))
    assert duration_s(fabric, alone) >= round_times(fabric, (alone,)).transfer_s * (1 - CLOSE)


@given(problems())
def test_other_traffic_makes_no_round_faster(problem):
    fabric, (item, *_), rows = problem
    for depth in (port_times, round_times):
        beside = depth(fabric, (item,), background_of(rows))
        assert beside.transfer_s >= depth(fabric, (item,)).transfer_s * (1 - CLOSE)


def test_all_depths_agree_on_what_fair_traffic_beside_leaves():
    fabric = star(3, latency=0.0)
    item = Traffic(program=program_of(3, [([(0, 1, 1)], 1)]), participants=fabric.devices, message_bytes=1e9)
    for limit, wanted in ((None, 2.0), (0.25e9, 1 / 0.75), (2e9, 2.0)):
        beside = background_of([(0, 2, None, 0.0, limit)])
        assert port_times(fabric, (item,), beside).total_s == pytest.approx(wanted)
        assert round_times(fabric, (item,), beside).total_s == pytest.approx(wanted)
        assert duration_s(fabric, item, beside) == pytest.approx(wanted)


def test_a_link_whose_bandwidth_nobody_knows_bounds_nothing():
    fabric = star(4)
    rates = fabric.bandwidth_bytes_per_s.copy()
    rates[0] = np.inf
    wide = replace(fabric, bandwidth_bytes_per_s=rates)
    item = Traffic(program=ring_program(4), participants=fabric.devices, message_bytes=4e6)
    assert duration_s(wide, item) == pytest.approx(duration_s(fabric, item))
    free = replace(fabric, bandwidth_bytes_per_s=np.full(len(rates), np.inf))
    for depth in (lambda *given: run_flows(*given).end_s[0], lambda *given: round_times(*given).total_s):
        assert depth(free, (item,)) == pytest.approx(6e-6)
    assert run_flows(free, (item,)).link_bytes.tolist() == run_flows(fabric, (item,)).link_bytes.tolist()
