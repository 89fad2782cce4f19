"""What does memory of other nodes solve, and at which rate? Demands, nodes and a path go in; loans and reads come out.

Borrowing moves bytes and makes none. A read goes at the smaller of the path's rate and what the requests under way
carry in a round trip. A sequence of operations can be replayed: the first wrong order is refused by its code.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from meshwright.base.result import Basis, Result, Verdict
from meshwright.base.units import Bytes, show_bytes, show_rate, show_seconds
from meshwright.scenarios._pool_options import PoolOptions, Route, capacities, route_of
from meshwright.scenarios._pool_plan import Plan, plan_of
from meshwright.scenarios._pool_reads import Reads, Window, reads_of, window_of
from meshwright.sim.memory_pool import Pool, replay, used_bytes
from meshwright.system.link import Link, read_link

if TYPE_CHECKING:
    from collections.abc import Callable

_LEFT_OUT: Final = (
    "contention: each read has the path to itself, and a lender's own reads do not slow it",
    "faults: a lender that stops takes the borrower's part with it",
    "coherence: nothing keeps caches of two nodes equal; completion and visibility are operations of their own",
    "where a working set is cut: any bytes of a job can lie elsewhere, and how often they are read is asked apart",
)
_BASIS: Final = {
    "regions[]": f"{Basis.FORMULA.value}: own memory first, then the fewest loans",
    "nodes[]": f"{Basis.SIMULATED.value}: the pool after every loan was exported and mapped",
    "window": f"{Basis.FORMULA.value}: equation 6-12",
    "reads": f"{Basis.FORMULA.value}: data over the usable rate",
    "trace": f"{Basis.SIMULATED.value}: each operation on the pool before it",
    "inputs.options": f"{Basis.ASSUMED.value}: as asked",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRow:
    """A pool after one operation. state: of its region; free once it is reclaimed.   refused: a code, or None."""

    number: int
    do: str
    node: int
    region: str
    state: str
    free_bytes: tuple[int, ...]
    refused: str | None
    reason: str | None


def pool(options: PoolOptions) -> Result:
    """Who lends whom what, what each node then holds, at which rate that is read, and whether a trace is allowed.

    yes: every job is placed, and no operation is refused. Raises JOB100 (sizes), JOB101 (window, rates), JOB102
    (reads), SYS002 (link). Source: chapter "Supernodes", section 6.6.
    """
    sizes = capacities(options)
    link = None if options.link is None else read_link(options.link)
    route = route_of(options, link)
    plan = plan_of(tuple(options.demand), sizes)
    window = window_of(options, route)
    reads = reads_of(options, route, window, max(row.borrowed_bytes for row in plan.nodes))
    trace = _trace(options, plan)
    return Result(
        command="pool",
        verdict=_verdict(plan, window, trace),
        inputs={"model": None, "system": None, "job": None, "layout": None, "options": options},
        flips=_flips(options, link, window, reads),
        notes=_notes(plan, reads),
        warnings=_warnings(window, reads),
        not_modelled=_LEFT_OUT,
        sources=() if link is None else link.facts.sources,
        basis=_BASIS,
        body={
            **_totals(plan),
            "regions": plan.regions,
            "nodes": plan.nodes,
            "window": window,
            "reads": reads,
            "trace": trace,
        },
        next_commands=_next(options, window),
    )


def _totals(plan: Plan) -> dict[str, Any]:
    """Sums over nodes; what is free elsewhere is that of nodes that do not borrow."""
    rows = plan.nodes
    return {
        "demand_bytes": sum(row.demand_bytes for row in rows),
        "capacity_bytes": sum(row.capacity_bytes for row in rows),
        "shortfall_bytes": sum(plan.shortfalls),
        "used_bytes": [row.used_bytes for row in rows],
        "free_elsewhere_before_bytes": sum(row.free_before_bytes for row in rows if not row.shortfall_bytes),
        "free_after_bytes": sum(row.free_bytes for row in rows),
        "loans": None if plan.lending is None else len(plan.lending.loans),
        "search": None if plan.lending is None else plan.lending.search,
    }


def _trace(options: PoolOptions, plan: Plan) -> tuple[TraceRow, ...]:
    """The operations on the nodes with their own jobs alone, up to the first that is refused."""
    start = replace(plan.pool, regions={})
    found = replay(start, options.operations)
    rows = [
        TraceRow(
            number=number,
            do=operation.do,
            node=operation.node,
            region=operation.region,
            state=_state(after, operation.region),
            free_bytes=_free(after),
            refused=None,
            reason=None,
        )
        for number, (operation, after) in enumerate(zip(options.operations, found.pools[1:], strict=False))
    ]
    if found.refused is not None:
        operation, last = options.operations[len(rows)], found.pools[-1]
        rows.append(
            TraceRow(
                number=len(rows),
                do=operation.do,
                node=operation.node,
                region=operation.region,
                state=_state(last, operation.region),
                free_bytes=_free(last),
                refused=found.refused.code,
                reason=f"{found.refused.cause}; {found.refused.fix}",
            )
        )
    return tuple(rows)


def _state(state: Pool, name: str) -> str:
    return state.regions[name].state if name in state.regions else "free"


def _free(state: Pool) -> tuple[int, ...]:
    return tuple(size - used for size, used in zip(state.capacity, used_bytes(state), strict=True))


def _verdict(plan: Plan, window: Window | None, trace: tuple[TraceRow, ...]) -> Verdict:
    placed = plan.lending is not None
    if plan.lending is None:
        told = [f"{show_bytes(sum(plan.shortfalls))} are to be borrowed, and {show_bytes(sum(plan.spares))} are free"]
    elif plan.lending.loans:
        free = show_bytes(sum(row.free_bytes for row in plan.nodes))
        loans = [
            f"job {loan.borrower} borrows {show_bytes(loan.amount)} of node {loan.lender}"
            for loan in plan.lending.loans[:_TOLD]
        ]
        more = len(plan.lending.loans) - len(loans)
        told = [", ".join([*loans, *([f"{more} more loans"] if more else [])]), f"{free} stay free on all nodes"]
    else:
        told = ["every job fits its own node"]
    if window is not None:
        told.append(f"remote reads at {show_rate(window.usable_bytes_per_s)}, limited by the {window.limited_by}")
    refused = trace[-1] if trace and trace[-1].refused else None
    if refused is not None:
        told.insert(
            0, f"operation {refused.number} ({refused.do} by node {refused.node}) is refused: {refused.refused}"
        )
    return Verdict(answer="yes" if placed and refused is None else "no", text="; ".join(told))


_TOLD: Final = 3
"""Loans that the first line names."""


def _notes(plan: Plan, reads: Reads | None) -> tuple[str, ...]:
    """Where the room for a fetch comes from: the reader's own memory, which a job that borrows has filled."""
    if reads is None:
        return ()
    reader = max(plan.nodes, key=lambda row: (row.borrowed_bytes, row.demand_bytes))
    size, free = show_bytes(reads.local_bytes), show_bytes(reader.free_bytes)
    told = f"a fetch of {size} takes as much of the reader's own memory: node {reader.node} has {free} free"
    if reads.local_bytes <= reader.free_bytes:
        return (told,)
    missing = show_bytes(reads.local_bytes - reader.free_bytes)
    return (f"{told}, so {missing} of what lies there must move out first, or --node be larger; that is not timed",)


