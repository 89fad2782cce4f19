"""Every registered collective against a run of it, and the choice between them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from inspect import signature
from itertools import product
from math import isclose

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.base.errors import CollectiveError
from meshwright.cost.coefficients import coefficients
from meshwright.cost.collectives import (
    COLLECTIVES,
    algorithms,
    all_reduce,
    busbw_factor,
    check_choice,
    program_s,
    rounds_s,
    send_s,
    start_up_s,
    transfer_s,
)
from meshwright.cost.groups import Group, group_of, lone_group, rates
from meshwright.cost.program_sizes import program_size
from meshwright.cost.program_times import round_times
from meshwright.scenarios._collective_programs import placed
from meshwright.scenarios.collective import algorithm_bandwidth
from meshwright.system.fabric import system_fabric
from meshwright.system.system import read_system
from meshwright.workload import channels

BOX = read_system("hgx-h100 x2")

ALPHA, BANDWIDTH = 0.822e-6, 450e9
SIZES = st.integers(1, 2**32)
NAMES = st.sampled_from(algorithms("all_reduce"))


def group(*ranks: int, nodes: int = 1) -> Group:
    """Groups in so many boxes of 8 H100."""
    count = np.array(ranks, dtype=np.int64)
    return group_of(count, np.full_like(count, nodes), *rates(BOX, "own"))


def counted_by_hand(program, boxes):
    """Rounds and loads of a program, round by round and send by send, with dictionaries: of ports, and of own NICs."""
    box = [rank * boxes // program.ranks for rank in range(program.ranks)] + [0] * program.switches
    found = []
    for step in program.steps:
        every, far = Counter(), Counter()
        crosses = False
        for sender, receiver, pieces in zip(
            *(x.tolist() for x in (step.sender, step.receiver, step.pieces)), strict=True
        ):
            beyond = box[sender] != box[receiver]
            crosses |= beyond
            for end in (("out", sender), ("in", receiver)):
                every[end] += pieces
                far[end] += pieces * beyond
        port, nic = (
            max((load for (_, rank), load in loads.items() if rank < program.ranks), default=0)
            for loads in (every, far)
        )
        found += [(crosses, port / program.message_pieces, nic / program.message_pieces)] * step.times
    return found


def in_boxes(name, operation, ranks, boxes):
    """The program as it runs over boxes: by boxes where it knows them, in channels where libraries lay it in them."""
    module = COLLECTIVES.module(name)
    even = boxes > 1 and ranks % boxes == 0
    known = {"node_size", "box_size"} & set(signature(module.program).parameters)
    program = module.program(operation, ranks, **(dict.fromkeys(known, ranks // boxes) if even else {}))
    laid = {"ring", "bidirectional_ring", "tree", "double_binary_tree"}
    if not even or name not in laid or operation not in channels.OPERATIONS:
        return program
    return channels.in_channels(program, channels.box_orders(ranks, ranks // boxes))


@pytest.mark.parametrize("boxes", [1, 2, 3])
@pytest.mark.parametrize("name", COLLECTIVES.names())
def test_seconds_are_those_of_the_programs_rounds_each_limited_by_the_longer_of_two_links(name, boxes):
    module, size = COLLECTIVES.module(name), 3e6
    for operation, ranks in product(module.OPERATIONS, (2, 3, 4, 6, 8, 12, 16)):
        if not module.permits(operation, ranks) or boxes > ranks:
            continue
        one = group(ranks, nodes=boxes)
        seconds = program_s(name, operation, one, size)[0]
        program = in_boxes(name, operation, ranks, boxes)
        if program.switches and boxes > 1:
            assert np.isnan(seconds)
            continue
        near, far = one.near, one.far
        expected = sum(
            (far if crosses else near).latency_s
            + max(size * port / near.bandwidth_bytes_per_s, size * nic / far.bandwidth_bytes_per_s)
            for crosses, port, nic in counted_by_hand(program, boxes)
        )
        assert isclose(seconds, expected, rel_tol=1e-12), (operation, ranks)


@pytest.mark.parametrize("on", ["hgx-h100 x2", "hgx-a100 x3", "gb200-nvl72 x2"])
@pytest.mark.parametrize("name", COLLECTIVES.names())
def test_a_plan_and_the_busiest_links_of_a_systems_network_say_one_time(name, on):
    """The columns of a plan against rounds routed over links: the whole of each box, or half of it.

    A plan counts all bytes of a port to its link in the box, which hosts without other links need (section 10.3.3), so
    a round that this link limits may last as much longer as the NIC is wide beside it: of a tree in two halves.
    """
    system = read_system(on)
    fabric = system_fabric(replace(system, devices_per_node=min(system.devices_per_node, 8), nics_per_node=8))
    module, size = COLLECTIVES.module(name), 3e6
    own = rates(replace(system, devices_per_node=8, nics_per_node=8), "own")
    for operation, members in product(module.OPERATIONS, (8, 4, 1)):
        ranks = np.add.outer(np.arange(system.nodes) * 8, np.arange(members)).reshape(-1)
        if not module.permits(operation, len(ranks)) or name == "in_switch":
            continue
        one = group_of(np.array([len(ranks)]), np.array([system.nodes]), *own)
        item = placed(name, operation, (ranks,), fabric, size, None)
        expected = round_times(item.fabric, item.traffic).total_s
        found = program_s(name, operation, one, size)[0]
        if name != "double_binary_tree":
            assert isclose(found, expected, rel_tol=1e-9), (operation, members)
        wider = 1 + one.far.bandwidth_bytes_per_s / one.near.bandwidth_bytes_per_s
        assert expected * (1 - 1e-9) <= found <= expected * wider


def test_a_column_of_bandwidths_has_the_seconds_of_each():
    """As where a bandwidth is varied, some make the near links the limit and some the far ones."""
    names = [("ring", "all_reduce"), ("direct", "all_to_all"), ("hierarchical", "all_reduce"), ("tree", "all_reduce")]
    near, far = rates(BOX, "own")
    speeds = np.array([1e9, 30e9, 50e9, 90e9, 450e9, 1e12])
    count = np.full(len(speeds), 16)
    both = group_of(count, count // 8, near, replace(far, bandwidth_bytes_per_s=speeds))
    sizes = np.array([1.0, 2.0]) * 1e6
    for name, operation in names:
        together = program_s(name, operation, both.beside(), sizes)
        for row, speed in enumerate(speeds.tolist()):
            alone = group_of(count[:1], count[:1] // 8, near, replace(far, bandwidth_bytes_per_s=speed))
            assert (together[row] == program_s(name, operation, alone.beside(), sizes)[0]).all()


def test_a_ring_over_boxes_uses_the_nics_of_all_its_members():
    """8 of 16 ranks in each box: 8 NICs of 50 GB/s carry a block, 400 GB/s against the 450 of the link inside."""
    assert isclose(program_s("ring", "all_reduce", group(16, nodes=2), 16e9)[0], 30 * (3.76e-6 + 1e9 / 400e9))
    lone = program_s("ring", "all_reduce", group(2, nodes=2), 16e9)[0]
    assert isclose(lone, 2 * (3.76e-6 + 8e9 / 50e9))


@pytest.mark.parametrize(("ranks", "boxes"), [(16, 2), (12, 3), (24, 3)])
def test_nodes_of_an_algorithm_are_boxes_wherever_its_bytes_are_counted(ranks, boxes):
    # by hand: rings of all boxes along the rails, each of a part of the message, send 2 (b - 1) / b of it out of a box
    for name in ("hierarchical", "two_dimensional"):
        assert program_size("all_reduce", name, ranks, boxes).box_bytes_per_byte == pytest.approx(2 - 2 / boxes)
    assert program_size("all_reduce", "hierarchical", 10, 3).box_bytes_per_byte > 0  # boxes of 4, 3 and 3


def test_what_links_reach_of_their_bandwidth_is_a_part_of_both():
    system = read_system("hgx-h100 x2")
    for whole, half in zip(rates(system, "own"), rates(system, "own", 0.5), strict=True):
        assert half.bandwidth_bytes_per_s == whole.bandwidth_bytes_per_s / 2
        assert half.latency_s == whole.latency_s


def test_a_hierarchical_all_reduce_sends_an_eighth_between_boxes():
    """Two boxes of 8: 14 rounds inside, 2 between, each of which carries half of a rank's eighth."""
    found = coefficients(COLLECTIVES.module("hierarchical"), "all_reduce", group(16, nodes=2))
    assert (found.near_rounds.tolist(), found.far_rounds.tolist()) == ([14], [2])
    assert found.far_pieces[0] / found.message_pieces[0] == 2 / 16
    assert found.near_pieces[0] / found.message_pieces[0] == 14 / 8
    assert found.launches.tolist() == [3]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 8, 12])
