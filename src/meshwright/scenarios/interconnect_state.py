"""How many hosts does the state of their connections allow? Sizes and a cache go in; bytes and counts come out.

Three schemes: a context for each pair of endpoints, endpoint plus channel, and a directory of cached lines. What each
promises beside delivery stands as stated facts: a channel that applications share gives neither order nor rights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from meshwright.base.units import Bytes, Seconds
from meshwright.cost.interconnect import channel_state_bytes, directory_state_bytes, pair_state_bytes, spilled_s
from meshwright.job.serve import check_range

_MOST: Final = 2**40
_MOST_ENDPOINTS: Final = 2**20
_MOST_BYTES: Final = 2**50
_BITS: Final = 8
Size: TypeAlias = Callable[[int], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """State of one host. per_host_bytes: what one host more adds.   most_hosts: that the cache holds, 0 for none.

    fits: whether these hosts do.   times_cache: state over cache.   coherent, orders, grants: whether the scheme keeps
    caches equal, orders what several applications send, and gives them rights.
    """

    scheme: str
    state_bytes: float
    per_host_bytes: float
    most_hosts: int
    fits: bool
    times_cache: float
    coherent: bool
    orders: bool
    grants: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InterconnectState:
    """Every scheme for the same hosts. spilled_s: what an operation adds whose state is not cached.

    tracked_bytes: that the directory's lines hold.
    """

    pair: Scheme
    channel: Scheme
    directory: Scheme
    spilled_s: float
    tracked_bytes: int
    not_modelled: tuple[str, ...]


def interconnect_state(
    *,
    hosts: int,
    endpoints: int,
    cache_bytes: Bytes,
    context_bytes: Bytes,
    endpoint_bytes: Bytes,
    segment_bytes: Bytes,
    channel_bytes: Bytes,
    lines: int,
    line_bytes: Bytes,
    line_entry_bytes: Bytes,
    spilled_reads: int,
    spilled_read_s: Seconds,
) -> InterconnectState:
    """State that one of `hosts` hosts with `endpoints` each keeps, all to all, the own host included in the count.

    Raises JOB001 (sizes). Source: chapter "Supernodes", section 6.5.5, figure 6-40 and note 28.
    """
    check_range("hosts", hosts, 1, _MOST)
    check_range("endpoints", endpoints, 1, _MOST_ENDPOINTS)
    check_range("lines", lines, 1, _MOST)
    sizes = {"cache": cache_bytes, "context": context_bytes, "endpoint": endpoint_bytes, "segment": segment_bytes}
    sizes |= {"channel": channel_bytes, "line": line_bytes, "line_entry": line_entry_bytes}
    for name, size in sizes.items():
        check_range(f"{name}_bytes", size, 1, _MOST_BYTES)
    return InterconnectState(
        pair=_scheme(
            "pair", hosts, cache_bytes, lambda n: pair_state_bytes(n, endpoints, context_bytes, segment_bytes)
        ),
        channel=_scheme(
            "channel",
            hosts,
            cache_bytes,
            lambda n: channel_state_bytes(n, endpoints, endpoint_bytes, segment_bytes, channel_bytes),
        ),
        directory=_scheme(
            "directory",
            hosts,
            cache_bytes,
            lambda n: directory_state_bytes(n, lines, line_entry_bytes, 1 / _BITS),
        ),
        spilled_s=spilled_s(spilled_reads, spilled_read_s),
        tracked_bytes=lines * line_bytes,
        not_modelled=_LEFT_OUT,
    )


_LEFT_OUT: Final = (
    "invalidations of a directory, which grow with the sharers of a line: tens of hosts in practice",
    "memory registration, queues and buffers: only what a controller looks up for an operation is counted",
    "traffic that leaves most pairs idle: all of them are taken to be in use",
)


def _scheme(name: str, hosts: int, cache_bytes: int, size: Size) -> Scheme:
    """State grows by the same bytes with every host, so the largest count follows from one host and the next."""
    alone, each, state = size(1), size(2) - size(1), size(hosts)
    most = 1 + int((cache_bytes - alone) // each) if alone <= cache_bytes else 0
    return Scheme(
        scheme=name,
        state_bytes=state,
        per_host_bytes=each,
        most_hosts=most,
        fits=state <= cache_bytes,
        times_cache=state / cache_bytes,
        coherent=name == "directory",
        orders=False,
        grants=False,
    )
