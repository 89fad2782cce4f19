"""What does attention cost that every group of experts repeats? Degrees go in; copies and sums come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from meshwright.base.units import TokenCount, Tokens
from meshwright.cost.experts import routed_operators
from meshwright.cost.memory import serving_ledger
from meshwright.job.expert_load import no_experts
from meshwright.layout.layouts import table
from meshwright.layout.ownership import fullest_sizes, placement
from meshwright.model.model import Model, parameter_bytes
from meshwright.scenarios._experts_options import ExpertsOptions, checked_options, expert_layers, layout_of
from meshwright.scenarios._experts_rows import Merge, merges_of
from meshwright.scenarios._shared import check_resident
from meshwright.scenarios.fit import check_layout
from meshwright.scenarios.inspect import cached_bytes
from meshwright.system.system import System
from meshwright.workload.row_formats import row_format_bytes

if TYPE_CHECKING:
    from meshwright.model.tensors import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicatedAttention:
    """One replica. weight_bytes, kv_bytes: of the fullest rank.   repeated_bytes: beyond every parameter once.

    attention_copies: of each head.   request_kv_bytes: kept once.   kv_copies: of that.   row_bytes: of a token's row
    as it is summed.   sent_bytes: in the sums of one layer, by a rank of each ring.   all_sent_bytes: by all ranks.
    """

    experts_per_group: int
    expert_width: int
    kv_heads: int
    attention_copies: int
    weight_bytes: int
    all_weight_bytes: int
    repeated_bytes: int
    kv_bytes: int
    all_kv_bytes: int
    request_kv_bytes: int
    kv_copies: float
    row_bytes: int
    merges: tuple[Merge, ...]
    sent_bytes: float
    all_sent_bytes: float


def replicated_attention(  # noqa: PLR0917 - two nouns, degrees and a batch
    model: Model, system: System, tp: int, ep: int, etp: int, tokens: TokenCount, context: Tokens, combine: str
) -> ReplicatedAttention:
    """TP x EP with attention repeated in every group of experts: each has all rows, so sums replace an exchange.

    tokens: that a step adds up.   context: cached positions.   combine: format of the rows that are summed.
    Raises JOB007 (no experts), JOB001 and JOB124 (sizes), LAY002.. (rules), LAY043 (ranks), MOD020 (format).
    Source: chapter "Supernodes", section 6.3.1.
    """
    layers = expert_layers(model)
    if not layers:
        raise no_experts(model.name, "name a mixture of experts, as Qwen/Qwen3-30B-A3B")
    options = checked_options(
        ExpertsOptions(tokens=tokens, ep=ep, etp=etp, tp=tp, attention="replicated", combine=combine)
    )
    layout = layout_of(options)
    check_layout(model, system, layout)
    check_resident(model, 1, context, 0)
    layouts, ranks = table([layout]), layout.world_size
    ledger = serving_ledger(
        model, layouts, sessions=np.ones(1, dtype=np.int64), tokens=context, workspace_bytes=0, capacity_bytes=0
    )
    weights, cached = int(ledger.parameters[0]), int(ledger.kv_cache[0])
    request = cached_bytes(model, context)
    kind, mixture = next(iter(layers.values()))
    merges = merges_of(model, system, layout, options)
    sent = sum(item.sent_bytes for item in merges)
    state = model.kinds[kind].mixer.token_state()[0].tensor
    return ReplicatedAttention(
        experts_per_group=mixture.experts // ep,
        expert_width=_local(routed_operators(model, kind)[0].weights[0], "expert_intermediate", layouts),
        kv_heads=_local(state, "kv_heads", layouts) // state.dims[-1].grain,
        attention_copies=placement(state, layout, "kv_cache").copies,
        weight_bytes=weights,
        all_weight_bytes=weights * ranks,
        repeated_bytes=weights * ranks - parameter_bytes(model)["total"],
        kv_bytes=cached,
        all_kv_bytes=cached * ranks,
        request_kv_bytes=request,
        kv_copies=cached * ranks / max(1, request),
        row_bytes=int(row_format_bytes(model, combine)),
        merges=merges,
        sent_bytes=sent,
        all_sent_bytes=sent * ranks,
    )


def _local(tensor: Tensor, role: str, layouts: Any) -> int:
    """Elements of the dim of this role on a rank; of a tensor without one 0, as of a cache that has no heads."""
    sizes = zip(tensor.dims, fullest_sizes(tensor, layouts), strict=True)
    return next((int(np.max(size)) for dim, size in sizes if dim.role == role), 0)