def test_ring_is_the_rounds_and_bytes_of_the_chapter(ranks):
    found = coefficients(COLLECTIVES.module("ring"), "all_reduce", group(ranks))
    assert found.rounds.tolist() == [2 * (ranks - 1)]
    assert found.port_pieces[0] / found.message_pieces[0] == 2 * (ranks - 1) / ranks


@pytest.mark.parametrize("power", [0, 1, 2, 3, 4, 10])
def test_tree_is_the_rounds_and_bytes_of_the_chapter(power):
    found = coefficients(COLLECTIVES.module("tree"), "all_reduce", group(2**power))
    assert found.rounds.tolist() == [2 * power]
    assert found.port_pieces[0] == 2 * power * found.message_pieces[0]


def test_a_table_of_many_groups_is_that_of_each():
    many = np.arange(1, 40)
    boxes = np.minimum(many, 1 + many % 5)
    together = program_s("ring", "all_gather", group_of(many, boxes, *rates(BOX, "own")), 1e6)
    alone = [program_s("ring", "all_gather", group(n, nodes=b), 1e6)[0] for n, b in zip(many, boxes, strict=True)]
    assert together.tolist() == alone


@pytest.mark.parametrize("ranks", [3, 5, 6, 7, 12, 24])
def test_tree_refuses_what_is_no_power_of_two_and_auto_goes_round_it(ranks):
    refused = all_reduce("tree", group(ranks), 1000, BOX)
    assert np.isnan(refused.seconds[0])
    assert all_reduce("auto", group(ranks), 1000, BOX).algorithm[0] == "ring"


