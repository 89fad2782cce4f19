"""Ring all_reduce: reduce_scatter, then all_gather, around a ring of neighbours.

Source: chapter "Supernodes", equation 6-9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from meshwright.base.numbers import Number

if TYPE_CHECKING:
    from meshwright.base.numbers import Bools, Ints

N = TypeVar("N", bound=Number)
OPERATION: Final = "all_reduce"


def permits(ranks: Ints) -> Bools:
    """Any number of ranks."""
    return np.asarray(ranks) >= 1


def rounds(ranks: Ints) -> Ints:
    """n - 1 rounds that reduce, n - 1 that gather."""
    return 2 * (np.asarray(ranks) - 1)


def round_bytes(ranks: Ints, message_bytes: N) -> N:
    """Each round a rank sends one block of the message cut into n."""
    return message_bytes / ranks
