"""A rank's whereabouts go in; while the context lasts every exchange of torch.distributed is noted before it begins."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import torch.distributed as dist
from torch.distributed import distributed_c10d

if TYPE_CHECKING:
    from datetime import timedelta

    from meshwright.runtime.launch.whereabouts import Place, Whereabouts

_EXCHANGES: Final = (
    "all_reduce",
    "all_gather",
    "all_gather_single",
    "all_gather_into_tensor",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
)
_TIMEOUTS: Final = ("default_pg_timeout", "default_pg_nccl_timeout")


@contextmanager
def watched(where: Whereabouts, places: Sequence[Place], timeout: timedelta) -> Generator[None]:
    """Note every exchange of this process, and give groups that are made meanwhile this timeout.

    Callers that look a function up in `torch.distributed` when they call it are seen: ours, and FSDP2's.
    """
    before = {name: getattr(dist, name) for name in _EXCHANGES}
    timeouts = {name: getattr(distributed_c10d, name) for name in _TIMEOUTS}
    axes: dict[object, tuple[str, tuple[int, ...]]] = {}
    try:
        for name, function in before.items():
            setattr(dist, name, _noted(name, function, where, places, axes))
        for name in _TIMEOUTS:
            setattr(distributed_c10d, name, timeout)
        yield
    finally:
        for name, function in before.items():
            setattr(dist, name, function)
        for name, value in timeouts.items():
            setattr(distributed_c10d, name, value)


def _noted(
    name: str,
    function: Callable[..., Any],
    where: Whereabouts,
    places: Sequence[Place],
    known: dict[object, tuple[str, tuple[int, ...]]],
) -> Callable[..., Any]:
    @wraps(function)
    def noted(*given: Any, **named: Any) -> Any:
        group = named.get("group") or next((item for item in given if isinstance(item, dist.ProcessGroup)), None)
        if group not in known:
            ranks = tuple(dist.get_process_group_ranks(group))
            known[group] = (along(ranks, places), ranks)
        axes, ranks = known[group]
        where.enters(f"{name} over {axes}", ranks)
        found = function(*given, **named)
        if found is None:  # an exchange that goes on is waited for later: what is noted next ends it
            where.leaves()
        return found

    return noted


def along(ranks: Sequence[int], places: Sequence[Place]) -> str:
    """The axes along which the places of ranks differ, as `dp_replicate x dp_shard`; `all ranks` of several axes."""
    first = places[ranks[0]]
    axes = [axis for axis in first if any(places[rank][axis] != first[axis] for rank in ranks)]
    return "all ranks" if len(ranks) == len(places) and len(axes) != 1 else " x ".join(axes) or "itself"
