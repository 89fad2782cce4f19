"""What the JSON documents of commands on collectives hold: names and types, for the published schema."""

from __future__ import annotations

from typing import Literal, TypedDict

from meshwright.base.result import Basis
from meshwright.output.bodies import Amount, Count, Name


class CheckedSizeItem(TypedDict):
    """One size of a run. Rates are bus bandwidths; null where nothing is known of that size."""

    line: Count
    size_bytes: Count
    time_s: Amount
    busbw_bytes_per_s: Amount
    expected_bytes_per_s: Amount | None
    low_bytes_per_s: Amount | None
    high_bytes_per_s: Amount | None
    bound_bytes_per_s: Amount
    of_expected_fraction: Amount | None
    of_wire_fraction: Amount
    state: Literal["normal", "low", "above", "not_judged"]
    basis: Basis
    by: Name
    algorithm: Name


class CheckedRangeItem(TypedDict):
    """A part of the curve that is judged by itself."""

    name: Literal["start-up", "between", "bandwidth"]
    from_bytes: Count
    judged: Count
    low: Count
    is_low: bool


class CauseItem(TypedDict):
    """Why a rate is what it is. share: the measured rate over the predicted, where they match."""

    id: Name
    title: Name
    evidence: Name
    fix: Name
    predicted_bytes_per_s: Amount | None
    share: Amount | None


class WireBound(TypedDict):
    """What a program reaches on a full wire, and how often a byte of the message crosses it."""

    algorithm: Name
    busbw_bytes_per_s: Amount
    bytes_per_byte: Amount


class CheckBody(TypedDict):
    """A run of nccl-tests beside what is expected. above: what explains a rate above the wire, null where none is."""

    operation: Name
    ranks: Count
    boxes: Count
    nics_per_box: Count
    version: str | None
    rows: list[CheckedSizeItem]
    ranges: list[CheckedRangeItem]
    causes: list[CauseItem]
    above: CauseItem | None
    bounds: list[WireBound]
