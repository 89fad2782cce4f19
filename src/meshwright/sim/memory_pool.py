"""A pool and an operation go in; the pool after it comes out, or a coded refusal: address, right and order are checked.

A region of a node's memory is free, exported, mapped (exclusive or shared), in use, returned, and then free again. The
node that lends it takes it back only once nobody maps it. A write is to be read only after its completion, and by
another node only after it was made visible as well. Nothing here makes memory: what a node holds of its own and what it
lends never exceed what it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from meshwright.base.errors import JobError
from meshwright.base.units import Bytes

Verb: TypeAlias = Literal["export", "map", "write", "read", "complete", "publish", "return", "reclaim"]
Sharing: TypeAlias = Literal["exclusive", "shared"]
Access: TypeAlias = Literal["read", "read_write"]
State: TypeAlias = Literal["exported", "mapped", "in_use", "returned"]
NO_BYTES: Final = Bytes(0)
_MOST_REGIONS: Final = 4096
"""Of one pool; names and counts beyond it are no pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What one node does with a region.

    size: of an export.   sharing, access: of a map.   offset, length: of a read or a write.   name: of a read, a write
    and the completion of either.
    """

    do: Verb
    node: int
    region: str
    size: Bytes = NO_BYTES
    sharing: Sharing = "exclusive"
    access: Access = "read_write"
    offset: Bytes = NO_BYTES
    length: Bytes = NO_BYTES
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Bytes [start, end) that a node reads or writes, or has written and not yet made visible."""

    node: int
    kind: Literal["read", "write"]
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Lent memory. holders: who maps it, and how.   under_way: by name.   unseen: written, known to the writer alone.

    used: whether a holder has read or written since it was mapped.
    """

    lender: int
    size: int
    sharing: Sharing = "exclusive"
    holders: Mapping[int, Access] = field(default_factory=dict[int, Access])
    under_way: Mapping[str, Span] = field(default_factory=dict[str, Span])
    unseen: tuple[Span, ...] = ()
    used: bool = False
    was_mapped: bool = False

    @property
    def state(self) -> State:
        """Where it stands on its way from free to free."""
        if self.holders:
            return "in_use" if self.used else "mapped"
        return "returned" if self.was_mapped else "exported"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """capacity, own: bytes of each node, and those that its own job holds there.   regions: what is lent, by name."""

    capacity: tuple[int, ...]
    own: tuple[int, ...]
    regions: Mapping[str, Region] = field(default_factory=dict[str, Region])


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The pool after the last operation that was allowed. refused: the first that was not, and why."""

    pools: tuple[Pool, ...]
    refused: JobError | None


def used_bytes(pool: Pool) -> tuple[int, ...]:
    """Physical use of each node: its own, and what it lends in any state."""
    lent = [0] * len(pool.capacity)
    for region in pool.regions.values():
        lent[region.lender] += region.size
    return tuple(mine + given for mine, given in zip(pool.own, lent, strict=True))


def apply(pool: Pool, operation: Operation) -> Pool:
    """The pool after one operation.

    Raises JOB103 (a node or region that is not there), JOB104 (a state that does not allow it), JOB105 (more than is
    free), JOB106 (mapped twice), JOB107 (no right), JOB108 (outside the region), JOB109 (taken back too early), JOB110
    (read before completion), JOB111 (read before it is visible), JOB112 (returned while under way), JOB113 (two at
    once on the same bytes), JOB114 (a name). Source: chapter "Supernodes", section 6.6.2.
    """
    if not 0 <= operation.node < len(pool.capacity):
        raise JobError(103, f"node {operation.node} is not one of {len(pool.capacity)}", "count nodes from 0")
    if operation.do == "export":
        return _export(pool, operation)
    region = pool.regions.get(operation.region)
    if region is None:
        cause = f"{operation.do} of {operation.region!r}, which nobody lends"
        raise JobError(103, cause, "export it first; an address is void once its region was reclaimed")
    if operation.do == "reclaim":
        _check_reclaim(region, operation)
        return replace(pool, regions={name: item for name, item in pool.regions.items() if name != operation.region})
    return replace(pool, regions={**pool.regions, operation.region: _STEPS[operation.do](region, operation)})


def replay(pool: Pool, operations: tuple[Operation, ...]) -> Replayed:
    """Every pool from before the first operation on, up to the first that is refused."""
    pools = [pool]
    for operation in operations:
        try:
            pools.append(apply(pools[-1], operation))
        except JobError as problem:
            return Replayed(pools=tuple(pools), refused=problem)
    return Replayed(pools=tuple(pools), refused=None)


def _export(pool: Pool, operation: Operation) -> Pool:
    name, node = operation.region, operation.node
    if name in pool.regions:
        cause = f"{name} is {pool.regions[name].state} already"
        raise JobError(104, cause, "reclaim it first, or give the region another name")
    free = pool.capacity[node] - used_bytes(pool)[node]
    if not 1 <= operation.size <= free or len(pool.regions) >= _MOST_REGIONS:
        cause = f"node {node} exports {operation.size} bytes, and {free} of it are free"
        raise JobError(105, cause, f"export 1 to {max(free, 1)} bytes, in at most {_MOST_REGIONS} regions")
    return replace(pool, regions={**pool.regions, name: Region(lender=node, size=operation.size)})


