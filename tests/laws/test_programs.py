"""Every registered program is run on counted contributions; laws that hold for all of them."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.base.errors import CollectiveError
from meshwright.cost.collectives import COLLECTIVES
from meshwright.scenarios.collective_trace import collective_owners, collective_trace
from meshwright.workload.channels import box_orders, in_channels
from meshwright.workload.execution import check_result, executed, places, rounds, start

RANKS = range(1, 18)
PAIRS = [(name, operation) for name in COLLECTIVES.names() for operation in COLLECTIVES.module(name).OPERATIONS]
OPERATIONS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce", "send_recv")
SHARE = {
    "all_reduce": lambda ranks: 2 * (ranks - 1) / ranks,
    **dict.fromkeys(("reduce_scatter", "all_gather", "all_to_all"), lambda ranks: (ranks - 1) / ranks),
    **dict.fromkeys(("broadcast", "reduce", "send_recv"), lambda ranks: 1),
}
"""Of the message what the busiest port carries at least, where no switch adds or copies."""


def permitted(name: str, operation: str, most: int = 17):
    module = COLLECTIVES.module(name)
    return [module.program(operation, ranks) for ranks in range(1, most + 1) if module.permits(operation, ranks)]


def ports(program):
    """Per round and participant the pieces that leave it and that come to it: [rounds, 2, participants]."""
    count = program.ranks + program.switches
    found = []
    for step in program.steps:
        sides = [np.bincount(side, weights=step.pieces, minlength=count) for side in (step.sender, step.receiver)]
        found += [np.stack(sides)] * step.times
    return np.array(found).reshape(-1, 2, count)


@pytest.mark.parametrize(("name", "operation"), PAIRS)
def test_a_program_leaves_what_its_operation_promises_each_contribution_once(name, operation):
    programs = permitted(name, operation)
    assert len(programs) >= 5
    for program in programs:
        assert (program.operation, program.steps != ()) == (operation, program.ranks > 1)
        check_result(program)


@pytest.mark.parametrize(("name", "operation"), PAIRS)
def test_a_count_that_an_algorithm_does_not_take_is_refused_by_code(name, operation):
    module = COLLECTIVES.module(name)
    for ranks in (-1, 0, *RANKS, 10**6 + 1):
        if not module.permits(operation, ranks):
            with pytest.raises(CollectiveError, match="COL002"):
                module.program(operation, ranks)


@pytest.mark.parametrize("name", COLLECTIVES.names())
def test_an_operation_that_an_algorithm_does_not_have_is_refused_with_those_that_it_has(name):
    module = COLLECTIVES.module(name)
    assert set(module.OPERATIONS) < set(OPERATIONS)
    for operation in sorted(set(OPERATIONS) - set(module.OPERATIONS)):
        assert not module.permits(operation, 4)
        with pytest.raises(CollectiveError, match="COL010") as caught:
            module.program(operation, 4)
        assert module.OPERATIONS[0] in caught.value.fix


def test_every_operation_has_a_program_and_the_named_algorithms_are_there():
    assert {operation for _, operation in PAIRS} == set(OPERATIONS)
    named = "ring bidirectional_ring tree double_binary_tree recursive_halving recursive_doubling rabenseifner bruck"
    named += " swing two_dimensional hierarchical direct in_switch torus_rings"
    assert set(named.split()) <= set(COLLECTIVES.names())


@pytest.mark.parametrize(("name", "operation"), PAIRS)
def test_no_program_beats_the_bounds_of_bandwidth_and_of_latency(name, operation):
    """A rank that hears from at most k others a round knows of (1 + k)^t ranks after t rounds."""
    for program in permitted(name, operation):
        if program.ranks == 1 or program.switches:
            continue
        loads = ports(program)
        assert (loads[:, 0].sum(axis=1) == loads[:, 1].sum(axis=1)).all()
        least = SHARE[operation](program.ranks) * program.message_pieces
        assert loads.sum(axis=0).max() >= least - 1e-9
        if operation == "send_recv":
            continue
        heard = max(int(np.bincount(step.receiver).max()) for step in program.steps)
        told = max(int(np.bincount(step.sender).max()) for step in program.steps)
        assert len(loads) >= ceil(log(program.ranks, 1 + max(heard, told)) - 1e-9)


@pytest.mark.parametrize(("name", "operation"), [pair for pair in PAIRS if pair[0] != "in_switch"])
def test_no_rank_is_sent_what_it_already_holds(name, operation):
    # a switch answers all ranks alike, the owner of a block too
    for program in permitted(name, operation):
        held = start(program)
        for each in rounds(program):
            copied = ~np.repeat(np.broadcast_to(np.asarray(each.step.reduce), each.step.sender.shape), each.step.pieces)
            sender, receiver, piece = (side[copied] for side in (each.sender, each.receiver, each.piece))
            assert (held[sender, piece] != held[receiver, piece]).any(axis=1).all(), (program.ranks, each.number)
            held = each.held


@pytest.mark.parametrize(("name", "operation"), PAIRS)
def test_a_program_under_other_numbers_of_its_ranks_does_the_same(name, operation):
    """Ranks renamed everywhere: in the sends, and in whom the pieces belong to."""
    for program in permitted(name, operation, 9):
        renamed = np.arange(program.ranks + program.switches)
        renamed[: program.ranks] = np.random.default_rng(program.ranks).permutation(program.ranks)
        origin, home = places(program)
        steps = tuple(
            replace(step, sender=renamed[step.sender], receiver=renamed[step.receiver]) for step in program.steps
        )
        check_result(replace(program, steps=steps, home=renamed[home], origin=renamed[origin]))


OPTIONS = [
    ("ring", "broadcast", 5, {"segments": 1}),
    ("ring", "reduce", 5, {"segments": 3}),
    ("double_binary_tree", "all_reduce", 7, {"segments": 1}),
    ("double_binary_tree", "all_reduce", 8, {"segments": 40}),
    ("in_switch", "all_reduce", 3, {"segments": 1}),
    ("in_switch", "reduce_scatter", 4, {"segments": 2}),
    ("two_dimensional", "all_reduce", 12, {"node_size": 6}),
    ("hierarchical", "all_reduce", 12, {"node_size": 4}),
    ("hierarchical", "all_gather", 12, {"node_size": 3}),
    ("hierarchical", "reduce_scatter", 12, {"node_size": 1}),
    ("torus_rings", "all_reduce", 12, {"extents": (3, 4)}),
    ("torus_rings", "reduce_scatter", 12, {"extents": (2, 1, 6)}),
    ("torus_rings", "all_gather", 16, {"extents": (2, 2, 2, 2)}),
]


@pytest.mark.parametrize(("name", "operation", "ranks", "options"), OPTIONS)
def test_an_option_changes_rounds_and_not_the_result(name, operation, ranks, options):
    module = COLLECTIVES.module(name)
    program = module.program(operation, ranks, **options)
    assert len(ports(program)) != len(ports(module.program(operation, ranks)))
    check_result(program)


REFUSED = [
    ("ring", "broadcast", {"segments": 0}, "COL011"),
    ("double_binary_tree", "all_reduce", {"segments": 10**6}, "COL011"),
    ("hierarchical", "all_reduce", {"node_size": 5}, "COL012"),
    ("two_dimensional", "all_gather", {"node_size": -1}, "COL012"),
    ("torus_rings", "all_reduce", {"extents": (3, 4)}, "COL013"),
    ("direct", "all_to_all", {"sizes": [[1, 2], [3, 4]]}, "COL014"),
    ("direct", "all_to_all", {"sizes": [[0] * 8] * 8}, "COL014"),
    ("direct", "all_to_all", {"sizes": [[-1] * 8] * 8}, "COL014"),
    ("direct", "all_to_all", {"sizes": [[1, 10**9, *[0] * 6]] * 8}, "COL014"),
]


@pytest.mark.parametrize(("name", "operation", "options", "code"), REFUSED)
def test_an_option_that_cannot_be_is_refused_by_code(name, operation, options, code):
    with pytest.raises(CollectiveError, match=code):
        COLLECTIVES.module(name).program(operation, 8, **options)


@pytest.mark.parametrize(
    ("operation", "node_size", "calls"),
    [("all_reduce", 4, 3), ("all_reduce", 12, 2), ("all_reduce", 1, 1), ("all_gather", 4, 2), ("all_gather", 12, 1)],
)
def test_a_hierarchy_of_one_dim_has_no_calls_for_the_other(operation, node_size, calls):
    assert COLLECTIVES.module("hierarchical").program(operation, 12, node_size=node_size).launches == calls


@given(
    rows=st.integers(2, 6).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, 5), min_size=n, max_size=n), min_size=n, max_size=n)
    )
)
def test_uneven_blocks_arrive_and_the_message_is_the_busiest_senders(rows):
    if not any(map(any, rows)):
        return
    ranks = len(rows)
    program = COLLECTIVES.module("direct").program(
        "all_to_all", ranks, sizes=[[size * 4096 for size in row] for row in rows]
    )
    check_result(program)
    sizes = np.array(rows)
    unit = int(np.gcd.reduce(sizes.reshape(-1)))
    assert program.message_pieces * unit == sizes.sum(axis=1).max()
    left = ports(program).sum(axis=0)[0] if program.steps else np.zeros(ranks)
    assert (left * unit == sizes.sum(axis=1) - np.diag(sizes)).all()


def broken(change):
    """A ring all_reduce over 4 ranks whose first step is another."""
    program = COLLECTIVES.module("ring").program("all_reduce", 4)
    return replace(program, steps=(change(program.steps[0]), *program.steps[1:]))


CHANGES = {
    "a round is left out": lambda step: replace(step, times=2),
    "a round runs twice": lambda step: replace(step, times=4, carried=lambda turn: step.carried(max(turn - 1, 0))),
    "sums are replaced": lambda step: replace(step, reduce=False),
    "another block": lambda step: replace(step, carried=lambda turn: (step.carried(turn) + turn) % 4),
    "too many pieces": lambda step: replace(step, pieces=step.pieces + 1),
    "to oneself": lambda step: replace(step, receiver=step.sender),
    "to nobody": lambda step: replace(step, receiver=step.receiver + 1),
    "no sends": lambda step: replace(step, sender=step.sender[:0], receiver=step.sender[:0], pieces=step.sender[:0]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_wrong_program_is_found(change):
    check_result(broken(lambda step: step))
    with pytest.raises(CollectiveError, match="COL015"):
        check_result(broken(change))


def test_a_read_of_what_is_not_there_and_two_results_for_one_piece_are_found():
    gather = COLLECTIVES.module("ring").program("all_gather", 4)
    step = gather.steps[0]
    early = replace(gather, steps=(replace(step, carried=lambda turn: step.carried(turn + 1)),))
    with pytest.raises(CollectiveError, match="does not hold it"):
        executed(early)
    twice = replace(
        step,
        sender=np.tile(step.sender, 2),
        receiver=np.tile(step.receiver, 2),
        pieces=np.tile(step.pieces, 2),
        carried=lambda turn: np.tile(step.carried(turn), 2),
    )
    with pytest.raises(CollectiveError, match="two results"):
        executed(replace(gather, steps=(twice,)))


def test_the_chapters_ring_on_numbers():
    """1, 10, 100, 1000 on block 0: 11, 111, 1111 on cards 1, 2, 3; card r owns block r + 1. Supernodes, 6.4.2."""
    found = collective_trace("ring", "reduce_scatter", (1, 10, 100, 1000), 0)
    assert [(item.rank, item.value) for item in found.arrivals] == [(1, 11), (2, 111), (3, 1111)]
    assert (found.rounds, found.ranks) == (3, 4)
    assert collective_owners("ring", "reduce_scatter", 4).blocks == (1, 2, 3, 0)


def test_a_trace_of_an_all_reduce_brings_the_sum_to_all():
    found = collective_trace("recursive_doubling", "all_reduce", (1, 2, 3, 4, 5), 0)
    last = {item.rank: item.value for item in found.arrivals}
    assert last == dict.fromkeys(range(5), 15)
    assert collective_owners("tree", "reduce", 4).pieces == ((0,), (), (), ())
    assert collective_owners("tree", "reduce", 4).blocks == ()
    for numbers, piece in (((1,) * 65, 0), ((1, 2), 2), ((1, 2), -1)):
        with pytest.raises(CollectiveError, match="COL016"):
            collective_trace("ring", "all_reduce", numbers, piece)
    with pytest.raises(CollectiveError, match="COL016"):
        collective_owners("ring", "all_reduce", 65)


def test_a_ring_sends_block_r_minus_t_and_rounds_are_columns():
    program = COLLECTIVES.module("ring").program("reduce_scatter", 16_384)
    assert len(program.steps) == 1
    assert program.steps[0].times == 16_383
    assert (program.steps[0].carried(3) == (np.arange(16_384) - 3) % 16_384).all()


def test_partners_of_swing_and_of_recursive_halving_are_the_chapters():
    """16 cards, 8 MiB: rounds of 4, 2, 1 MiB; distances 1, 2, 4 and 1, -1, 3. Supernodes, 6.5.1."""
    for name, distances in (("recursive_halving", [1, 2, 4, 8]), ("swing", [1, -1, 3, -5])):
        steps = COLLECTIVES.module(name).program("reduce_scatter", 16).steps
        assert [int(step.receiver[0] - step.sender[0]) for step in steps] == [d % 16 for d in distances]
        assert [int(step.pieces[0]) for step in steps] == [8, 4, 2, 1]


def test_rounds_are_numbered_through_all_steps():
    found = [each.number for each in rounds(COLLECTIVES.module("tree").program("all_reduce", 8))]
    assert found == list(range(6))


@pytest.mark.parametrize("name", ["ring", "bidirectional_ring", "tree", "double_binary_tree"])
@pytest.mark.parametrize(("ranks", "in_box"), [(4, 2), (6, 2), (6, 3), (8, 4), (16, 4)])
def test_channels_in_other_orders_of_ranks_leave_the_same_result(name, ranks, in_box):
    module = COLLECTIVES.module(name)
    for operation in ("all_reduce", "reduce_scatter", "all_gather"):
        if operation in module.OPERATIONS and module.permits(operation, ranks):
            program = in_channels(module.program(operation, ranks), box_orders(ranks, in_box))
            check_result(program)
            assert program.message_pieces == in_box * module.program(operation, ranks).message_pieces


def test_channels_leave_and_enter_boxes_on_every_nic_once_and_on_one_rail():
    module = COLLECTIVES.module("ring")
    step = in_channels(module.program("all_gather", 16), box_orders(16, 4)).steps[0]
    leaves = step.sender // 4 != step.receiver // 4
    out, back = step.sender[leaves], step.receiver[leaves]
    assert sorted(out.tolist()) == sorted(back.tolist()) == list(range(16))
    assert (out % 4 == back % 4).all()
