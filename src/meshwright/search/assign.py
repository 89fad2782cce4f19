"""Loads of items and a number of bins go in; which bin holds which item comes out, and how far from the best it can be.

Every bin takes the same number of items, as ranks take experts: their memory is alike. What is sought is the least load
of the fullest bin. `greedy` takes the largest items first and then swaps pairs while that helps, and is never worse
than the two that know no loads; `exact` asks HiGHS for what `greedy` does not prove, as far as its search goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

import numpy as np

from meshwright.base.errors import LayoutError, suggest
from meshwright.search.milp import fill

if TYPE_CHECKING:
    from meshwright.base.numbers import Bools, Ints

Method: TypeAlias = Literal["contiguous", "round_robin", "greedy", "exact"]
METHODS: Final = get_args(Method)
_MOST_VARIABLES: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Assignment:
    """bin: of each item.   loads: of each bin.   bound: what no assignment has less than in its fullest bin."""

    bin: Ints
    loads: Ints
    bound: int

    @property
    def most(self) -> int:
        """The load of the fullest bin."""
        return int(self.loads.max())

    @property
    def proven(self) -> bool:
        """Whether nothing is better."""
        return self.most == self.bound


def assign(loads: Ints, bins: int, method: str) -> Assignment:
    """Items with whole loads over bins, the same number in each.

    Raises LAY040 (items that do not fill bins alike), LAY041 (a method that is none), LAY042 (the extra `solver` is not
    installed).
    """
    if len(loads) % bins:
        cause = f"{len(loads)} experts and copies over {bins} ranks: not as many on each"
        raise LayoutError(40, cause, f"give {-len(loads) % bins} more copies, or {len(loads) % bins} fewer")
    if method not in METHODS:
        raise LayoutError(41, f"--placement {method}: no placement of that name", suggest(method, METHODS))
    size, place = len(loads) // bins, np.arange(len(loads))
    if method == "contiguous":
        return _found(place // size, loads, bins)
    if method == "round_robin":
        return _found(place % bins, loads, bins)
    starts = (_swapped(place % bins, loads, bins), _swapped(_largest_first(loads, bins), loads, bins))
    greedy = min(*starts, _found(place // size, loads, bins), key=lambda item: item.most)
    return greedy if method == "greedy" or greedy.proven else _solved(greedy, loads, bins)


def least_bound(loads: Ints, bins: int) -> int:
    """What the fullest bin has at least: the mean, and its share of the items with the largest of them.

    The largest item stands with the smallest size - 1 others at best. Of the bins x j + 1 largest items some bin has
    j + 1 or more, and fills up with the smallest.
    """
    size = len(loads) // bins
    ordered = np.sort(loads)[::-1]
    bound = -(-int(loads.sum()) // bins)
    for many in range(size):
        crowded = ordered[many * bins - many : many * bins + 1] if many else ordered[:1]
        rest = ordered[len(ordered) - (size - len(crowded)) :] if size > len(crowded) else ordered[:0]
        bound = max(bound, int(crowded.sum() + rest.sum()))
    return bound


def hot_copies(loads: Ints, more: int) -> Ints:
    """How many copies each item has when `more` are added: each to the one whose copies have most, the first of equals.

    No other choice has a smaller largest copy.
    """
    copies = np.ones(len(loads), dtype=np.int64)
    for _ in range(more):
        copies[np.argmax(loads / copies)] += 1
    return copies


def _found(bin_of: Ints, loads: Ints, bins: int, bound: int | None = None) -> Assignment:
    held = np.bincount(bin_of, weights=loads, minlength=bins).astype(np.int64)
    return Assignment(bin=bin_of, loads=held, bound=least_bound(loads, bins) if bound is None else bound)


def _largest_first(loads: Ints, bins: int) -> Ints:
    """Each item in turn, the largest first, to the emptiest bin that has room."""
    size = len(loads) // bins
    held, room = np.zeros(bins, dtype=np.int64), np.full(bins, size)
    bin_of = np.zeros(len(loads), dtype=np.int64)
    for item in np.argsort(-loads, kind="stable").tolist():
        chosen = int(np.argmin(np.where(room > 0, held, np.iinfo(np.int64).max)))
        bin_of[item] = chosen
        held[chosen] += loads[item]
        room[chosen] -= 1
    return bin_of


def _swapped(start: Ints, loads: Ints, bins: int) -> Assignment:
    """While an item of a fullest bin and one of another bin, exchanged, leave both below it: the best such pair."""
    bin_of = start.copy()
    found = _found(bin_of, loads, bins)
    held = found.loads.copy()
    while held.max() > found.bound:
        full = int(np.argmax(held))
        own, other = (_different(places, bin_of, loads) for places in (bin_of == full, bin_of != full))
        moved = loads[own][:, None] - loads[other]
        after = np.maximum(held[full] - moved, held[bin_of[other]] + moved)
        best = int(np.argmin(after))
        if after.flat[best] >= held[full]:
            break
        one, two = own[best // len(other)], other[best % len(other)]
        step = loads[one] - loads[two]
        held[full] -= step
        held[bin_of[two]] += step
        bin_of[one], bin_of[two] = bin_of[two], full
    return _found(bin_of, loads, bins, found.bound)


def _different(places: Bools, bin_of: Ints, loads: Ints) -> Ints:
    """The first of the items of equal load in one bin, in their order: exchanged, all of them are alike."""
    items = np.flatnonzero(places)
    _, first = np.unique(np.stack([bin_of[items], loads[items]]), axis=1, return_index=True)
    return items[np.sort(first)]


def _solved(start: Assignment, loads: Ints, bins: int) -> Assignment:
    """What HiGHS finds and proves from there."""
    if len(loads) * bins > _MOST_VARIABLES:
        return start
    found, proven = fill(loads, bins, start.bound, start.most)
    bound = max(start.bound, min(start.most, proven))
    better = start if found is None else _found(found, loads, bins, bound)
    return better if better.most < start.most else Assignment(bin=start.bin, loads=start.loads, bound=bound)
