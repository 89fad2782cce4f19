"""How do slices of a context become one attention? (m, l, u) of every slice go in; the merged output comes out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from meshwright.workload.softmax_merge import merged, mixed, slices_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """One number a slice, of one head and one column of its values.

    maxima (m): its largest score; -inf for a slice without positions.   sums (l): of exp(score - maximum).   vectors
    (u): of the values, weighted so.
    """

    maxima: tuple[float, ...]
    sums: tuple[float, ...]
    vectors: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """maximum, sum, vector: of all slices together.   output: vector / sum, what one softmax over all gives."""

    maximum: float
    sum: float
    vector: float
    output: float


def merge_slices(slices: Slices) -> Merge:
    """The slices merged in their order; any other order and grouping gives the same.

    The mean of their own outputs u / l is another number: slices weigh as much as their sums, scaled to one maximum.
    Raises JOB132 (lists of different lengths, no position, sums that no slice has). Source: chapter "Supernodes",
    section 6.2.4.
    """
    parts = slices_of(slices.maxima, slices.sums, slices.vectors)
    whole = reduce(merged, parts)
    return Merge(
        maximum=float(whole.maxima[0]),
        sum=float(whole.sums[0]),
        vector=float(whole.vectors[0, 0]),
        output=float(mixed(parts)[0, 0]),
    )
