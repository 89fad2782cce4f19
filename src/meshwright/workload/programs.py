"""What a collective algorithm is: rounds of sends. From them alone follow its rounds, its bytes and its loads.

A program moves pieces. The message (its bytes as nccl-tests counts them) is cut into `message_pieces` equal parts; a
piece has a number, a participant holds contributions to it. Ranks are participants 0 .. ranks - 1; switches that add
or copy on the way follow them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshwright.base.numbers import Bools, Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """`times` rounds of one pattern: the same pairs send the same number of pieces each time.

    sender, receiver, pieces: columns, one row a send; the sends of a round run at once, and a participant enters its
    next round once its own sends and receives of this one are complete.   carried: of round 0 .. times - 1 the numbers
    of the pieces that travel, those of the first send first.   reduce: the receiver adds what comes to what it holds;
    otherwise it keeps what comes instead. Of all sends, or of each.
    """

    sender: Ints
    receiver: Ints
    pieces: Ints
    times: int
    carried: Callable[[int], Ints]
    reduce: bool | Bools


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """One algorithm over one number of ranks.

    message_pieces: equal parts of the message.   home: of an all_gather or reduce_scatter the rank that each piece
    belongs to, by piece; of a broadcast or reduce the root, for every piece; of an all_to_all or send_recv the rank
    that each piece goes to.   origin: of an all_to_all or send_recv the rank that each piece comes from. Both are empty
    for an even all_to_all, whose piece s * ranks + d goes from rank s to rank d.   switches: participants beside the
    ranks.   launches: how often a rank starts work for it.
    """

    operation: str
    ranks: int
    message_pieces: int
    home: Ints
    steps: tuple[Step, ...]
    origin: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    switches: int = 0
    launches: int = 1


def sent_pieces(program: Program) -> Ints:
    """Of each participant the pieces that it sends over all rounds."""
    sent = np.zeros(program.ranks + program.switches, dtype=np.int64)
    for step in program.steps:
        np.add.at(sent, step.sender, step.pieces * step.times)
    return sent