def _warnings(window: Window | None, reads: Reads | None) -> tuple[str, ...]:
    told: list[str] = []
    if window is not None and window.limited_by == "window":
        told.append(
            f"a faster path changes nothing: {window.requests} requests under way carry "
            f"{show_rate(window.window_bytes_per_s or 0.0)}, and {window.least_requests} fill the path"
        )
    late = [] if reads is None else [row for row in reads.periods if not row.keeps_up]
    told += [
        f"one read each {show_seconds(row.period_s)} takes {show_seconds(reads.read_s)}: the queue grows"
        for row in late
        if reads is not None
    ]
    return tuple(told)


def _flips(
    options: PoolOptions, link: Link | None, window: Window | None, reads: Reads | None
) -> tuple[dict[str, Any], ...]:
    """Whole numbers and sizes from which on another answer is given, each asked again below and at it."""
    found = [
        _flip("node", value, "B", lambda size: _loans(options, size))
        for value in sorted({-(-sum(options.demand) // len(options.demand)), max(options.demand)})
        if len(options.node) == 1 and value > 1
    ]
    if window is not None and window.least_requests > 1:
        found.append(_flip("window", window.least_requests, "", lambda count: _limit(options, link, count)))
    if reads is not None and reads.even_reads is not None and reads.even_reads > 1:
        found.append(_flip("reads", reads.even_reads, "", lambda count: _sooner(options, link, reads, count)))
    return tuple(flip for flip in found if flip["from"] != flip["to"])


def _flip(parameter: str, value: int, unit: str, ask: Callable[[int], str | None]) -> dict[str, Any]:
    return {"parameter": parameter, "value": value, "unit": unit, "from": ask(value - 1), "to": ask(value)}


def _loans(options: PoolOptions, size: int) -> str | None:
    """By how many loans every job is placed; None where it is not."""
    lending = plan_of(tuple(options.demand), (size,) * len(options.demand)).lending
    return None if lending is None else f"loans={len(lending.loans)}"


def _limit(options: PoolOptions, link: Link | None, count: int) -> str | None:
    asked = replace(options, window=count)
    window = window_of(asked, route_of(asked, link))
    return None if window is None else f"limited_by={window.limited_by}"


def _sooner(options: PoolOptions, link: Link | None, reads: Reads, count: int) -> str | None:
    asked = replace(options, reads=count, data=Bytes(reads.data_bytes))
    route: Route = route_of(asked, link)
    found = reads_of(asked, route, window_of(asked, route), reads.data_bytes)
    return None if found is None else f"sooner={found.sooner}"


def _next(options: PoolOptions, window: Window | None) -> tuple[str, ...]:
    """The same with a window that fills the path."""
    if window is None or window.limited_by == "path":
        return ()
    demand = ",".join(f"{size}B" for size in options.demand)
    node = ",".join(f"{size}B" for size in options.node)
    words = (
        f"--item {window.item_bytes}B --latency {window.round_trip_s:.17g}s --path {window.path_bytes_per_s:.17g}B/s"
    )
    return (f"meshwright pool --demand {demand} --node {node} --window {window.least_requests} {words}",)
