"""What the JSON document of `pool` holds: names and types, for the published schema."""

from __future__ import annotations

from typing import Literal, TypedDict

from meshwright.output.bodies import Amount, Count, Name


class RegionItem(TypedDict):
    """A part of one job's data: owner is the job's node, host the node whose memory holds it."""

    id: Name
    owner: Count
    host: Count
    size_bytes: Count
    kind: Literal["own", "borrowed"]


class PoolNode(TypedDict):
    """One node and its job; used_bytes are of its memory by whomever, working_bytes of its job wherever they lie."""

    node: Count
    capacity_bytes: Count
    demand_bytes: Count
    shortfall_bytes: Count
    own_bytes: Count
    borrowed_bytes: Count
    lent_bytes: Count
    used_bytes: Count
    working_bytes: Count
    free_before_bytes: Count
    free_bytes: Count


class WindowItem(TypedDict):
    """Requests under way; null for any number of them. least_requests fill the path."""

    requests: Count | None
    item_bytes: Count
    round_trip_s: Amount
    path_bytes_per_s: Amount
    in_flight_bytes: Count | None
    window_bytes_per_s: Amount | None
    usable_bytes_per_s: Amount
    limited_by: Literal["window", "path"]
    least_requests: Count


class PeriodItem(TypedDict):
    """Reads one each period; behind_s is how late the last of them starts."""

    period_s: Amount
    average_bytes_per_s: Amount
    idle_s: Amount
    behind_s: Amount
    keeps_up: bool


class ReadsItem(TypedDict):
    """Reading data that lies elsewhere; even_reads is null where fetching never pays."""

    data_bytes: Count
    rate_bytes_per_s: Amount
    read_s: Amount
    periods: list[PeriodItem]
    average_span: Amount | None
    reads: Count
    remote_s: Amount
    local_scans_s: Amount
    fetched_s: Amount
    saving_s: float
    local_bytes: Count
    even_reads: Count | None
    sooner: Literal["remote", "fetch"]


class TraceItem(TypedDict):
    """The pool after one operation; the last may be refused, by a code and its reason, and then nothing changes."""

    number: Count
    do: Name
    node: int
    region: str
    state: Literal["free", "exported", "mapped", "in_use", "returned"]
    free_bytes: list[Count]
    refused: str | None
    reason: str | None


class PoolBody(TypedDict):
    """Who holds what. loans, search: null where all spares together are too little.

    free_elsewhere_before_bytes: of nodes that do not borrow.   window, reads: null without a path.
    """

    demand_bytes: Count
    capacity_bytes: Count
    shortfall_bytes: Count
    used_bytes: list[Count]
    free_elsewhere_before_bytes: Count
    free_after_bytes: Count
    loans: Count | None
    search: Literal["exact", "greedy"] | None
    regions: list[RegionItem]
    nodes: list[PoolNode]
    window: WindowItem | None
    reads: ReadsItem | None
    trace: list[TraceItem]
