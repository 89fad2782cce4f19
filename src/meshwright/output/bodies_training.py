"""What the JSON document of `plan train` holds beside the common fields: names and types, for the published schema."""

from __future__ import annotations

from typing import Literal, TypeAlias, TypedDict

from meshwright.output.bodies import Amount, Count, Name
from meshwright.output.bodies_training_around import (
    InputSupply,
    SlowDevices,
    TrainExperts,
    TrainOffload,
    TrainOverheads,
    TrainScaling,
    WholeModel,
)

TrainLimit: TypeAlias = Literal[
    "memory", "compute", "communication", "bubble", "update", "stragglers", "offload", "input", "deadline"
]
"""What limits a plan."""


class TrainMemory(TypedDict):
    """The ledger of the fullest rank: resident state, and beside it the computed parts, or the budget instead.

    host_bytes: what an offload keeps on the host of one device, whose share host_capacity_bytes is.
    """

    parameters_bytes: Count
    gradients_bytes: Count
    optimizer_state_bytes: Count
    activations_bytes: Count
    gathered_bytes: Count
    transient_bytes: Count
    workspace_bytes: Count
    resident_bytes: Count
    activation_budget_bytes: Count | None
    computed_bytes: Count
    per_rank_bytes: Count
    capacity_bytes: Count
    host_bytes: Count
    host_capacity_bytes: Count | None
    fullest_stage: Count


class StepParts(TypedDict):
    """One step of the slowest rank; the parts add up to the total."""

    compute_s: Amount
    exposed_comm_s: Amount
    bubble_s: Amount
    update_s: Amount
    straggler_s: Amount
    offload_wait_s: Amount
    input_wait_s: Amount
    total_s: Amount


class ExposedParts(TypedDict):
    """Communication that a step waits for: in layers, of weights and gradients, between stages."""

    layers_s: Amount
    state_s: Amount
    boundaries_s: Amount


class Calendar(TypedDict):
    """The whole run; the parts add up to the total. overhead_s: saves, rework and recovery."""

    useful_s: Amount
    overhead_s: Amount
    planned_stops_s: Amount
    total_s: Amount


class StateExchangeParts(TypedDict):
    """The channel of weights and gradients. collectives, busy_s and compute_s are of one micro-batch.

    sent_bytes: of a rank, in one of the collectives.   layer_bytes, layer_gather_s: of the largest layer.
    """

    collectives: Count
    sent_bytes: Amount
    busy_s: Amount
    compute_s: Amount
    layer_bytes: Count
    layer_gather_s: Amount
    first_bytes: Count


class SimulatedStep(TypedDict):
    """The step of a finalist on the event engine; the parts add up to step_s less stragglers and input.

    decides: in words, where the simulated peak says other than the estimate.
    """

    step_s: Amount
    compute_s: Amount
    exposed_comm_s: Amount
    bubble_s: Amount
    update_s: Amount
    finish_s: Amount
    peak_bytes: Count
    peak_s: Amount
    over_estimate: float | None
    decides: str | None


class AliveBytes(TypedDict):
    """One kind of what is alive at the peak."""

    kind: Name
    bytes: Count


class TrainMeasures(TypedDict):
    """What a training plan says of each layout. sent_bytes: of a rank, on the channel, in a step."""

    system: Name
    step: StepParts
    exposed: ExposedParts
    exposed_fraction: Amount
    channel_s: Amount
    sent_bytes: Amount
    state_exchange: StateExchangeParts
    num_micro_batches: Count
    overhead_fraction: Amount
    calendar: Calendar
    useful_s: Amount
    finish_s: Amount
    gpu_hours: Amount
    gpu_hours_with_stops: Amount
    cost: Amount | None
    cost_without_stops: Amount | None
    energy_j: Amount | None
    mfu: Amount
    hfu: Amount
    tokens_per_s_per_gpu: Amount
    peak_rank: Count
    peak_alive: list[AliveBytes]
    simulated: SimulatedStep | None


class Searched(TypedDict):
    """Of all layouts. evaluated: not ruled out by a bound; fitting, on_time: of these. complete: not interrupted."""

    looked_at: Count
    evaluated: Count
    fitting: Count
    on_time: Count
    complete: bool


class Binding(TypedDict):
    """What limits the plan, and in words how."""

    limit: TrainLimit
    text: Name


class TrainLimits(TypedDict):
    """What the deadline leaves a step of the best layout; below zero where it leaves nothing."""

    step_limit_s: float
    slack_s: float
    compute_limit_s: float
    most_comm_wait_s: float
    efficiency_needed: Amount | None
    step_without_overlap_s: Amount
    fits_without_overlap: bool
    left_s: float


class TrainSystem(TypedDict):
    """One system with its best layout; null what only a layout that fits has. least_boxes: that hold the model."""

    id: Name
    name: Name
    nodes: Count
    devices: Count
    best: str | None
    fits: bool
    on_time: bool
    step_s: Amount | None
    finish_s: Amount | None
    gpu_hours: Amount | None
    gpu_hours_with_stops: Amount | None
    cost: Amount | None
    cost_without_stops: Amount | None
    energy_j: Amount | None
    failures_per_s: Amount
    binding: Binding
    limits: TrainLimits | None
    least_boxes: Count | None
    searched: Searched


class TrainBody(TypedDict):
    """The run, and every system that was asked about; all but searched and systems is of the best one.

    step_tokens: that count as progress.   executed_step_tokens: with padding.
    """

    steps: Count
    step_tokens: Count
    executed_step_tokens: Count
    searched: Searched
    initialisation: WholeModel
    save_bytes: Count
    save_s: Amount
    failures_per_s: Amount
    binding: Binding
    limits: TrainLimits | None
    systems: list[TrainSystem]
    overheads: TrainOverheads
    stragglers: SlowDevices | None
    input: InputSupply | None
    scaling: TrainScaling | None
    offload: TrainOffload | None
    experts: TrainExperts | None
