"""A number of ranks goes in; a power of two that works for all, and rounds before and after, come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from meshwright.workload.collectives._shared import each, once

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints
    from meshwright.workload.programs import Step


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fold:
    """members: ranks that take part in between, a power of two.   before, after: at most one round each."""

    members: Ints
    before: tuple[Step, ...]
    after: tuple[Step, ...]


def fold(ranks: int, pieces: int) -> Fold:
    """The first 2 (n - 2^k) ranks in pairs: the even one gives its message to the odd one, and gets the result.

    pieces: of the whole message. Source: Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication
    Operations in MPICH" (2005), section 4.4.
    """
    pairs = ranks - (1 << (ranks.bit_length() - 1))
    even = 2 * np.arange(pairs)
    members = np.concatenate([even + 1, np.arange(2 * pairs, ranks)])
    if not pairs:
        return Fold(members=members, before=(), after=())

    def whole() -> Ints:
        return np.tile(np.arange(pieces), pairs)

    count = each(pairs, pieces)
    return Fold(
        members=members,
        before=(once(even, even + 1, count, whole, reduce=True),),
        after=(once(even + 1, even, count, whole, reduce=False),),
    )
