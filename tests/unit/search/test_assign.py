import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.base.errors import LayoutError
from meshwright.search.assign import METHODS, assign, hot_copies, least_bound


def by_force(loads, bins):
    """The least load of the fullest bin over every way to fill bins alike."""
    size, best = len(loads) // bins, [sum(loads)]

    def place(item, held, room):
        if max(held) >= best[0]:
            return
        if item == len(loads):
            best[0] = max(held)
            return
        for each in range(bins):
            if room[each]:
                held[each] += loads[item]
                room[each] -= 1
                place(item + 1, held, room)
                held[each] -= loads[item]
                room[each] += 1

    place(0, [0] * bins, [size] * bins)
    return best[0]


def problems():
    return st.tuples(st.integers(1, 3), st.integers(1, 3)).flatmap(
        lambda shape: st.tuples(
            st.lists(st.integers(0, 40), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]), st.just(shape[0])
        )
    )


@pytest.mark.parametrize(
    ("loads", "bins", "bound"),
    [
        pytest.param([5, 5, 5, 5], 2, 10, id="the mean"),
        pytest.param([20, 1, 2, 3], 2, 21, id="the largest with the smallest"),
        pytest.param([10, 10, 10, 0], 2, 20, id="two of the three largest share a bin"),
        pytest.param([9, 9, 9, 9, 9, 0, 0, 0, 0], 3, 18, id="of four large ones two do, and so of five"),
    ],
)
def test_the_bound_is_the_mean_or_what_the_largest_items_force_on_one_bin(loads, bins, bound):
    assert least_bound(np.array(loads), bins) == bound == by_force(loads, bins)


@settings(max_examples=25, deadline=None)
@given(problem=problems())
def test_an_exact_placement_is_the_best_of_all(problem):
    loads, bins = np.array(problem[0]), problem[1]
    best = max(by_force(problem[0], bins), 0)
    found = assign(loads, bins, "exact")
    assert found.most == best
    assert found.proven


@settings(max_examples=60, deadline=None)
@given(problem=problems())
def test_no_placement_is_below_the_bound_nor_greedy_above_round_robin(problem):
    loads, bins = np.array(problem[0]), problem[1]
    found = {method: assign(loads, bins, method) for method in METHODS}
    assert least_bound(loads, bins) <= by_force(problem[0], bins)
    for each in found.values():
        assert each.bound <= each.most
        assert each.loads.sum() == loads.sum()
        assert np.bincount(each.bin, minlength=bins).tolist() == [len(loads) // bins] * bins
        assert each.loads.tolist() == [int(loads[each.bin == place].sum()) for place in range(bins)]
    assert found["exact"].most <= found["greedy"].most
    assert found["greedy"].most <= min(found["round_robin"].most, found["contiguous"].most)


@pytest.mark.parametrize("exponent", [0.3, 0.8, 1.2])
def test_many_experts_are_placed_at_the_bound(exponent):
    weights = (np.arange(256) + 1.0) ** -exponent
    loads = np.random.default_rng(0).multinomial(32768, weights / weights.sum())
    found = assign(loads, 32, "greedy")
    assert found.proven
    assert found.most < assign(loads, 32, "round_robin").most


def test_what_greedy_cannot_prove_the_solver_does():
    """Found by trying: the mean is 100, the best is 101, and swaps stop at 103."""
    loads = np.array([30, 48, 36, 31, 27, 27, 46, 13, 40])
    greedy, exact = assign(loads, 3, "greedy"), assign(loads, 3, "exact")
    assert (greedy.most, greedy.bound, greedy.proven) == (103, 100, False)
    assert (exact.most, exact.bound, exact.proven) == (101, 101, True)


def test_the_solver_says_nothing_of_itself(capfd):
    assign(np.array([44, 3, 46, 26, 17, 33]), 2, "exact")
    assert capfd.readouterr() == ("", "")


def test_copies_go_to_what_is_hottest_a_copy():
    assert hot_copies(np.array([10, 4, 9, 1]), 3).tolist() == [3, 1, 2, 1]
    assert hot_copies(np.array([5, 5]), 0).tolist() == [1, 1]


def test_unlike_bins_and_unknown_methods_are_refused():
    with pytest.raises(LayoutError, match="LAY040"):
        assign(np.arange(5), 2, "greedy")
    with pytest.raises(LayoutError, match="LAY041"):
        assign(np.arange(4), 2, "best")


def test_without_its_package_an_exact_placement_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "highspy", None)
    with pytest.raises(LayoutError, match="LAY042"):
        assign(np.array([30, 48, 36, 31, 27, 27, 46, 13, 40]), 3, "exact")
