"""What the JSON documents of commands on the event engine hold: names and types, for the published schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypedDict

from meshwright.base.result import Excluded
from meshwright.output.bodies import Amount, Count, Name

# ------------------------------------------------------------------------------------------------------- checkpoints


class BestInterval(TypedDict):
    """The best interval of one form, and its overhead in that form."""

    interval_s: Amount
    overhead_fraction: Amount


class SizeParts(TypedDict):
    """Bytes of a model's save, which add up to size_bytes."""

    parameters_bytes: Count
    master_bytes: Count
    optimizer_state_bytes: Count


class IntervalItem(TypedDict):
    """One interval. Fractions are of useful time; finish_s is of the whole run."""

    id: Name
    interval_s: Amount
    save_fraction: Amount
    rework_fraction: Amount
    recovery_fraction: Amount
    overhead_fraction: Amount
    retry_overhead_fraction: Amount
    spikes_fraction: Amount
    spikes_s: Amount
    finish_s: Amount


class IntervalPoint(TypedDict):
    """The overhead of an interval near the best, by first order and by Poisson retry."""

    id: Name
    interval_s: Amount
    overhead_fraction: Amount
    retry_overhead_fraction: Amount


class FlatPart(TypedDict):
    """The intervals whose overhead is at most so many points above the best."""

    within_fraction: Amount
    from_s: Amount
    to_s: Amount


class DrawnRun(TypedDict):
    """The run drawn many times at one interval; failures and redone_s are means."""

    id: Name
    interval_s: Amount
    runs: Count
    mean_s: Amount
    standard_error_s: Amount
    p05_s: Amount
    p50_s: Amount
    p95_s: Amount
    overhead_fraction: Amount
    failures: Amount
    redone_s: Amount


class IntervalBody(TypedDict):
    """How often to save. job_mtbf_s, card_mtbf_s: of hardware, null where none is stated; size_parts: of a model."""

    size_bytes: Count
    size_parts: SizeParts | None
    save_s: Amount
    stall_s: Amount
    lag_s: Amount
    failures_per_s: Amount
    spikes_per_s: Amount
    job_mtbf_s: Amount | None
    card_mtbf_s: Amount | None
    first_order: BestInterval
    retry: BestInterval
    flat: FlatPart
    intervals: list[IntervalItem]
    curve: list[IntervalPoint]
    simulated: list[DrawnRun]


class SaveItem(TypedDict):
    """One save, with its times as if nothing failed; null where it is dropped."""

    id: Name
    due_s: Amount | None
    captured_s: Amount | None
    resumed_s: Amount | None
    upload_start_s: Amount | None
    upload_end_s: Amount | None
    committed_s: Amount | None
    stall_s: Amount
    state: Literal["committed", "lost", "dropped", "not_reached"]


class BacklogPoint(TypedDict):
    """What is copied and not yet written, right after a copy or an upload ended."""

    at_s: Amount
    saves: Count
    backlog_bytes: Amount


class SaveLoss(TypedDict):
    """What a failure goes back to; null for the start."""

    at_s: Amount
    recovered: str | None
    recovered_s: Amount
    rework_s: Amount
    stood_s: Amount
    lost: list[Name]
    uploaded_bytes: Amount


class SavesBody(TypedDict):
    """Every save, and what waits for the writer; failure is null where none was asked about."""

    saves: list[SaveItem]
    write_s: Amount
    arrival_bytes_per_s: Amount | None
    write_bytes_per_s: Amount
    keeps_up: bool
    least_interval_s: Amount
    stall_s: Amount
    saves_taken: Count
    largest_backlog_bytes: Amount
    buffers_used: Count
    backlog: list[BacklogPoint]
    failure: SaveLoss | None


# --------------------------------------------------------------------------------------------------------- schedule


class ScheduleRow(TypedDict):
    """One schedule; null where it does not take the shape. Lists have an entry a rank.

    total_s: of a step whose update waits for the last gradient of all ranks.   step_without_barrier_s: from one step's
    start to the next when each rank updates after its own last gradient: the longest span of a rank, and its update.
    bubble_of: the span whose idle time the formula `bubble_s` is.   over_fastest, below_largest: against the fastest
    and the largest here.   messages: activations of the step; as many gradients come back.
    """

    schedule: Name
    fits: bool
    excluded: Excluded | None
    total_s: Amount | None
    step_without_barrier_s: Amount | None
    gradients_s: Amount | None
    compute_s: Amount | None
    transfer_wait_s: float | None
    idle_s: list[Amount]
    idle_fraction: Amount | None
    bubble_over_ideal: Amount | None
    utilization: Amount | None
    bubble_s: float | None
    bubble_of: Literal["step", "rank"] | None
    over_fastest: Amount | None
    peak_bytes: list[Count]
    largest_peak_bytes: Count | None
    below_largest: Amount | None
    activation_sets: Amount | None
    virtual_stages: Count | None
    messages: Count | None
    crossings: Count | None
    extra_crossings: Count | None
    parameter_copies: Count | None


class SchedulePicture(TypedDict):
    """The step of the chosen schedule: a row of letters a rank, each letter the same stretch of time."""

    schedule: Name
    letter_s: Amount
    ranks: list[Name]


class ScheduleBody(TypedDict):
    """Every schedule asked for, those that fit first, the fastest first. chosen and what follows: null if none fits.

    critical_path_s: of the chosen one, seconds of the chain of tasks that decides the step, by what they do.
    """

    chosen: str | None
    fitting: Count
    schedules: list[ScheduleRow]
    critical_path_s: Mapping[str, Amount] | None
    timeline: SchedulePicture | None
