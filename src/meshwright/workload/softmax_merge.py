"""Scores and values of slices of a context go in; the softmax over all of it comes out, merged slice by slice.

A float64 reference, run on data: what the ranks of a sharded context exchange is (m, l, u), and this says how they
merge it. Source: chapter "Supernodes", section 6.2.4; Milakov and Gimelshein, "Online normalizer calculation for
softmax", 2018 (arXiv:1805.02867), section 3.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from meshwright.base.errors import JobError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshwright.base.numbers import Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Partial:
    """What one slice says of some heads.

    maxima: [heads], the largest score, -inf of no position.   sums: [heads], of exp(score - maximum).   vectors:
    [heads, head_dim], the values weighted so, not yet divided by their sum.
    """

    maxima: Floats
    sums: Floats
    vectors: Floats


def partial(scores: Floats, values: Floats) -> Partial:
    """Of a slice. scores: [heads, positions].   values: [heads, positions, head_dim]; positions may be none."""
    maxima = np.max(scores, axis=-1, initial=-np.inf)
    weights = np.exp(scores - _finite(maxima)[..., None])
    return Partial(
        maxima=maxima, sums=weights.sum(axis=-1), vectors=np.einsum("hp,hpd->hd", weights, values, optimize=False)
    )


def slices_of(maxima: Sequence[float], sums: Sequence[float], vectors: Sequence[float]) -> tuple[Partial, ...]:
    """Slices of one head and one column of its values, as numbers of each. Raises JOB132 for what no slice says."""
    if not len(maxima) == len(sums) == len(vectors) > 0:
        cause = f"{len(maxima)} maxima, {len(sums)} sums and {len(vectors)} vectors"
        raise JobError(132, cause, "give one of each a slice")
    for most, total in zip(maxima, sums, strict=True):
        if not (0 < total < np.inf and np.isfinite(most)) and not (total == 0 and most == -np.inf):
            cause = f"a slice of maximum {most:g} whose sum is {total:g}"
            raise JobError(132, cause, "give finite maxima with sums above zero, or -inf with a sum of 0")
    if not np.isfinite(vectors).all():
        raise JobError(132, f"vectors of {', '.join(map(str, vectors))}", "give finite numbers")
    return tuple(
        Partial(maxima=np.array([most]), sums=np.array([total]), vectors=np.array([[vector]]))
        for most, total, vector in zip(maxima, sums, vectors, strict=True)
    )


def merged(one: Partial, other: Partial) -> Partial:
    """Of both slices together: in any order, in any grouping.

    Each is scaled by exp(its maximum - the larger one), at most 1: nothing overflows, and what underflows is nothing
    beside the larger one. A slice without positions (-inf, 0, 0) changes nothing.
    """
    maxima = np.maximum(one.maxima, other.maxima)
    scales = [np.exp(item.maxima - _finite(maxima)) for item in (one, other)]
    return Partial(
        maxima=maxima,
        sums=one.sums * scales[0] + other.sums * scales[1],
        vectors=one.vectors * scales[0][..., None] + other.vectors * scales[1][..., None],
    )


def mixed(parts: Sequence[Partial]) -> Floats:
    """[heads, head_dim] of attention over all slices. Raises JOB132 where they hold no position."""
    whole = reduce(merged, parts)
    if not len(parts) or not np.all(whole.sums > 0):
        raise JobError(132, "slices without a position", "give at least one slice with a sum above zero")
    return whole.vectors / whole.sums[..., None]


def _finite(maxima: Floats) -> Floats:
    """The maxima, 0 where there is none: -inf less -inf is no number."""
    return np.where(np.isneginf(maxima), 0.0, maxima)
