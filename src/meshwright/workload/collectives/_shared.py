"""What all programs share: refusals of operations, ranks and options, and columns of sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.base.errors import CollectiveError
from meshwright.workload.programs import Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshwright.base.numbers import Bools, Ints

MOST_RANKS: Final = 10**6
MOST_SEGMENTS: Final = 65_536
SEGMENTS: Final = 16
"""Segments where nobody says how many: what stands still while the first one travels is then a small part."""


def check(name: str, operations: tuple[str, ...], operation: str, ranks: int, *, permitted: bool) -> None:
    """Nothing, where a program may be made. Raises COL010 (operation), COL002 (ranks)."""
    if operation not in operations:
        raise CollectiveError(10, f"{name} has no {operation}", f"it has {', '.join(operations)}")
    if not permitted:
        raise CollectiveError(2, f"{name} does not take {ranks} ranks", "choose another algorithm or rank count")


def any_count(ranks: int) -> bool:
    """Whether a group may have so many ranks at all."""
    return 1 <= ranks <= MOST_RANKS


def power_of_two(ranks: int) -> bool:
    """Whether doubling 1 reaches `ranks`."""
    return any_count(ranks) and ranks & (ranks - 1) == 0


def check_segments(segments: int) -> None:
    """Nothing, for a number of segments that a message can be cut into. Raises COL011."""
    if not 1 <= segments <= MOST_SEGMENTS:
        raise CollectiveError(11, f"{segments} segments", f"cut the message into 1 to {MOST_SEGMENTS}")


def check_node(node_size: int, ranks: int) -> None:
    """Nothing, where nodes of a size hold all ranks. Raises COL012."""
    if node_size < 1 or ranks % node_size:
        sizes = ", ".join(str(size) for size in range(1, min(ranks, 64) + 1) if ranks % size == 0)
        raise CollectiveError(12, f"nodes of {node_size} for {ranks} ranks", f"give a size that divides them: {sizes}")


def divisor_below(count: int, most: int) -> int:
    """The largest whole divisor of `count` that is not above `most`."""
    return next(size for size in range(min(count, most), 0, -1) if count % size == 0)


def once(sender: Ints, receiver: Ints, pieces: Ints, carried: Callable[[], Ints], *, reduce: bool | Bools) -> Step:
    """One round."""
    return Step(sender=sender, receiver=receiver, pieces=pieces, times=1, carried=lambda _: carried(), reduce=reduce)


def each(count: int, pieces: int) -> Ints:
    """The same number of pieces for every send."""
    return np.full(count, pieces, dtype=np.int64)


def in_a_row(first: Ints, count: Ints) -> Ints:
    """Of each row the whole numbers from its first on, as many as it has, one row after the other."""
    inside: Ints = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    return np.repeat(first, count) + inside


def owners(ranks: int, pieces: int, root: int) -> Ints:
    """The root, for every piece."""
    assert 0 <= root < ranks
    return np.full(pieces, root, dtype=np.int64)
