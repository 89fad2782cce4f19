"""One shot: every rank sends what the others need to all of them at once, in a single round.

What kernels of serving engines do for small messages: the fewest rounds, and most bytes at every port.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.workload.collectives._shared import any_count, check, each, once, owners
from meshwright.workload.programs import Program

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints
    from meshwright.workload.programs import Step

OPERATIONS: Final = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast")
_MOST_RANKS: Final = 2048


def permits(operation: str, ranks: int) -> bool:
    """Up to 2048 ranks, each with a send to every other one at once."""
    return operation in OPERATIONS and any_count(ranks) and ranks <= _MOST_RANKS


def program(operation: str, ranks: int) -> Program:
    """One round: whole messages of an all_reduce or broadcast (root rank 0), else blocks. Raises COL002, COL010."""
    check("one_shot", OPERATIONS, operation, ranks, permitted=permits(operation, ranks))
    whole = operation in {"all_reduce", "broadcast"}
    home = owners(ranks, 1, 0) if whole else np.arange(0 if operation == "all_to_all" else ranks)
    return Program(
        operation=operation,
        ranks=ranks,
        message_pieces=1 if whole else ranks,
        home=home,
        steps=(at_once(operation, ranks),) if ranks > 1 else (),
    )


def at_once(operation: str, ranks: int) -> Step:
    """The round of an operation: all pairs, or those from the root."""
    senders = 1 if operation == "broadcast" else ranks
    sender, turn = np.divmod(np.arange(senders * (ranks - 1)), ranks - 1)
    receiver = (sender + 1 + turn) % ranks

    def carried() -> Ints:
        blocks = {"reduce_scatter": receiver, "all_gather": sender, "all_to_all": sender * ranks + receiver}
        return blocks.get(operation, np.zeros_like(sender))

    reduce = operation in {"all_reduce", "reduce_scatter"}
    return once(sender, receiver, each(len(sender), 1), carried, reduce=reduce)