@given(ranks=st.lists(st.integers(1, 64), min_size=1, max_size=6), size=SIZES, names=st.sets(NAMES, min_size=1))
def test_auto_is_the_fastest_of_the_systems_algorithms(ranks, size, names):
    system = replace(BOX, all_reduce_algorithms=("ring", *names))
    chosen = all_reduce("auto", group(*ranks), size, system)
    each = {name: all_reduce(name, group(*ranks), size, system) for name in system.all_reduce_algorithms}
    assert (chosen.seconds == np.nanmin([item.seconds for item in each.values()], axis=0)).all()
    for row in range(len(ranks)):
        named = each[chosen.algorithm[row]]
        assert named.seconds[row] == chosen.seconds[row]
        assert named.rounds[row] == chosen.rounds[row]


@given(ranks=st.integers(2, 64), size=SIZES)
def test_seconds_are_start_up_and_transfer(ranks, size):
    whole = rounds_s(2, ALPHA, float(size), ranks, 2, BANDWIDTH)
    assert whole == start_up_s(2, ALPHA) + transfer_s(float(size), ranks, 2, BANDWIDTH)
    assert send_s(float(size), ALPHA, BANDWIDTH) == ALPHA + size / BANDWIDTH


def test_tree_gives_way_to_ring_at_680_kib_on_8_h100():
    """M* = 8 alpha B / 4.25 = 696,282 B. Chapter "Supernodes", section 6.4.2."""
    crossover = 8 * ALPHA * BANDWIDTH / 4.25
    assert round(crossover) == 696_282
    below, above = (all_reduce("auto", group(8), int(crossover) + step, BOX) for step in (-10, 10))
    assert (below.algorithm[0], above.algorithm[0]) == ("tree", "ring")


def test_the_chapters_times_of_8_cards():
    ten_kib = {name: float(all_reduce(name, group(8), 10240, BOX).seconds[0]) for name in ("ring", "tree")}
    assert isclose(ten_kib["ring"], 11.55e-6, rel_tol=1e-3)
    assert isclose(ten_kib["tree"], 5.07e-6, rel_tol=1e-3)


def test_measured_takes_the_next_archived_size_up_and_falls_back_to_auto():
    sixteen = group_of(np.array([16, 16, 4]), np.array([2, 2, 1]), *rates(BOX, "own"))
    found = all_reduce("measured", sixteen, 10240, BOX)
    assert found.seconds[:2].tolist() == [32.74e-6, 32.74e-6]
    assert [found.algorithm[row] for row in range(3)] == ["measured", "measured", "tree"]
    assert [str(found.basis[row]) for row in range(3)] == ["measured", "measured", "formula"]
    assert found.rounds.tolist() == [0, 0, 4]
    assert found.measured[0].size == 16384
    assert found.measured[2] is None


@pytest.mark.parametrize(
    ("operation", "factor"),
    [
        *[("all_reduce", 1.875), ("all_gather", 0.9375), ("reduce_scatter", 0.9375), ("all_to_all", 0.9375)],
        *[("broadcast", 1.0), ("reduce", 1.0), ("send_recv", 1.0)],
    ],
)
def test_busbw_of_16_ranks_is_algbw_by_the_factor_of_nccl_tests(operation, factor):
    """Source: nccl-tests, doc/PERFORMANCE.md; 64 MiB in 466.1 us, chapter "Supernodes", section 6.4.3."""
    found = algorithm_bandwidth(operation, 16, 64 * 2**20, 466.1e-6)
    assert found.busbw_factor == factor
    assert isclose(found.algbw_bytes_per_s, 143.98e9, rel_tol=1e-4)
    assert found.busbw_bytes_per_s == found.algbw_bytes_per_s * factor


def test_busbw_of_no_operation_or_no_ranks_is_refused():
    with pytest.raises(CollectiveError, match="COL017"):
        busbw_factor("all_reduces", 4)
    with pytest.raises(CollectiveError, match="COL017"):
        busbw_factor("all_reduce", 0)


def test_a_large_ring_has_the_bandwidth_of_its_links_as_busbw():
    seconds = program_s("ring", "all_reduce", lone_group(8, 0.0, 450e9), 8e9)[0]
    assert isclose(algorithm_bandwidth("all_reduce", 8, 8 * 10**9, seconds).busbw_bytes_per_s, 450e9)


def test_an_unknown_algorithm_is_refused_with_the_nearest_names():
    with pytest.raises(CollectiveError, match="COL001") as caught:
        check_choice("rnig")
    assert "ring" in caught.value.fix
    with pytest.raises(CollectiveError, match="COL001"):
        all_reduce("rnig", group(2), 1, BOX)
