"""What the JSON document of each command holds beside the common fields: names and types, for the published schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NotRequired, TypeAlias, TypedDict

from meshwright.base.errors import UserError
from meshwright.base.result import Basis, Verdict

Count: TypeAlias = Annotated[int, ("minimum", 0)]
Amount: TypeAlias = Annotated[float, ("minimum", 0)]
Limit: TypeAlias = Literal["sessions", "concurrency", "capacity", "tpot"]
"""What keeps a batch from growing."""
Name: TypeAlias = Annotated[str, ("minLength", 1)]
CODE: Final = "^(BUG|(" + "|".join(sorted(cls.prefix for cls in UserError.__subclasses__())) + ")[0-9]{3})$"


class Failure(TypedDict):
    """Why there is no answer: the code, and what to type instead (empty only for our own bugs)."""

    code: Annotated[str, ("pattern", CODE)]
    message: Name
    cause: Name
    fix: str


# ---------------------------------------------------------------------------------------------------------- inspect


class Parts(TypedDict):
    """A model by part; the parts add up to the total."""

    total: Count
    embedding: Count
    attention: Count
    feed_forward: Count
    experts: Count
    router: Count
    norms: Count
    head: Count
    other: Count


class Uncounted(TypedDict):
    """A part that the config names and does not size."""

    parameters: None
    note: str


class Apart(TypedDict):
    """Parts that the text decoder does not run. engram: tables looked up by the last tokens, where a model has some."""

    vision: Count | Uncounted
    mtp: Count | Uncounted
    buffers: Count | Uncounted
    engram: NotRequired[Count | Uncounted]


class BlockGroup(TypedDict):
    """Layers of one kind that follow each other."""

    count: Annotated[int, ("minimum", 1)]
    mixer: Mapping[str, Any]
    feed_forward: Mapping[str, Any]


class OperatorRow(TypedDict):
    """One distinct operator; shape is [out, in], axes name what cuts each dim."""

    name: Name
    layers: Count
    shape: list[Count]
    axes: list[str | None]
    experts: Count
    weight_bytes: Amount
    flops_per_token: Amount


class ConventionRow(TypedDict):
    """FLOPs a token by one way to count them, and how many times the product's own count that is."""

    convention: Name
    flops_per_token: Amount
    times_shapes: Amount
    title: Name


class TrainingWork(TypedDict):
    """Training on one sequence of the length that was asked about."""

    sequence: Count
    flops_per_token: Amount
    flops_per_sequence: Amount
    conventions: list[ConventionRow]


class InspectBody(TypedDict):
    """What follows from the shapes alone."""

    parameters: Parts
    parameter_bytes: Parts
    bytes_by_format: Mapping[str, Count]
    active_parameters: Count
    kv_bytes_per_token: Count
    kv_bytes_per_token_by_kind: Mapping[str, Count]
    fixed_state_bytes: Count
    flops_per_token: Amount
    weight_bytes_per_step: Amount
    state_bytes_per_step: Count
    blocks: list[BlockGroup]
    operators: list[OperatorRow]
    apart: Apart
    training: TrainingWork | None


# ------------------------------------------------------------------------------------------------------ fit and plan


class ReserveItems(TypedDict):
    """What a computed `workspace_bytes` is the sum of."""

    comm_buffers_bytes: Count
    activations_bytes: Count
    workspace_bytes: Count
    padding_bytes: Count
    in_flight_bytes: Count


