"""What does a wider tp buy? Shards, replicated KV heads and the step for each degree, with what each doubling saves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from meshwright.base.units import BytesPerSecond, Tokens
from meshwright.cost.estimate import Assumptions, WeightReads, estimate_step
from meshwright.cost.memory import serving_ledger
from meshwright.cost.roofline import read_s
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.layout.ownership import local_elements, local_sizes
from meshwright.layout.placement import instances
from meshwright.layout.rules import first_broken
from meshwright.model.feed_forwards import Dense
from meshwright.model.formats import BF16
from meshwright.model.mixers import plain_attention
from meshwright.model.model import Model
from meshwright.scenarios._shared import check_resident, rule_error
from meshwright.scenarios.fit import check_layout, replica_layout
from meshwright.scenarios.inspect import cached_bytes
from meshwright.system.system import System
from meshwright.workload.batches import decode
from meshwright.workload.messages import messages, row_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitFeedForward:
    """One gated feed-forward cut over tp ranks: columns and bytes of a shard, times to read, and the partial sum."""

    columns: int
    whole_bytes: int
    shard_bytes: int
    saved_bytes: int
    whole_read_s: float
    shard_read_s: float
    saved_read_s: float
    partial_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KvPlacement:
    """The cache of one session over tp ranks. copies: ranks that hold the same KV head."""

    heads_per_rank: int
    copies_per_head: int
    head_bytes: int
    rank_bytes: int
    all_ranks_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Degree:
    """One tp of a scaling table; `net_saving_s` and its parts are against the degree before, None for the first."""

    tp: int
    local_s: float
    exchange_s: float
    step_s: float
    local_saving_s: float | None
    exchange_increase_s: float | None
    net_saving_s: float | None


def split_feed_forward(
    hidden: int, intermediate: int, tp: int, memory_bandwidth_bytes_per_s: BytesPerSecond
) -> SplitFeedForward:
    """gate and up by columns, down by rows, in BF16. Source: chapter "Supernodes", equation 6-3 and section 6.2.2."""
    layer = Dense(intermediate=intermediate).weights(hidden)
    layouts = table([Layout(tp=tp)])
    whole = sum(int(BF16.stored_bytes(tensor.shape)) for tensor in layer)
    shard = sum(int(cast("Any", BF16.stored_bytes(local_sizes(tensor, layouts)))[0]) for tensor in layer)
    whole_s, shard_s = (read_s(float(size), memory_bandwidth_bytes_per_s) for size in (whole, shard))
    return SplitFeedForward(
        columns=int(local_sizes(layer[0], layouts)[0][0]),
        whole_bytes=whole,
        shard_bytes=shard,
        saved_bytes=whole - shard,
        whole_read_s=whole_s,
        shard_read_s=shard_s,
        saved_read_s=whole_s - shard_s,
        partial_bytes=row_bytes(1, hidden, BF16.bits // 8),
    )


def kv_placement(model: Model, tp: int, tokens: Tokens) -> KvPlacement:
    """Heads are never cut: once tp exceeds the KV heads, neighbours hold the same one.

    Raises the codes of the rules. Source: chapter "Supernodes", section 6.2.2.
    """
    check_resident(model, 1, tokens, 0)
    mixer = plain_attention(model.kinds[0].mixer, "copies of KV heads")
    layouts = table([replica_layout(model, tp, 1, 1)])
    broken = first_broken(model, layouts, tp)[0]
    if broken is not None:
        raise rule_error(broken)
    ledger = serving_ledger(
        model, layouts, sessions=np.ones(1, dtype=np.int64), tokens=tokens, workspace_bytes=0, capacity_bytes=0
    )
    held = int(local_elements(mixer.token_state()[0].tensor, layouts)[0]) // mixer.head_dim
    rank = int(ledger.kv_cache[0])
    return KvPlacement(
        heads_per_rank=held,
        copies_per_head=tp * held // mixer.kv_heads,
        head_bytes=cached_bytes(model, tokens) // mixer.kv_heads,
        rank_bytes=rank,
        all_ranks_bytes=rank * tp,
    )


def tp_scaling(
    model: Model,
    system: System,
    context: Tokens,
    degrees: tuple[int, ...],
    all_reduce: str,
    *,
    weight_reads: WeightReads = "strict",
) -> tuple[Degree, ...]:
    """The first decode step at `context` for each degree. Raises LAY002 (devices) and the codes of the rules.

    Source: chapter "Supernodes", equations 6-5, 6-6.
    """
    assumptions = Assumptions(all_reduce=all_reduce, weight_reads=weight_reads)
    rows = [replica_layout(model, tp, 1, 1) for tp in degrees]
    for row in rows:
        check_layout(model, system, row)
    layouts = table(rows)
    step = estimate_step(model, system, layouts, decode(context, 1), assumptions)
    local, merged, total = (column.tolist() for column in (step.local_s, step.exchange_s, step.total_s))
    return tuple(
        Degree(
            tp=tp,
            local_s=local[row],
            exchange_s=merged[row],
            step_s=total[row],
            local_saving_s=local[row - 1] - local[row] if row else None,
            exchange_increase_s=merged[row] - merged[row - 1] if row else None,
            net_saving_s=total[row - 1] - total[row] if row else None,
        )
        for row, tp in enumerate(degrees)
    )


def exchanges_per_step(model: Model) -> int:
    """all_reduce calls of one forward step under tp > 1. Source: chapter "Supernodes", section 6.2.2."""
    return sum(message.count for message in messages(model) if message.where in {"always", "together"})


def concurrent_requests(cards: int, cards_per_instance: int) -> int:
    """Requests in flight when every instance runs one at a time. Source: chapter "Supernodes", section 6.1.1."""
    return int(instances(np.array([cards_per_instance]), 1, cards)[0])


def replica_throughput(cards: int, cards_per_instance: int, speed_up: float, rate: float) -> float:
    """Requests a second of independent instances, each `speed_up` times one card that serves `rate`.

    Source: chapter "Supernodes", section 6.2.1.
    """
    return concurrent_requests(cards, cards_per_instance) * speed_up * rate


def throughput_ratio(cards: int, speed_up: float) -> float:
    """Throughput of one instance over all cards against one instance a card: equal only at perfect speed-up."""
    return replica_throughput(cards, cards, speed_up, 1.0) / replica_throughput(cards, 1, 1.0, 1.0)
