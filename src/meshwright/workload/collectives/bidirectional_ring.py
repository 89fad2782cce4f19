"""Ring in both directions at once: half of the message each way, so that both directions of every link are in use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshwright.workload.collectives._grid import OPERATIONS, Way, along_dims
from meshwright.workload.collectives._shared import any_count, check

if TYPE_CHECKING:
    from meshwright.workload.programs import Program

IN_CHANNELS: Final = True
"""Over boxes libraries lay it in channels: see `workload.channels`."""


def permits(operation: str, ranks: int) -> bool:
    """Any number of ranks."""
    return operation in OPERATIONS and any_count(ranks)


def program(operation: str, ranks: int) -> Program:
    """The rounds of a ring, with half a block to either neighbour in each. Raises COL002, COL010."""
    check("bidirectional_ring", OPERATIONS, operation, ranks, permitted=permits(operation, ranks))
    return along_dims(operation, (ranks,), (Way(order=(0,), turn=1), Way(order=(0,), turn=-1)))