class EngineBudget(TypedDict):
    """What an engine's own rule leaves for KV; null where its rule for the model's layers is not known.

    before_bytes: taken before it asks what is free.   outside_low_bytes, outside_high_bytes: what it takes beside all
    that it counts, for which free_outside_bytes are left.   graphs_low_bytes, graphs_high_bytes: what it captures,
    inside what it shares out or beside it.   loading_gpu_memory_utilization: the share at which weights are loaded and
    nothing is left; at the least one a longest request fits.   kv_bytes_per_token: by the engine's count.
    activations_bytes: of a computed reserve, those of its largest step.   least_kv_bytes_per_token: what a position
    adds where every window is full.   request_blocks: of one request of max_model_len.
    """

    id: Name
    name: Name
    versions: Name
    gpu_memory_utilization: Amount
    block_size: Count
    budget_bytes: Count
    weights_bytes: Count
    weights_basis: Literal["formula", "stated"]
    before_bytes: Count
    outside_low_bytes: Count
    outside_high_bytes: Count
    free_outside_bytes: int
    graphs_low_bytes: Count
    graphs_high_bytes: Count
    graphs_within: bool
    reserve_bytes: Count
    activations_bytes: Count | None
    reserve_basis: Literal["assumed", "stated"]
    available_kv_bytes: int
    loading_gpu_memory_utilization: Amount | None
    least_gpu_memory_utilization: Amount | None
    largest_safe_gpu_memory_utilization: Amount
    kv_block_bytes: Count | None
    layer_groups: Count | None
    kv_bytes_per_token: Amount | None
    least_kv_bytes_per_token: Amount
    kv_blocks: Count | None
    kv_tokens: Count | None
    request_blocks: Count | None
    max_model_len: Count | None
    max_concurrency: Amount | None


class Memory(TypedDict):
    """The ledger of the fullest device. max_sessions is null where no session length was given."""

    parameters_bytes: Count
    kv_cache_bytes: Count
    workspace_bytes: Count
    per_rank_bytes: Count
    capacity_bytes: Count
    max_sessions: Count | None
    max_kv_tokens: Count
    fullest_stage: Count
    reserve: NotRequired[ReserveItems]


class RoomAtLength(TypedDict):
    """Sessions of one length that fit, and the positions that they have together."""

    context: Count
    session_bytes: Count
    max_sessions: Count
    max_kv_tokens: Count


class KvLayers(TypedDict):
    """Layers of one kind, and what a cached position adds to one of them on a rank."""

    kind: Name
    layers: Count
    bytes_per_token: Count


class FitMemory(Memory):
    """The ledger, and the whole replica. by_length: where a session's bytes are no multiple of its positions."""

    free_bytes: int
    all_ranks_bytes: Count
    all_ranks_free_bytes: int
    kv_bytes_per_token: Count
    kv_layers: list[KvLayers]
    weights_over_capacity: Amount
    parameters_by_part_bytes: Mapping[str, Count]
    engine: NotRequired[EngineBudget]
    by_length: NotRequired[list[RoomAtLength]]


class FitBody(TypedDict):
    """The ledger that was asked for."""

    memory: FitMemory


class Exchange(TypedDict):
    """One kind of exchange of a step."""

    axis: Name
    operation: Name
    after: Name
    ranks: Count
    algorithm: Name
    rounds: Count
    message_bytes: Amount
    calls_per_step: Count
    time_s: Amount
    basis: Basis
    archived_bytes: Count | None
    platform: str | None


class UnderFault(TypedDict):
    """A layout with the fault replayed."""

    stopped_replicas: list[Count]
    finish_times_s: list[Amount]
    last_finish_s: Amount
    on_time_count: Count
    cost_gpu_s: Amount
    cost_per_on_time_gpu_s: Amount | None
    energy_j: Amount | None


class TurnMeasures(TypedDict):
    """What a plan of sessions in turn says of each layout; null where it breaks a rule or the number does not exist."""

    step_time_s: Amount | None
    local_time_s: Amount | None
    exchange_time_s: Amount | None
    service_time_s: Amount | None
    last_finish_s: Amount | None
    on_time_count: Count | None
    cost_gpu_s: Amount | None
    cost_per_on_time_gpu_s: Amount | None
    idle_devices: Count | None
    sessions_per_replica: Count | None
    read_bytes_per_step: Amount | None
    flops_per_step: Amount | None
    prefill_time_s: Amount | None
    finish_times_s: list[Amount]
    energy_j: Amount | None
    sessions_per_s: Amount | None
    fault: UnderFault | None
    groups: list[Exchange]


class CurvePoint(TypedDict):
    """From this deadline on: how many are on time, and what each costs."""

    deadline_s: Amount
    on_time_count: Count
    cost_per_on_time_gpu_s: Amount


