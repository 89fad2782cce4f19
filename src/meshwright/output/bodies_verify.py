"""The bodies of `verify`: what stands beside the common fields of a result."""

from __future__ import annotations

from typing import Literal, TypedDict


class Term(TypedDict):
    """One amount of a prediction. reason: why a run has it by design; empty for what the plan has too."""

    name: str
    value: int
    reason: str


class VerifiedNumber(TypedDict):
    """One number of one rank: what the plan says alone, what is predicted of the run, and what was measured."""

    rank: int
    quantity: Literal["resident", "peak", "traffic", "flops"]
    name: str
    unit: str
    planned: int | None
    predicted: int
    measured: int
    error: float | None
    within: float
    holds: bool
    terms: list[Term]


class Alive(TypedDict):
    """Bytes of one category in the fullest moment of a rank."""

    rank: int
    phase: str
    category: str
    bytes: int


class Sent(TypedDict):
    """Messages of one collective, axis and phase: as nccl-tests count them, as a ring sends, as the backend does."""

    rank: int
    collective: str
    axis: str
    phase: str
    calls: int
    message_bytes: int
    sent_bytes: int
    backend_bytes: int


class VerifyTimes(TypedDict):
    """Of steps without a tape, the slowest rank's; idle_fraction: of each stage, of the recorded one."""

    step_s: float
    idle_fraction: list[float]
    predicted_step_s: float | None
    predicted_bubble_fraction: float | None
    reason: str


class VerifyRunBody(TypedDict):
    """`verify run`."""

    rows: list[VerifiedNumber]
    peak_alive: list[Alive]
    traffic: list[Sent]
    model_flops: list[int]
    times: VerifyTimes
