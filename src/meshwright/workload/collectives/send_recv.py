"""Point to point: every rank sends its message to the next one and receives that of the one before, in one round.

As nccl-tests' sendrecv does; two ranks exchange theirs.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from meshwright.workload.collectives._shared import any_count, check, each, once
from meshwright.workload.programs import Program

OPERATIONS: Final = ("send_recv",)


def permits(operation: str, ranks: int) -> bool:
    """Any number of ranks."""
    return operation in OPERATIONS and any_count(ranks)


def program(operation: str, ranks: int) -> Program:
    """One round of whole messages. Raises COL002, COL010."""
    check("send_recv", OPERATIONS, operation, ranks, permitted=permits(operation, ranks))
    rank = np.arange(ranks)
    after = (rank + 1) % ranks
    step = once(rank, after, each(ranks, 1), lambda: rank, reduce=False)
    return Program(
        operation=operation,
        ranks=ranks,
        message_pieces=1,
        home=after,
        origin=rank,
        steps=(step,) if ranks > 1 else (),
    )
