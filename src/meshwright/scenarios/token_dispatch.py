"""Where does a token go that chose these experts? Experts on ranks in order go in; rows, bytes and homes come out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshwright.base.errors import JobError
from meshwright.base.units import Bytes
from meshwright.workload.expert_batches import Slots, executed, rows_sent, without_own
from meshwright.workload.messages import row_bytes

_MOST = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenDispatch:
    """homes: rank of each choice.   target_ranks: others that hold some of them.   local: choices that run here.

    each_bytes: a row for every choice elsewhere.   once_bytes: one for every rank.   return_bytes: of outputs, which a
    rank weighs and adds up before it returns them; the token's own rank adds those.
    """

    choices: int
    homes: tuple[int, ...]
    target_ranks: int
    local: int
    each_bytes: int
    once_bytes: int
    return_bytes: int


def token_dispatch(  # noqa: PLR0917 - ranks, a token and its row
    ranks: int, experts_per_rank: int, own_rank: int, chosen: tuple[int, ...], hidden: int, element_bytes: Bytes
) -> TokenDispatch:
    """One token on `own_rank`. Combine returns rows, restores their order and adds them up with their weights.

    Raises JOB129 (ranks, or experts that are none). Source: chapter "Supernodes", section 6.2.6.
    """
    experts = ranks * experts_per_rank
    there = min(ranks, experts_per_rank) >= 1 and experts <= _MOST and 0 <= own_rank < ranks
    apart = len(set(chosen)) == len(chosen) >= 1 and all(0 <= expert < experts for expert in chosen)
    if not (there and apart):
        cause = f"experts {chosen} of a token on rank {own_rank}, of {ranks} ranks with {experts_per_rank} each"
        raise JobError(129, cause, f"give different experts from 0 to {max(0, experts - 1)}, and a rank that there is")
    place = np.arange(experts)
    slots = Slots(expert=place, group=place // experts_per_rank)
    homes = slots.group[executed(np.array([chosen]), slots, None).slot]
    own = np.array([own_rank])
    each, once = (int(without_own(rows_sent(own, homes, ranks, ranks, once=way)).sum()) for way in (False, True))
    return TokenDispatch(
        choices=len(chosen),
        homes=tuple(homes[0].tolist()),
        target_ranks=once,
        local=len(chosen) - each,
        each_bytes=row_bytes(each, hidden, element_bytes),
        once_bytes=row_bytes(once, hidden, element_bytes),
        return_bytes=row_bytes(once, hidden, element_bytes),
    )
