"""The bodies of `verify`: what stands beside the common fields of a result."""

from __future__ import annotations

from typing import Literal, TypedDict

from meshwright.base.result import Excluded


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
    """Of steps without a tape, the slowest rank's; idle_fraction: of each stage, of the recorded one.

    predicted_*: null without rates of this machine, and `reason` says so.
    """

    step_s: float
    idle_fraction: list[float]
    predicted_step_s: float | None
    predicted_low_s: float | None
    predicted_high_s: float | None
    predicted_bubble_fraction: float | None
    reason: str | None


class VerifyRunBody(TypedDict):
    """`verify run`."""

    rows: list[VerifiedNumber]
    peak_alive: list[Alive]
    traffic: list[Sent]
    model_flops: list[int]
    times: VerifyTimes


class CallGroup(TypedDict):
    """The ranks that a call is between."""

    name: str
    axis: str
    ranks: list[int]


class WaitLink(TypedDict):
    """In a cyclic wait: a call of a rank, and what it waits for."""

    rank: int
    call: int
    waits_for: str


class CallFault(TypedDict):
    """What is wrong with a call. other, other_call: the rank on the other side and its call, null for none."""

    kind: str
    group: CallGroup
    rank: int
    call: int
    other: int | None
    other_call: int | None
    text: str
    cycle: list[WaitLink]


class CallsBody(TypedDict):
    """`verify run --check`: the calls of a step, of all ranks."""

    calls: int
    faults: list[CallFault]


class Bubble(TypedDict):
    """A schedule whose stages sleep, measured beside simulated; null but for `excluded` where it takes no such shape.

    *_s: from the start to the last gradient of all ranks; *_step_s: with the update.   *_bubble: the part that ranks
    wait.   overhead_s: what slots cost beside their sleep, in the simulation.   allowed_s: how far apart both may be.
    """

    schedule: str
    excluded: Excluded | None
    simulated_s: float | None
    measured_s: float | None
    lowest_s: float | None
    highest_s: float | None
    simulated_step_s: float | None
    measured_step_s: float | None
    simulated_bubble: float | None
    measured_bubble: float | None
    overhead_s: float | None
    allowed_s: float | None
    within: bool | None


class BubblesBody(TypedDict):
    """`verify run --sleep`. slot_overhead_s: of one slot, measured before.   share: that is allowed beside it."""

    slot_overhead_s: float
    share: float
    bubbles: list[Bubble]
