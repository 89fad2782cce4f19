"""What a pool is asked: demands, nodes, a path to remote memory, reads over it; checked amounts come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from meshwright.base.errors import JobError
from meshwright.base.units import Bytes, BytesPerSecond, Seconds
from meshwright.sim.memory_pool import Operation
from meshwright.system.link import Link

_MOST_NODES: Final = 256
_MOST_BYTES: Final = 2**60
_MOST_COUNT: Final = 2**40
_MOST_PERIODS: Final = 16
_MOST_OPERATIONS: Final = 10_000
_MOST_RATE: Final = 1e18
_MOST_TIME_S: Final = 1e12
ITEM: Final = Bytes(256)
"""The K vector of one KV head of 128 elements in 2 bytes: chapter "Supernodes", section 6.6.2."""
LOCAL: Final = BytesPerSecond(3350e9)
"""Memory of an H100 SXM: chapter "Supernodes", section 6.6.3 (assumed where no other is given)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """Jobs, one a node, and how they reach memory of other nodes.

    demand: of each job.   node: memory of each node, or one number for all.   link: of the catalog, for path and
    latency that are not given.   path: one way.   latency: of a whole read, there and back; or one_way, of which a
    read takes two.   window: requests under
    way at once; None for any number.   item: bytes of a request.   local: rate of a node's own memory.   data: read
    again and again; None for the largest part that one job borrows.   periods: between its reads.   reads: of it.
    operations: to be replayed on the nodes, each job's own part in place.
    """

    demand: tuple[Bytes, ...]
    node: tuple[Bytes, ...]
    link: str | None = None
    path: BytesPerSecond | None = None
    latency: Seconds | None = None
    one_way: Seconds | None = None
    window: int | None = None
    item: Bytes = ITEM
    local: BytesPerSecond = LOCAL
    data: Bytes | None = None
    periods: tuple[Seconds, ...] = ()
    reads: int = 10
    operations: tuple[Operation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """How remote memory is reached; None for what is not known."""

    path_bytes_per_s: float | None
    round_trip_s: float | None


def capacities(options: PoolOptions) -> tuple[int, ...]:
    """Memory of each node. Raises JOB100 (counts, sizes)."""
    count = len(options.demand)
    if not 1 <= count <= _MOST_NODES or len(options.node) not in {1, count}:
        cause = f"{count} demands and {len(options.node)} nodes"
        raise JobError(100, cause, f"give 1 to {_MOST_NODES} demands, and one size for all nodes or one for each")
    sizes = options.node if len(options.node) == count else options.node * count
    if max((*sizes, *options.demand)) > _MOST_BYTES or min(sizes) < 1:
        raise JobError(100, "a node without memory, or one beyond any node's", f"give 1 to {_MOST_BYTES} bytes")
    return sizes


def route_of(options: PoolOptions, link: Link | None) -> Route:
    """Path and round trip, those of the link where they are not given. Raises JOB101, JOB102."""
    path, latency = options.path, options.latency
    if link is not None:
        path = link.bandwidth if path is None else path
        latency = Seconds(2 * link.latency) if latency is None else latency
    if options.one_way is not None:
        if options.latency is not None:
            raise JobError(101, "a round trip and a way that are both given", "give --latency or --one-way")
        latency = Seconds(2 * options.one_way)
    rates = [rate for rate in (path, options.local) if rate is not None]
    times = [] if latency is None else [latency]
    if not all(0 < rate <= _MOST_RATE for rate in rates) or not all(0 < time <= _MOST_TIME_S for time in times):
        raise JobError(101, "a rate or a round trip that is zero, or beyond any link's", "give each above zero")
    if path is None and latency is not None:
        raise JobError(101, "a round trip without its path", "give --link, or --path")
    if options.window is not None and (latency is None or path is None):
        raise JobError(101, "a window without its path or round trip", "give --link, or --path and --latency")
    if (
        not 1 <= options.item <= _MOST_BYTES
        or not 1 <= (1 if options.window is None else options.window) <= _MOST_COUNT
    ):
        cause = f"a window of {options.window} requests of {options.item} bytes"
        raise JobError(101, cause, f"give 1 to {_MOST_COUNT} requests of at least one byte")
    _check_reads(options, path)
    return Route(path_bytes_per_s=path, round_trip_s=latency)


def _check_reads(options: PoolOptions, path: float | None) -> None:
    if (options.periods or options.data is not None) and path is None:
        raise JobError(102, "reads without a path", "give --link, or --path")
    if not 1 <= options.reads <= _MOST_COUNT or not 1 <= (1 if options.data is None else options.data) <= _MOST_BYTES:
        size = "what is borrowed" if options.data is None else f"{options.data} bytes"
        cause = f"{options.reads} reads of {size}"
        raise JobError(102, cause, f"give 1 to {_MOST_COUNT} reads of at least one byte")
    if options.data is not None and options.data > max(options.demand):
        cause = f"reads of {options.data} bytes, and the largest job has {max(options.demand)}"
        raise JobError(102, cause, "give --data of a part of a job")
    if len(options.periods) > _MOST_PERIODS or not all(0 < period <= _MOST_TIME_S for period in options.periods):
        raise JobError(102, "periods", f"give up to {_MOST_PERIODS} times above zero")
    if len(options.operations) > _MOST_OPERATIONS:
        raise JobError(102, f"{len(options.operations)} operations", f"give at most {_MOST_OPERATIONS}")
