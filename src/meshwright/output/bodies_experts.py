"""What the JSON document of `experts` holds: names and types, for the published schema."""

from __future__ import annotations

from typing import TypedDict

from meshwright.output.bodies import Amount, Count, Name


class ExpertExchange(TypedDict):
    """Dispatch and combine of all layers: once a choice (none), once a rank, or once a box and on from there (node)."""

    id: Name
    dispatch_rows: Count
    dispatch_bytes: Amount
    combine_bytes: Amount
    between_bytes: Amount
    most_sent_bytes: Amount
    dispatch_s: Amount
    combine_s: Amount
    busiest_link: str | None


class ExpertMerge(TypedDict):
    """One all_reduce of a layer where every group has all tokens; sent_bytes is of each rank of a ring."""

    after: Name
    axis: Name
    ranks: Count
    message_bytes: Amount
    sent_bytes: Amount
    time_s: Amount


class ExpertLayer(TypedDict):
    """One layer. Rows are (token, expert) pairs as chosen; run_rows are the most that a group runs, with padding."""

    layer: Count
    distinct_experts: Count
    slots_read: Count
    expected_distinct_experts: Amount
    weight_bytes: Amount
    expected_weight_bytes: Amount
    even_over_read: Amount
    hottest_expert: Count
    max_expert_rows: Count
    min_expert_rows: Count
    mean_expert_rows: Amount
    busiest_group: Count
    busiest_rows: Count
    run_rows: Count
    mean_rows: Amount
    busiest_over_mean: Amount
    bound_rows: Count
    proven: bool
    contiguous_rows: Count
    round_robin_rows: Count
    gain_fraction: float
    capacity_rows: Count | None
    least_capacity_factor: Amount
    dropped: Count
    dropped_fraction: Amount
    padding: Count
    padding_fraction: Amount
    skipped_tokens: Count
    dispatch_s: Amount
    etp_s: Amount
    experts_s: Amount
    combine_s: Amount
    time_s: Amount
    expert_rows: list[Count]
    group_rows: list[Count]
    slot_groups: list[Count]
    slot_experts: list[Count]


class ExpertsBody(TypedDict):
    """Sums over the layers that are answered; exchange is empty where nothing is sent, merges where nothing is summed.

    record_uint16_bytes, record_int32_bytes: what recording the chosen experts takes.
    """

    layer_count: Count
    expert_count: Count
    top_k: Count
    tokens: Count
    choices_per_layer: Count
    choices: Count
    mean_expert_rows: Amount
    expert_weight_bytes: Amount
    groups: Count
    slots_per_group: Count
    mean_distinct_experts: Amount
    expected_distinct_experts: Amount
    weight_bytes: Amount
    dispatch_row_bytes: Count
    combine_row_bytes: Count
    record_uint16_bytes: Count
    record_int32_bytes: Count
    busiest_over_mean: Amount
    dropped: Count
    padding: Count
    time_s: Amount
    exchange: list[ExpertExchange]
    merges: list[ExpertMerge]
    merge_bytes: Amount
    all_merge_bytes: Amount
    layers: list[ExpertLayer]