def _map(region: Region, operation: Operation) -> Region:
    name, node = operation.region, operation.node
    if region.state == "returned":
        raise JobError(104, f"{name} is returned, and its lender has not taken it back", "reclaim and export it again")
    if node in region.holders:
        raise JobError(106, f"node {node} maps {name} already", "return it first")
    if region.holders and "exclusive" in {region.sharing, operation.sharing}:
        holder = min(region.holders)
        cause = f"node {holder} maps {name} ({region.sharing}), and node {node} asks for it ({operation.sharing})"
        raise JobError(106, cause, "wait until it is returned, or share it from the first map on")
    return replace(
        region,
        sharing=operation.sharing,
        holders={**region.holders, node: operation.access},
        was_mapped=True,
    )


def _access(region: Region, operation: Operation) -> Region:
    """A read or a write is started."""
    _check_holder(region, operation)
    if operation.do == "write" and region.holders[operation.node] == "read":
        cause = f"node {operation.node} writes {operation.region}, which it maps for reading"
        raise JobError(107, cause, "map it with access read_write")
    span = _span(region, operation)
    if operation.name in {"", *region.under_way}:
        cause = f"the {operation.do} {operation.name!r} of {operation.region} is unnamed or under way already"
        raise JobError(114, cause, "give each a name that its completion repeats")
    _check_order(region, operation, span)
    return replace(region, under_way={**region.under_way, operation.name: span}, used=True)


def _complete(region: Region, operation: Operation) -> Region:
    """A completion is confirmed to who started it: a write is then known to the writer, and not yet to others."""
    _check_holder(region, operation)
    span = region.under_way.get(operation.name)
    if span is None or span.node != operation.node:
        cause = f"node {operation.node} completes {operation.name!r} of {operation.region}, which it did not start"
        raise JobError(114, cause, "complete what the same node started, under its name")
    left = {name: item for name, item in region.under_way.items() if name != operation.name}
    written = (span,) if span.kind == "write" else ()
    return replace(region, under_way=left, unseen=(*region.unseen, *written))


def _publish(region: Region, operation: Operation) -> Region:
    """What the node has written and completed becomes visible to all who map the region."""
    _check_holder(region, operation)
    return replace(region, unseen=tuple(span for span in region.unseen if span.node != operation.node))


def _return(region: Region, operation: Operation) -> Region:
    """A holder lets go; what it has completed becomes visible."""
    _check_holder(region, operation)
    open_ = [name for name, span in region.under_way.items() if span.node == operation.node]
    if open_:
        cause = f"node {operation.node} returns {operation.region} while {open_[0]!r} is under way"
        raise JobError(112, cause, "complete it first")
    left = {node: access for node, access in region.holders.items() if node != operation.node}
    seen = _publish(region, operation)
    return replace(seen, holders=left, used=seen.used and bool(left))


_STEPS: Final[Mapping[str, Callable[[Region, Operation], Region]]] = {
    "map": _map,
    "write": _access,
    "read": _access,
    "complete": _complete,
    "publish": _publish,
    "return": _return,
}
"""What an operation makes of a region that is lent."""


def _check_reclaim(region: Region, operation: Operation) -> None:
    if operation.node != region.lender:
        cause = f"node {operation.node} reclaims {operation.region}, which node {region.lender} lends"
        raise JobError(107, cause, "only its lender takes it back")
    if region.holders:
        cause = f"{operation.region} is reclaimed while node {min(region.holders)} maps it"
        raise JobError(109, cause, "reclaim it once every holder has returned it")


def _check_holder(region: Region, operation: Operation) -> None:
    """Lending gives the right of use away: the lender, too, has it only by a map."""
    if operation.node not in region.holders:
        cause = f"node {operation.node} asks for {operation.do} on {operation.region}, which it does not map"
        raise JobError(107, cause, "map it first; a right ends with the return")


def _span(region: Region, operation: Operation) -> Span:
    start, end = operation.offset, operation.offset + operation.length
    if not 0 <= start < end <= region.size:
        cause = f"bytes {start} to {end} of {operation.region}, which has {region.size}"
        raise JobError(108, cause, f"stay within 0 to {region.size}, at least one byte")
    return Span(node=operation.node, kind="write" if operation.do == "write" else "read", start=start, end=end)


def _check_order(region: Region, operation: Operation, span: Span) -> None:
    for name, other in region.under_way.items():
        if _overlap(span, other) and other.kind == "write":
            cause = f"node {span.node} is to {span.kind} bytes of {operation.region} that {name!r} is still writing"
            fix = f"wait for the completion of {name!r}"
            raise JobError(110, cause, fix) if span.kind == "read" else JobError(113, cause, fix)
        if _overlap(span, other) and span.kind == "write":
            cause = f"node {span.node} writes bytes of {operation.region} that {name!r} is still reading"
            raise JobError(113, cause, f"wait for the completion of {name!r}")
    for other in region.unseen:
        if _overlap(span, other) and other.node != span.node:
            cause = f"bytes of {operation.region} that node {other.node} wrote are not visible to node {span.node}"
            raise JobError(111, cause, f"node {other.node} has to publish them after their completion")


def _overlap(one: Span, other: Span) -> bool:
    return one.start < other.end and other.start < one.end
