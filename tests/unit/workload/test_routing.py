from itertools import permutations

import numpy as np
import pytest

from meshwright.job.routing import Routing, read_routing
from meshwright.workload.feed_forward import distinct_experts, found_by
from meshwright.workload.routing import batch, inclusion, is_drawn


def by_enumeration(experts, top_k, exponent):
    """Every order in which a token can draw its experts."""
    weights = (np.arange(experts) + 1.0) ** -exponent
    found = np.zeros(experts)
    for order in permutations(range(experts), top_k):
        left, chance = weights.sum(), 1.0
        for expert in order:
            chance *= weights[expert] / left
            left -= weights[expert]
        found[list(order)] += chance
    return found


@pytest.mark.parametrize(
    ("experts", "top_k", "exponent"), [(5, 2, 1.2), (6, 3, 2.0), (7, 1, 0.5), (4, 4, 1.0), (6, 5, 4.0)]
)
def test_the_inclusion_of_draws_in_turn_is_that_of_every_order(experts, top_k, exponent):
    found = inclusion(read_routing(f"zipf:{exponent}"), 0, experts, top_k)
    assert found == pytest.approx(by_enumeration(experts, top_k, exponent), abs=1e-11)


@pytest.mark.parametrize("text", ["uniform", "even", "zipf:0", "zipf:1.2", "counts:128x1", "counts:64x3,64x1"])
def test_a_token_chooses_as_many_as_it_chooses(text):
    found = inclusion(read_routing(text), 0, 128, 8)
    assert found.sum() == pytest.approx(8)
    assert (found <= 1).all()


def test_the_expected_distinct_experts_of_unequal_choices_are_equation_6_8_where_they_are_equal():
    likely = inclusion(read_routing("uniform"), 0, 128, 8)
    assert found_by(likely, 64).sum() == pytest.approx(distinct_experts(128, 8, 64), rel=1e-12)
    assert found_by(inclusion(read_routing("zipf:1"), 0, 128, 8), 64).sum() < distinct_experts(128, 8, 64)


@pytest.mark.parametrize("text", ["uniform", "even", "zipf:1.2", "counts:8x3,24x1"])
def test_a_token_never_chooses_one_expert_twice(text):
    found = batch(read_routing(text), 0, 32, 6, 500, seed=3)
    assert found.shape == (500, 6)
    assert all(len(set(row)) == 6 for row in found.tolist())


@pytest.mark.parametrize("text", ["uniform", "zipf:1.2", "counts:8x3,24x1"])
def test_a_drawn_batch_has_the_inclusion_it_is_drawn_from(text):
    routing = read_routing(text)
    found = np.bincount(batch(routing, 0, 32, 4, 40_000, seed=1).reshape(-1), minlength=32) / 40_000
    assert found == pytest.approx(inclusion(routing, 0, 32, 4), abs=0.012)
    assert is_drawn(routing, 40_000, 4)


def test_a_drawn_batch_is_the_same_for_a_seed_and_another_in_another_layer():
    routing = read_routing("zipf:1")
    first = batch(routing, 0, 16, 2, 50, seed=0)
    assert (first == batch(routing, 0, 16, 2, 50, seed=0)).all()
    assert (first != batch(routing, 1, 16, 2, 50, seed=0)).any()
    assert (first != batch(routing, 0, 16, 2, 50, seed=1)).any()


def test_each_layer_of_a_recording_has_its_own_choices():
    routing = Routing(law="trace", choices=np.array([[[0, 1]], [[2, 3]]]), layers=(0, 1))
    assert [batch(routing, place, 4, 2, 1, seed=0).tolist() for place in (0, 1)] == [[[0, 1]], [[2, 3]]]
    assert [inclusion(routing, place, 4, 2).tolist() for place in (0, 1)] == [[1, 1, 0, 0], [0, 0, 1, 1]]


def test_counts_are_drawn_where_those_of_one_layer_are_no_whole_rows():
    whole, uneven = (2.0, 2.0, 2.0, 2.0), (3.0, 2.0, 2.0, 1.5)
    assert not is_drawn(Routing(law="counts", counts=(whole, whole)), 4, 2)
    assert is_drawn(Routing(law="counts", counts=(whole, uneven)), 4, 2)


def test_counts_bring_any_two_experts_together():
    """Neighbours of one order alone would never meet: each token has an order of its own."""
    found = batch(Routing(law="counts", counts=((1.0,) * 4,)), 0, 4, 2, 401, seed=0)
    assert {tuple(sorted(row)) for row in found.tolist()} == {(a, b) for b in range(4) for a in range(b)}


class _Latest:
    """A generator that shuffles nothing and draws the largest number below one."""

    def permuted(self, order, axis):
        del axis
        return order

    def random(self, shape):
        return np.full(shape, np.nextafter(1.0, 0.0))


@pytest.mark.parametrize("top_k", [1, 3, 8])
def test_the_largest_number_that_can_be_drawn_still_finds_an_expert(monkeypatch, top_k):
    monkeypatch.setattr("numpy.random.default_rng", lambda _: _Latest())
    found = batch(Routing(law="counts", counts=((0.1,) * 10,)), 0, 10, top_k, 3, seed=0)
    assert found[:, -1].tolist() == [9] * 3


def test_counts_of_the_whole_batch_are_dealt_exactly():
    routing = read_routing("counts:64x768,64x256")
    found = np.bincount(batch(routing, 0, 128, 8, 8192, seed=0).reshape(-1))
    assert found.tolist() == [768] * 64 + [256] * 64
    assert not is_drawn(routing, 8192, 8)


def test_an_even_batch_has_no_expert_one_row_ahead_of_another():
    rows = np.bincount(batch(read_routing("even"), 0, 12, 5, 7, seed=0).reshape(-1), minlength=12)
    assert rows.max() - rows.min() <= 1
