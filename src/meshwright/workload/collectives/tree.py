"""Binomial-tree all_reduce, unsegmented: reduce to the root, then broadcast from it.

Source: chapter "Supernodes", equation 6-10; the chapter defines it for powers of two only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from meshwright.base.numbers import Number, doublings
from meshwright.base.traced import values

if TYPE_CHECKING:
    from meshwright.base.numbers import Bools, Ints

N = TypeVar("N", bound=Number)
OPERATION: Final = "all_reduce"


def permits(ranks: Ints) -> Bools:
    """Powers of two."""
    count = np.asarray(values(ranks))
    return (count >= 1) & ((count & (count - 1)) == 0)


def rounds(ranks: Ints) -> Ints:
    """log2(n) rounds towards the root, log2(n) away from it."""
    return 2 * doublings(np.asarray(ranks))


def round_bytes(ranks: Ints, message_bytes: N) -> N:
    """Each round an active rank sends the whole message."""
    return message_bytes * np.ones(np.shape(ranks), dtype=np.int64)
