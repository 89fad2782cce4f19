"""Rings along one dim of a torus after the other, with a part of the message for each dim and direction to start in.

While one part goes along the first dim, another goes along the second: all links of every rank are busy at once.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from meshwright.base.errors import CollectiveError
from meshwright.workload.collectives._grid import OPERATIONS, Way, along_dims
from meshwright.workload.collectives._shared import any_count, check, divisor_below

if TYPE_CHECKING:
    from meshwright.workload.programs import Program

_DIMS: Final = 3


def permits(operation: str, ranks: int) -> bool:
    """Any number of ranks: a prime one is a single ring."""
    return operation in OPERATIONS and any_count(ranks)


def program(operation: str, ranks: int, *, extents: tuple[int, ...] = ()) -> Program:
    """Twice as many parts of the message as there are dims, each of which takes the dims in turn from another one on.

    extents: ranks along each dim, the last one fastest in the number of a rank; where there are none, three dims as
    equal as whole numbers allow. Raises COL002, COL010, COL013 (extents).
    """
    check("torus_rings", OPERATIONS, operation, ranks, permitted=permits(operation, ranks))
    sizes = extents or _even(ranks)
    if prod(sizes) != ranks or min(sizes) < 1:
        cause = f"extents {'x'.join(map(str, sizes))} of {ranks} ranks"
        raise CollectiveError(13, cause, "give extents whose product is the number of ranks")
    used = tuple(dim for dim, size in enumerate(sizes) if size > 1) or (0,)
    ways = tuple(Way(order=used[first:] + used[:first], turn=turn) for first in range(len(used)) for turn in (1, -1))
    return along_dims(operation, sizes, ways)


def _even(ranks: int) -> tuple[int, ...]:
    sizes: list[int] = []
    for left in range(_DIMS, 1, -1):
        sizes.append(divisor_below(ranks, round(ranks ** (1 / left))))
        ranks //= sizes[-1]
    return (*sizes, ranks)
