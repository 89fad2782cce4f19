"""What changes from decode to prefill? Rows of a step go in; FLOPs, reads, message bytes and the bound come out."""

from __future__ import annotations

from dataclasses import dataclass

from meshwright.base.errors import ModelError
from meshwright.base.units import Tokens
from meshwright.cost.estimate import (
    Assumptions,
    WeightReads,
    estimate_step,
    flops,
    matrix_rate,
    state_bytes,
    weight_bytes,
)
from meshwright.cost.memory import state_row_bytes
from meshwright.cost.roofline import compute_s, mfu_share, read_over_compute_share, read_s
from meshwright.layout.layouts import table
from meshwright.model.feed_forwards import Experts
from meshwright.model.formats import BF16
from meshwright.model.model import Model, block_weights, last_weights
from meshwright.scenarios.fit import check_layout, replica_layout
from meshwright.system.system import System
from meshwright.workload.batches import Batch, decode, prefill
from meshwright.workload.feed_forward import distinct_experts
from meshwright.workload.messages import row_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One forward step of a model on tp ranks, per rank; times are lower bounds at datasheet rates."""

    rows: int
    flops: float
    weight_bytes: float
    state_bytes: float
    read_bytes: float
    message_bytes: int
    compute_s: float
    read_s: float
    local_s: float
    bound: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerBytes:
    """Whole bytes of one layer and of the head, without norms, and the cache that a step reads of one layer."""

    attention: int
    feed_forward: int
    layer: int
    head: int
    kv_read: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertCall:
    """The experts of one layer for some rows: what they weigh, cost and take on one device."""

    distinct: float
    weight_bytes: float
    flops: int
    read_s: float
    compute_s: float
    mfu: float
    read_over_compute: float


def decode_phase(model: Model, system: System, tp: int, context: Tokens, weight_reads: WeightReads = "strict") -> Phase:
    """One token after `context` cached ones. Source: chapter "Supernodes", equations 6-4, 6-5."""
    return _phase(model, system, tp, decode(context, 1), weight_reads)


def prefill_phase(model: Model, system: System, tp: int, tokens: Tokens, weight_reads: WeightReads = "strict") -> Phase:
    """A prompt of `tokens` in one pass. Source: chapter "Supernodes", section 6.1.3."""
    return _phase(model, system, tp, prefill(tokens), weight_reads)


def layer_bytes(model: Model, context: Tokens) -> LayerBytes:
    """Bytes of the first kind of layer. Source: chapter "Supernodes", equation 6-4."""
    weights = [tensor for tensor in block_weights(model, 0) if tensor.part != "norms"]
    sizes = [(tensor.part, int(model.format_of(tensor).stored_bytes(tensor.shape))) for tensor in weights]
    attention = sum(size for part, size in sizes if part == "attention")
    total = sum(size for _, size in sizes)
    head = next(tensor for tensor in last_weights(model) if tensor.part == "head")
    return LayerBytes(
        attention=attention,
        feed_forward=total - attention,
        layer=total,
        head=int(model.format_of(head).stored_bytes(head.shape)),
        kv_read=_read(model, context),
    )


def _read(model: Model, context: Tokens) -> int:
    """Bytes of cached state that the first kind of layer reads in a step."""
    step = decode(context, 1)
    pairs = model.kinds[0].mixer.pair_products("absorbed")
    return sum(int(step.rows_read(item.span)) * state_row_bytes(model, state) for item in pairs for state in item.state)


def expert_call(  # noqa: PLR0917 - the shape of a layer
    hidden: int, intermediate: int, experts: int, top_k: int, rows: int, system: System
) -> ExpertCall:
    """The routed experts of one BF16 layer on one device, uniform routing. Source: chapter, sections 6.1.2, 6.3.2."""
    weights = [
        item
        for item in Experts(experts=experts, top_k=top_k, intermediate=intermediate).weights(hidden)
        if item.part == "experts"
    ]
    one = sum(item.elements for item in weights) // experts
    distinct = distinct_experts(experts, top_k, rows)
    read = distinct * one * BF16.bits / 8
    work = 2 * one * top_k * rows
    if not 1 <= top_k <= experts:
        raise ModelError(10, f"top_k={top_k} of {experts} experts", f"give top_k from 1 to {experts}")
    peak = system.accelerator.peak_for((BF16.compute,))[1]
    rates = (peak, read, system.accelerator.memory_bandwidth)
    return ExpertCall(
        distinct=distinct,
        weight_bytes=read,
        flops=work,
        read_s=read_s(read, system.accelerator.memory_bandwidth),
        compute_s=compute_s(float(work), peak),
        mfu=float(mfu_share(float(work), *rates)),
        read_over_compute=read_over_compute_share(float(work), *rates),
    )


def message_growth(rows: int, more_rows: int, hidden: int) -> float:
    """How many times larger one exchange of `more_rows` is than one of `rows`. Source: chapter, section 6.1.3."""
    return row_bytes(more_rows, hidden, BF16.bits // 8) / row_bytes(rows, hidden, BF16.bits // 8)


def _phase(model: Model, system: System, tp: int, batch: Batch, weight_reads: WeightReads) -> Phase:
    layout = replica_layout(model, tp, 1, 1)
    check_layout(model, system, layout)
    layouts = table([layout])
    step = estimate_step(model, system, layouts, batch, Assumptions(weight_reads=weight_reads))
    work, weights, state = (float(column[0]) for column in (flops(step), weight_bytes(step), state_bytes(step)))
    computing = sum(compute_s(float(item.flops[0]), matrix_rate(model, system, item.operator)) for item in step.work)
    reading = read_s(weights + state, system.accelerator.memory_bandwidth)
    return Phase(
        rows=batch.rows,
        flops=work,
        weight_bytes=weights,
        state_bytes=state,
        read_bytes=weights + state,
        message_bytes=row_bytes(batch.rows, model.hidden, model.plain.bits // 8),
        compute_s=computing,
        read_s=reading,
        local_s=float(step.local_s[0]),
        bound="compute" if computing > reading else "memory",
    )
