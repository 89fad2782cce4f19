"""Hosts, endpoints and connections go in; bytes of state, and seconds to set connections up, come out.

Three ways to know a peer: a context for each pair of endpoints, an endpoint and a channel for each host (Jetty and TP
Channel of the Unified Bus, TP for transport protocol), and a directory that tracks which host caches which line.
"""

from __future__ import annotations

from typing import Any

from meshwright.base.numbers import N
from meshwright.base.traced import formula


@formula
def pair_state_bytes(hosts: Any, endpoints: Any, context_bytes: N, segment_bytes: Any) -> N:
    """One host's state with a context for each of its endpoints and each remote one, and its own segments.

    hosts: the own one included.   Source: chapter "Supernodes", section 6.5.5 and note 28.
    """
    return context_bytes * endpoints * endpoints * (hosts - 1) + segment_bytes * endpoints


@formula
def channel_state_bytes(hosts: Any, endpoints: Any, endpoint_bytes: N, segment_bytes: Any, channel_bytes: Any) -> N:
    """One host's state with its endpoints and segments, and a channel for each remote host.

    hosts: the own one included.   Source: chapter "Supernodes", section 6.5.5 and note 28.
    """
    return (endpoint_bytes + segment_bytes) * endpoints + channel_bytes * (hosts - 1)


@formula
def directory_state_bytes(hosts: Any, lines: Any, line_entry_bytes: N, sharer_bytes: Any) -> N:
    """A directory of cached lines: an entry a line, and what one remote host adds to it (a bit is an eighth).

    hosts: the own one included.   Source: chapter "Supernodes", section 6.5.5. Leaves out invalidations, which grow
    with the sharers of a line.
    """
    return (line_entry_bytes + sharer_bytes * (hosts - 1)) * lines


@formula
def pair_setup_s(pairs: Any, calls: Any, call_s: N, round_trip_s: Any) -> N:
    """Every pair of endpoints by itself: system calls, and a message there and back on another network.

    Source: chapter "Supernodes", section 6.5.5. One after the other; leaves out locks.
    """
    return (call_s * calls + round_trip_s) * pairs


@formula
def channel_setup_s(endpoints: Any, channels: Any, call_s: N, round_trip_s: Any) -> N:
    """Endpoints without a message, then channels with one each. Source: chapter "Supernodes", section 6.5.5."""
    return call_s * endpoints + (call_s + round_trip_s) * channels


@formula
def spread_s(work_s: N, cores: Any) -> N:
    """Work over so many cores that do not wait for each other. Source: chapter "Supernodes", section 6.5.5."""
    return work_s / cores


@formula
def spilled_s(reads: Any, read_s: N) -> N:
    """What an operation adds whose state is not in the controller's cache: reads from the host's memory.

    Source: chapter "Supernodes", section 6.5.5.
    """
    return read_s * reads
