"""Swing: as recursive halving and doubling, with peers that swing from side to side and stay near on a ring.

Source: chapter "Supernodes", section 6.5.1: partners at rho_s = (1 - (-2)^(s + 1)) / 3 = 1, -1, 3, -5 .., even ranks
add it, odd ones subtract it. De Sensi et al., "Swing: Short-cutting Rings for Higher Bandwidth Allreduce" (NSDI 2024).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meshwright.workload.collectives._butterfly import OPERATIONS, doubling, halving
from meshwright.workload.collectives._shared import check, power_of_two
from meshwright.workload.programs import Program

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints


def permits(operation: str, ranks: int) -> bool:
    """Powers of two."""
    return operation in OPERATIONS and power_of_two(ranks)


def program(operation: str, ranks: int) -> Program:
    """Rounds and bytes of recursive halving and doubling, with other peers. Raises COL002, COL010."""
    check("swing", OPERATIONS, operation, ranks, permitted=permits(operation, ranks))
    members = np.arange(ranks)
    peers = _peers(ranks)
    reduces = () if operation == "all_gather" else halving(peers, members)
    gathers = () if operation == "reduce_scatter" else doubling(peers, members)
    return Program(operation=operation, ranks=ranks, message_pieces=ranks, home=members, steps=(*reduces, *gathers))


def _peers(ranks: int) -> list[Ints]:
    rank = np.arange(ranks)
    side = np.where(rank % 2 == 0, 1, -1)
    offsets = [(1 - (-2) ** (number + 1)) // 3 for number in range(ranks.bit_length() - 1)]
    return [(rank + side * offset) % ranks for offset in offsets]
