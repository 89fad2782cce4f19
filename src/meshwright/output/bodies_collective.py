"""What the JSON documents of collectives hold: names and types, for the published schema."""

from __future__ import annotations

from typing import TypedDict

from meshwright.output.bodies import Amount, Count, Name


class CollectiveMeasures(TypedDict):
    """One algorithm; null where it is refused.

    start_up_s: the part that bytes do not change, null where flows overlap rounds.   channels: parts of the message
    that go round at once, each in an order of ranks of its own.   bytes_per_rank: what the rank that
    sends most sends.   busiest_link: the one that is busy for longest, and its bytes.   busiest_link_busy: the part of
    the time that these take on it.
    """

    axis: Name
    algorithm: Name
    time_s: Amount | None
    start_up_s: Amount | None
    rounds: Count | None
    launches: Count | None
    channels: Count | None
    bytes_per_rank: Amount | None
    busiest_link: str | None
    busiest_link_bytes: Amount | None
    busiest_link_busy: Amount | None
    algbw_bytes_per_s: Amount | None
    busbw_bytes_per_s: Amount | None


class PortItem(TypedDict):
    """Links of one sort that carry something; ranks are those whose sends cross them."""

    kind: Name
    links: Count
    total_bytes: Amount
    busiest: Name
    busiest_bytes: Amount
    ranks: list[Count]


class BoxCrossing(TypedDict):
    """What leaves one box for another."""

    sender: Name
    receiver: Name
    total_bytes: Amount
    sends: Count


class MergeItem(TypedDict):
    """The groups of one axis, all at once, and the fastest algorithm; ports and crossings where they were asked for.

    ranks: of the first groups.
    """

    axis: Name
    group_size: Count
    groups: Count
    ranks: list[list[Count]]
    algorithm: str | None
    time_s: Amount | None
    ports: list[PortItem] | None
    crossings: list[BoxCrossing] | None


class CollectiveBody(TypedDict):
    """How long a collective takes on a fabric."""

    fabric: Name
    merges: list[MergeItem]