class Curve(TypedDict):
    """Cost against the deadline for one layout."""

    id: Name
    points: list[CurvePoint]
    with_fault: list[CurvePoint] | None


class TurnBody(TypedDict):
    """curves: where a range of deadlines was given."""

    curves: NotRequired[list[Curve]]


class BatchMeasures(TypedDict):
    """What a plan of continuous batches says of each layout; null where it breaks a rule, or limits no batch."""

    batch: Count | None
    in_flight: Count | None
    micro_batches: Count | None
    capacity_batch: Count | None
    tpot_s: Amount | None
    ttft_s: Amount | None
    tokens_per_s: Amount | None
    tokens_per_s_per_gpu: Amount | None
    tokens_per_s_per_user: Amount | None
    cost_gpu_s_per_million_tokens: Amount | None
    tpot_with_prefill_s: Amount | None
    tokens_per_s_per_gpu_with_prefill: Amount | None
    step_time_s: Amount | None
    local_time_s: Amount | None
    exchange_time_s: Amount | None
    weight_bytes_per_step: Amount | None
    state_bytes_per_step: Amount | None
    read_bytes_per_step: Amount | None
    flops_per_step: Amount | None
    idle_devices: Count | None
    limited_by: Limit | None
    step_bound: Literal["weights", "kv_cache", "compute", "exchange"] | None
    groups: list[Exchange]


class ParetoPoint(TypedDict):
    """A layout and a batch that no other beats both per user and per GPU. breaks: the bounds that it does not keep."""

    id: Name
    batch: Count
    in_flight: Count
    tpot_s: Amount
    ttft_s: Amount
    tokens_per_s: Amount
    tokens_per_s_per_gpu: Amount
    tokens_per_s_per_user: Amount
    limited_by: Limit | None
    breaks: list[Literal["tpot", "ttft"]]


class BatchBody(TypedDict):
    """pareto: the fastest for a user first."""

    pareto: list[ParetoPoint]


Flip = TypedDict("Flip", {"parameter": Name, "value": float, "unit": str, "from": str | None, "to": str | None})
"""Where the choice changes: just below the value it is `from`, just above it `to`."""


# ---------------------------------------------------------------------------------------------------------- compare


class Verdicts(TypedDict):
    """The verdict of each side."""

    a: Verdict
    b: Verdict


class Ids(TypedDict):
    """The best of each side, by id."""

    a: str | None
    b: str | None


class IdLists(TypedDict):
    """Candidates that stand only in one side."""

    a: list[Name]
    b: list[Name]


class Change(TypedDict):
    """A number that moved, in the unit at the end of its path. relative: null where it moved from zero."""

    of: Name
    path: str
    a: float
    b: float
    difference: float
    relative: float | None


class Difference(TypedDict):
    """Anything else that differs."""

    of: Name
    path: str
    a: bool | float | str | None
    b: bool | float | str | None


class OneSided(TypedDict):
    """A number that only one side has."""

    side: Literal["a", "b"]
    of: Name
    path: str
    value: float


class CompareBody(TypedDict):
    """What differs between two answers."""

    compared: Name
    verdicts: Verdicts
    best_ids: Ids
    inputs_changed: list[Difference]
    changes: list[Change]
    words_changed: list[Difference]
    only: list[OneSided]
    candidates_only: IdLists


# ---------------------------------------------------------------------------------------------------------- explain


class Place(TypedDict):
    """An operand that is computed or given: the place of its record."""

    node: Count


class Constant(TypedDict):
    """An operand that is a number of the formula itself."""

    value: float


class Record(TypedDict):
    """One step. operation: `leaf` (an input), `name` (its operand under a name), a sign, or a function's name.

    label: of a leaf its path, of a name the name.   basis: of a leaf.   source: of a leaf or of a named formula.
    """

    operation: Name
    label: str
    value: float
    operands: list[Place | Constant]
    basis: Basis | Literal[""]
    source: str


class ExplainBody(TypedDict):
    """A number as an expression over its inputs, its own record first. value: what the inputs give now."""

    path: Name
    value: float
    saved_value: float
    expression: Annotated[list[Record], ("minItems", 1)]
