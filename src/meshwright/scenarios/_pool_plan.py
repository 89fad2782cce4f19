"""Demands and nodes go in; whose data lies where, in the fewest loans, comes out, and what each node then holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from meshwright.base.units import Bytes
from meshwright.search.lending import Lending, lend
from meshwright.sim.memory_pool import Operation, Pool, apply, used_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionRow:
    """A part of one job's data. owner: the job's node.   host: the node whose memory holds it and gets it back."""

    id: str
    owner: int
    host: int
    size_bytes: int
    kind: Literal["own", "borrowed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One node and its job. used_bytes: of its memory, by whomever.   working_bytes: of its job, wherever they lie.

    free_before_bytes: with its own job alone.
    """

    node: int
    capacity_bytes: int
    demand_bytes: int
    shortfall_bytes: int
    own_bytes: int
    borrowed_bytes: int
    lent_bytes: int
    used_bytes: int
    working_bytes: int
    free_before_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """pool: the nodes with every loan exported and mapped.   lending: None where all spares together are too little."""

    shortfalls: tuple[int, ...]
    spares: tuple[int, ...]
    lending: Lending | None
    pool: Pool
    regions: tuple[RegionRow, ...]
    nodes: tuple[NodeRow, ...]


def plan_of(demand: tuple[int, ...], sizes: tuple[int, ...]) -> Plan:
    """Each job in its own node first; what does not fit there is borrowed, from several nodes where one is too little.

    Every loan is carried out on the pool itself: none makes memory. Source: chapter "Supernodes", section 6.6.1.
    """
    own = tuple(min(need, size) for need, size in zip(demand, sizes, strict=True))
    shortfalls = tuple(need - held for need, held in zip(demand, own, strict=True))
    spares = tuple(size - held for size, held in zip(sizes, own, strict=True))
    lending = lend(shortfalls, spares)
    empty = Pool(capacity=sizes, own=own)
    loans = () if lending is None else lending.loans
    rows = [
        RegionRow(id=f"own{node}", owner=node, host=node, size_bytes=held, kind="own")
        for node, held in enumerate(own)
        if held
    ]
    rows += [
        RegionRow(id=f"loan{place}", owner=loan.borrower, host=loan.lender, size_bytes=loan.amount, kind="borrowed")
        for place, loan in enumerate(loans)
    ]
    pool = _carried_out(empty, (row for row in rows if row.kind == "borrowed"))
    return Plan(
        shortfalls=shortfalls,
        spares=spares,
        lending=lending,
        pool=pool,
        regions=tuple(rows),
        nodes=tuple(_node(node, demand, empty, pool, rows) for node in range(len(sizes))),
    )


def _carried_out(pool: Pool, loans: Iterable[RegionRow]) -> Pool:
    for row in loans:
        pool = apply(pool, Operation(do="export", node=row.host, region=row.id, size=Bytes(row.size_bytes)))
        pool = apply(pool, Operation(do="map", node=row.owner, region=row.id))
    return pool


def _node(node: int, demand: tuple[int, ...], before: Pool, after: Pool, rows: list[RegionRow]) -> NodeRow:
    used, own = used_bytes(after)[node], before.own[node]
    borrowed = sum(row.size_bytes for row in rows if row.kind == "borrowed" and row.owner == node)
    return NodeRow(
        node=node,
        capacity_bytes=after.capacity[node],
        demand_bytes=demand[node],
        shortfall_bytes=demand[node] - own,
        own_bytes=own,
        borrowed_bytes=borrowed,
        lent_bytes=used - own,
        used_bytes=used,
        working_bytes=own + borrowed,
        free_before_bytes=before.capacity[node] - own,
        free_bytes=after.capacity[node] - used,
    )
