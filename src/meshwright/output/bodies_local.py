"""What the JSON document of `calibrate local` holds: names and types, for the published schema."""

from __future__ import annotations

from typing import Literal, TypedDict

from meshwright.output.bodies import Amount, Count, Name


class FigureItem(TypedDict):
    """One fitted figure; low and high are the lesser and the larger value that the quartiles give."""

    id: Name
    figure: Literal["alpha", "launch", "rate", "step", "layer", "slot", "block", "factor"]
    of: Name
    format: str
    ranks: Count
    unit: str
    value: Amount
    low: Amount
    high: Amount
    count: Count


class MeasuredSize(TypedDict):
    """One measured size: the median and the quartiles of its rounds. unit: of the amount."""

    id: Name
    of: Name
    format: Name
    ranks: Count
    amount: Amount
    unit: Name
    time_s: Amount
    low_s: Amount
    high_s: Amount
    count: Count


class OverlapItem(TypedDict):
    """An all_reduce beside matrix products, alone and from one start; hidden_share is the overlap efficiency."""

    communication_alone_s: Amount
    computation_alone_s: Amount
    communication_together_s: Amount
    computation_together_s: Amount
    finish_s: Amount
    communication_slowdown: Amount
    computation_slowdown: Amount
    sum_alone_s: Amount
    longest_alone_s: Amount
    saving_s: float
    interference_s: float
    hidden_share: float
    bound_by: Literal["communication", "computation"]
    id: Name
    message_bytes: Count
    ranks: Count
    communication_alone_low_s: Amount
    communication_alone_high_s: Amount
    computation_alone_low_s: Amount
    computation_alone_high_s: Amount
    communication_together_low_s: Amount
    communication_together_high_s: Amount
    computation_together_low_s: Amount
    computation_together_high_s: Amount
    finish_low_s: Amount
    finish_high_s: Amount
    count: Count


class ProbeStep(TypedDict):
    """A real step of the probe; factor is that by which its exchanges are longer than by themselves."""

    id: Name
    time_s: Amount
    low_s: Amount
    high_s: Amount
    count: Count
    predicted_s: Amount
    factor: Amount


class CheckedStep(TypedDict):
    """A real step that was asked about, and the interval stated for it; the parts are those of predicted_s."""

    id: Name
    model: Name
    time_s: Amount
    low_s: Amount
    high_s: Amount
    count: Count
    predicted_s: Amount
    predicted_low_s: Amount
    predicted_high_s: Amount
    compute_s: Amount
    exchange_s: Amount
    bubble_s: Amount
    update_s: Amount
    overhead_s: Amount
    small_s: Amount
    inside: bool


class LocalBody(TypedDict):
    """A machine, measured on its own processes."""

    platform: Name
    rows: list[FigureItem]
    sizes: list[MeasuredSize]
    overlaps: list[OverlapItem]
    steps: list[ProbeStep]
    checks: list[CheckedStep]
