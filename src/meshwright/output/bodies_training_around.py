"""What `plan train` says around the step of the layout it shows: names and types, for the published schema."""

from __future__ import annotations

from typing import Literal, TypedDict

from meshwright.output.bodies import Amount, Count, Name
from meshwright.output.bodies_timelines import BestInterval


class WholeModel(TypedDict):
    """Bytes of a rank that builds the whole model before it is sharded, parameters alone."""

    fp32_bytes: Count
    parameters_bytes: Count
    fp32_fits: bool
    parameters_fit: bool
    avoided_by: Name


class DrawnFinishes(TypedDict):
    """The run drawn so many times, with planned stops; failures and redone_s are means."""

    runs: Count
    seed: Count
    mean_s: Amount
    standard_error_s: Amount
    p10_s: Amount
    p50_s: Amount
    p90_s: Amount
    on_time_share: Amount | None
    failures: Amount
    redone_s: Amount


class TrainOverheads(TypedDict):
    """What saves and failures add, as fractions of useful time; save, rework and recovery are the first order."""

    save_fraction: Amount
    rework_fraction: Amount
    recovery_fraction: Amount
    overhead_fraction: Amount
    spikes_fraction: Amount
    retry_overhead_fraction: Amount
    retry_finish_s: Amount
    best_first_order: BestInterval | None
    best_retry: BestInterval | None
    best_saves_s: float | None
    drawn: DrawnFinishes | None


class SlowReaction(TypedDict):
    """One answer to a slow device, against devices that are well."""

    name: Literal["wait", "redistribute", "exclude"]
    step_s: Amount
    extra_s: float
    exact_extra_s: float
    once_s: Amount
    total_s: float


class SlowDevices(TypedDict):
    """A step over devices that vary, and what to do about a slow one."""

    devices: Count
    expected_max: Amount
    sigma_s: Amount
    even_step_s: Amount
    increase_s: Amount
    step_s: Amount
    slack_share: Amount | None
    late_sigmas: Amount
    exact_late_sigmas: Amount
    exclude_steps: Amount
    exclude_from_steps: Count | None
    best: Literal["wait", "redistribute", "exclude"]
    reactions: list[SlowReaction]
    not_modelled: Name


class InputSupply(TypedDict):
    """Sequences that workers prepare, and that steps ask for."""

    supply_sequences_per_s: Amount
    demand_sequences_per_s: Amount
    wait_s: Amount
    step_s: Amount
    least_workers: Count


class BatchRoom(TypedDict):
    """What a larger batch can still save, by the gradient noise scale."""

    steps: Count
    batch_tokens: Count
    least_steps: Amount
    least_tokens: Amount
    batch_over_noise: Amount
    times_least_steps: Amount
    times_least_tokens: Amount
    speed_up_limit: Amount
    doubling_speed_up: Amount
    advice: Literal["grow_batch", "keep_batch"]


class MoreDevices(TypedDict):
    """So many devices, with a batch that grows with them (weak) and with the same batch (strong)."""

    devices: Count
    times: Amount
    weak_batch_tokens: Count
    weak_steps: Amount
    weak_s: Amount
    strong_step_s: Amount
    strong_s: Amount
    wait_share: Amount


class MoreDevicesTable(TypedDict):
    """Rows by number of devices; above them the step from which they start."""

    batch_tokens: Count
    steps: Count
    step_s: Amount
    wait_s: Amount
    rows: list[MoreDevices]
    not_modelled: Name


class TrainScaling(TypedDict):
    """Whether to grow the batch with the devices."""

    advice: Literal["grow_batch", "keep_batch"]
    batch: BatchRoom
    table: MoreDevicesTable


class TrainOffload(TypedDict):
    """The rates behind an offload, what the host keeps of one device, and where gradients are cast."""

    link_bytes_per_s: Amount
    host_bytes_per_s: Amount
    cast_on: Literal["device", "host"] | None
    host_bytes: Count
    host_capacity_bytes: Count | None
    wait_s: Amount


class TrainExperts(TypedDict):
    """Rows of experts in one micro-batch, expected, where they are not even or a capacity bounds them.

    tokens, choices: of the ranks that share a copy of the experts.   busiest_over_even, run_over_even: what the busiest
    rank is sent and what it runs, over an even share.   dropped_rows, padding_rows: of a layer.
    """

    tokens: Count
    choices: Count
    busiest_over_even: Amount
    run_over_even: Amount
    capacity_rows: Count | None
    dropped_rows: Amount
    dropped_fraction: Amount
    padding_rows: Amount
    padding_fraction: Amount
