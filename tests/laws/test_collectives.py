"""Every registered collective against a run of it, and the choice between them."""

from __future__ import annotations

from math import isclose

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.base.errors import CollectiveError
from meshwright.cost.collectives import (
    COLLECTIVES,
    Group,
    algorithms,
    all_reduce,
    check_choice,
    rounds_s,
    send_s,
    start_up_s,
    transfer_s,
)
from meshwright.system.system import read_system
from meshwright.workload.collectives import ring, tree

BOX = read_system("hgx-h100 x2")

ALPHA, BANDWIDTH = 0.822e-6, 450e9
SIZES = st.integers(1, 2**32)


def group(*ranks: int) -> Group:
    """Groups in one box of 8 H100."""
    count = len(ranks)
    return Group(
        ranks=np.array(ranks, dtype=np.int64),
        nodes=np.ones(count, dtype=np.int64),
        latency_s=np.full(count, ALPHA),
        bandwidth_bytes_per_s=np.full(count, BANDWIDTH),
    )


def run_ring(ranks: int) -> tuple[int, list[float]]:
    """Chapter "Supernodes", section 6.4.2: rounds run, and the largest share of a message any rank sent in each."""
    held = np.add.outer(10.0 ** np.arange(ranks), np.zeros(ranks))
    sent: list[float] = []
    for phase in range(2):
        for turn in range(ranks - 1):
            before = held.copy()
            for rank in range(ranks):
                block = (rank - turn + phase) % ranks
                target = (rank + 1) % ranks
                held[target, block] = before[rank, block] + (before[target, block] if phase == 0 else 0)
            sent.append(1 / ranks)
    assert (held == (10.0 ** np.arange(ranks)).sum()).all()
    return len(sent), sent


def run_tree(ranks: int) -> tuple[int, list[float]]:
    """Binomial reduce to rank 0, then broadcast from it: whole messages."""
    held = 10.0 ** np.arange(ranks)
    total, sent = held.sum(), []
    steps = [2**power for power in range(ranks.bit_length() - 1)]
    for step in steps:
        for rank in range(step, ranks, 2 * step):
            held[rank - step] += held[rank]
        sent.append(1.0)
    for step in reversed(steps):
        for rank in range(0, ranks, 2 * step):
            held[rank + step] = held[rank]
        sent.append(1.0)
    assert (held == total).all()
    return len(sent), sent


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 8, 12])
def test_ring_is_the_rounds_and_bytes_of_a_run(ranks):
    rounds, sent = run_ring(ranks)
    assert int(ring.rounds(np.array([ranks]))[0]) == rounds
    assert all(isclose(share, float(ring.round_bytes(np.array([ranks]), 1.0)[0])) for share in sent)


@pytest.mark.parametrize("ranks", [1, 2, 4, 8, 16])
def test_tree_is_the_rounds_and_bytes_of_a_run(ranks):
    rounds, sent = run_tree(ranks)
    assert int(tree.rounds(np.array([ranks]))[0]) == rounds
    assert all(share == float(tree.round_bytes(np.array([ranks]), 1.0)[0]) for share in sent)


def test_ring_leaves_the_chapters_sums_on_card_3():
    """1, 10, 100, 1000 on four cards: 11, 111, 1111 pass by; 6 rounds in all."""
    assert run_ring(4)[0] == 6


@given(power=st.integers(0, 20))
def test_tree_counts_rounds_exactly_for_every_power_of_two(power):
    assert int(tree.rounds(np.array([2**power]))[0]) == 2 * power


@pytest.mark.parametrize("ranks", [3, 5, 6, 7, 12, 24])
def test_tree_refuses_what_is_no_power_of_two_and_auto_goes_round_it(ranks):
    refused = all_reduce("tree", group(ranks), 1000, BOX)
    assert np.isnan(refused.seconds[0])
    assert all_reduce("auto", group(ranks), 1000, BOX).algorithm[0] == "ring"


@given(ranks=st.lists(st.integers(1, 64), min_size=1, max_size=6), size=SIZES)
def test_auto_is_the_fastest_registered_algorithm(ranks, size):
    chosen = all_reduce("auto", group(*ranks), size, BOX)
    each = {name: all_reduce(name, group(*ranks), size, BOX) for name in algorithms("all_reduce")}
    assert (chosen.seconds == np.nanmin([item.seconds for item in each.values()], axis=0)).all()
    for row in range(len(ranks)):
        named = each[chosen.algorithm[row]]
        assert named.seconds[row] == chosen.seconds[row]
        assert named.rounds[row] == chosen.rounds[row]


@given(ranks=st.integers(2, 64), size=SIZES)
def test_seconds_are_start_up_and_transfer(ranks, size):
    whole = rounds_s(ranks, ALPHA, float(size), BANDWIDTH)
    assert whole == start_up_s(ranks, ALPHA) + transfer_s(ranks, float(size), BANDWIDTH)
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
    sixteen = Group(
        ranks=np.array([16, 16, 4]),
        nodes=np.array([2, 2, 1]),
        latency_s=np.full(3, 3.76e-6),
        bandwidth_bytes_per_s=np.full(3, 50e9),
    )
    found = all_reduce("measured", sixteen, 10240, BOX)
    assert found.seconds[:2].tolist() == [32.74e-6, 32.74e-6]
    assert [found.algorithm[row] for row in range(3)] == ["measured", "measured", "tree"]
    assert [str(found.basis[row]) for row in range(3)] == ["measured", "measured", "formula"]
    assert found.rounds.tolist() == [0, 0, 4]
    assert found.measured[0].size == 16384
    assert found.measured[2] is None


@pytest.mark.parametrize("name", COLLECTIVES.names())
def test_every_registered_collective_states_its_rounds(name):
    program = COLLECTIVES.module(name)
    assert isinstance(program.OPERATION, str)
    ranks = np.arange(1, 129)
    permitted = program.permits(ranks)
    assert permitted.dtype == np.bool_
    assert permitted[0]
    rounds, sent = program.rounds(ranks), program.round_bytes(ranks, 1024.0)
    assert rounds.dtype == np.int64
    assert rounds[0] == 0
    assert (np.diff(rounds[permitted]) >= 0).all()
    assert ((sent > 0) & (sent <= 1024.0)).all()
    several = permitted & (ranks > 1)
    if program.OPERATION == "all_reduce":
        # every rank must send what the others need at least once: 2 (n - 1) / n of the message is the bound
        assert (rounds * sent >= 1024.0 * 2 * (ranks - 1) / ranks - 1e-9)[several].all()


def test_an_unknown_algorithm_is_refused_with_the_nearest_names():
    with pytest.raises(CollectiveError, match="COL001") as caught:
        check_choice("rnig")
    assert "ring" in caught.value.fix
    with pytest.raises(CollectiveError, match="COL001"):
        all_reduce("rnig", group(2), 1, BOX)
