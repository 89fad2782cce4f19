"""What the JSON documents of real runs hold: names and types, for the published schema."""

from __future__ import annotations

from typing import Literal, TypedDict

from meshwright.output.bodies import Amount, Count, Name


class RunStep(TypedDict):
    """A step. loss (a token) and gradient_norm (before clipping): null where they are no number."""

    step: Count
    loss: float | None
    gradient_norm: Amount | None
    tokens: Count
    seconds: Amount
    tokens_per_s: Amount


class RunTrainBody(TypedDict):
    """A training run. tokens_per_s, step_time_s: medians of the steps after the first, or of the only one.

    mfu, peak_flops_per_s, peak_of: null where no peak of the device is known.
    """

    layout_id: Name
    ranks: Count
    processes: Count
    backend: Name
    device: Name
    schedule: Name
    micro_batches: Count
    tokens_per_s: Amount
    step_time_s: Amount
    peak_flops_per_s: Amount | None
    peak_of: str | None
    mfu: Amount | None
    steps: list[RunStep]


class ParityLayout(TypedDict):
    """One layout beside one process. loss, norm, weight: the largest of all ranks, null for no number.

    differs, differs_on_rank: the first weight that differs by more than is allowed, null for none.
    """

    layout_id: Name
    ranks: Count
    schedule: Name
    loss: Amount | None
    norm: Amount | None
    weight: Amount | None
    weight_name: Name
    differs: str | None
    differs_on_rank: Count | None
    agrees: bool


class VerifyParityBody(TypedDict):
    """Layouts beside one process. allowed: of each of the three, a difference in float64, a multiple in bf16."""

    format: Literal["float64", "bf16"]
    allowed: Amount
    layouts: list[ParityLayout]
