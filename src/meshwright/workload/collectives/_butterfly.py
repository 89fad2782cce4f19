"""Peers of every rank, round by round, go in; exchanges of halves that shrink or grow come out.

With peers as they are met in rounds 0 .. k - 1, `reach(s)` of a rank are those whom it reaches from round s on: itself
alone at the end, all ranks at the start. Before round s a rank holds sums of the blocks of reach(s); it gives its peer
those that the peer reaches afterwards. Gathering is the same backwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.workload.collectives._shared import each, once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshwright.base.numbers import Ints
    from meshwright.workload.programs import Step

OPERATIONS: Final = ("all_reduce", "reduce_scatter", "all_gather")


def xor_peers(ranks: int) -> list[Ints]:
    """Peers at distances 1, 2, 4 .. of a power of two."""
    return [np.arange(ranks) ^ (1 << bit) for bit in range(ranks.bit_length() - 1)]


def halving(peers: Sequence[Ints], members: Ints) -> tuple[Step, ...]:
    """Rounds that reduce: halves of the blocks, then quarters; member i ends with block i.   members: their ranks."""
    return tuple(_swap(peers, members, number, reduce=True) for number in range(len(peers)))


def doubling(peers: Sequence[Ints], members: Ints) -> tuple[Step, ...]:
    """Rounds that gather: the last peer first, one block, then two, four."""
    return tuple(_swap(peers, members, number, reduce=False) for number in reversed(range(len(peers))))


def _swap(peers: Sequence[Ints], members: Ints, number: int, *, reduce: bool) -> Step:
    """Round `number`: of blocks that the peer reaches afterwards, or of those that the sender itself does."""
    peer = peers[number]

    def carried() -> Ints:
        reached = _reach(peers, len(members), number + 1)
        return (reached[peer] if reduce else reached).reshape(-1)

    blocks = 1 << (len(peers) - number - 1)
    return once(members, members[peer], each(len(members), blocks), carried, reduce=reduce)


def _reach(peers: Sequence[Ints], count: int, number: int) -> Ints:
    """[members, blocks]: whom each reaches from a round on."""
    reached = np.arange(count)[:, None]
    for peer in reversed(peers[number:]):
        reached = np.concatenate([reached, reached[peer]], axis=1)
    return reached
