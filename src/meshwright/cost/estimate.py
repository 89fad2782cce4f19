"""The estimator: a model's operator table against a column table of layouts goes in; times and bytes of a step come out.

There is one estimator and it works on columns; a single layout is a table of one row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np

from meshwright.cost import collectives
from meshwright.cost.efficiency import DATASHEET, Efficiency
from meshwright.cost.roofline import compute_s, read_s, roofline_s
from meshwright.layout.ownership import local_elements, local_sizes
from meshwright.layout.placement import group_nodes, instance_size, leaves_node
from meshwright.workload.attention import score_flops
from meshwright.workload.feed_forward import busiest_share, distinct_experts
from meshwright.workload.messages import Message, messages
from meshwright.workload.operators import Operator, operators

if TYPE_CHECKING:
    from meshwright.base.numbers import Bools, Floats, Ints
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model
    from meshwright.model.tensors import Tensor
    from meshwright.system.system import System
    from meshwright.workload.batches import Batch

WeightReads: TypeAlias = Literal["strict", "even"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """What the estimator is told beside the four nouns.

    all_reduce: `auto`, `measured` or a registered algorithm.   weight_reads: `strict` reads what the ownership table
    stores; `even` divides every weight by tp exactly (the chapter's form), KV still by heads.
    """

    all_reduce: str = "auto"
    weight_reads: WeightReads = "strict"
    efficiency: Efficiency = DATASHEET


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Work:
    """Columns of one operator on the busiest rank, all its layers together, one step."""

    operator: Operator
    flops: Floats
    weight_bytes: Floats
    state_bytes: Floats
    seconds: Floats
    compute_bound: Bools


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """Columns of one forward step of one replica, seconds unless the name says otherwise.

    local: operators, one after the other.   exchange: collectives and stage boundaries.   total: both; stages follow
    each other, because one step of one session is a chain.
    """

    work: tuple[Work, ...]
    exchanges: tuple[tuple[Message, collectives.Exchange], ...]
    local_s: Floats
    exchange_s: Floats
    total_s: Floats


def estimate_step(model: Model, system: System, layouts: Layouts, batch: Batch, assumptions: Assumptions) -> Step:
    """One mean step of `batch` for every layout. A row whose algorithm does not permit its group has NaN seconds.

    Source: chapter "Supernodes", equations 6-2 and 6-5.
    """
    work = tuple(_work(model, system, layouts, batch, item, assumptions) for item in operators(model))
    local = _sum([item.seconds for item in work], len(layouts))
    exchanges = tuple(_exchange(model, system, layouts, batch, item, assumptions) for item in messages(model))
    merged = _sum([exchange.seconds * _calls(message, layouts) for message, exchange in exchanges], len(layouts))
    return Step(work=work, exchanges=exchanges, local_s=local, exchange_s=merged, total_s=local + merged)


def tp_link(system: System, layouts: Layouts, axis: str = "tp") -> collectives.Group:
    """The groups along an axis, with the slowest link between members of any of them."""
    outside = leaves_node(layouts, axis, system.devices_per_node)
    return collectives.Group(
        ranks=layouts.degree(axis),
        nodes=group_nodes(layouts, axis, system.devices_per_node),
        latency_s=np.where(outside, system.nic_latency, system.scale_up.latency),
        bandwidth_bytes_per_s=np.where(outside, system.nic_bandwidth, system.scale_up.bandwidth),
    )


def read_bytes(step: Step) -> Floats:
    """Bytes the busiest rank of each stage reads in a step, over all stages."""
    return _sum([item.weight_bytes + item.state_bytes for item in step.work], len(step.local_s))


def weight_bytes(step: Step) -> Floats:
    """The weights' part of `read_bytes`."""
    return _sum([item.weight_bytes for item in step.work], len(step.local_s))


def state_bytes(step: Step) -> Floats:
    """The cached state's part of `read_bytes`."""
    return _sum([item.state_bytes for item in step.work], len(step.local_s))


def flops(step: Step) -> Floats:
    """FLOPs of the busiest rank of each stage in a step, over all stages."""
    return _sum([item.flops for item in step.work], len(step.local_s))


def _work(  # noqa: PLR0913, PLR0917 - the four nouns and an operator
    model: Model, system: System, layouts: Layouts, batch: Batch, operator: Operator, assumptions: Assumptions
) -> Work:
    if not operator.state:
        work, weights = _matrix_work(model, layouts, batch, operator, assumptions.weight_reads)
        state = np.zeros(len(layouts))
    else:
        work, state = _attention_work(model, layouts, batch, operator)
        weights = np.zeros(len(layouts))
    rate = _rate(model, system, operator) * assumptions.efficiency.matrix
    memory = system.accelerator.memory_bandwidth * assumptions.efficiency.memory
    moved = weights + state
    return Work(
        operator=operator,
        flops=work * operator.count,
        weight_bytes=weights * operator.count,
        state_bytes=state * operator.count,
        seconds=roofline_s(work, cast("Any", rate), moved, cast("Any", memory)) * operator.count,
        compute_bound=compute_s(work, cast("Any", rate)) > read_s(moved, cast("Any", memory)),
    )


def _matrix_work(
    model: Model, layouts: Layouts, batch: Batch, operator: Operator, reads: WeightReads
) -> tuple[Floats, Floats]:
    """FLOPs and weight bytes of one layer's product on the busiest rank, one step."""
    tensor = operator.weights[0]
    rows = batch.sampled if operator.kind is None else batch.rows
    if reads == "even":
        shards = layouts.degree("tp")
        visited, routed = _even_experts(operator, rows)
        return 2.0 * rows * tensor.elements * routed / shards, _whole_bytes(model, tensor) * visited / shards
    if operator.rows == "tokens":
        stored = cast("Ints", model.format_of(tensor).stored_bytes(local_sizes(tensor, layouts)))
        return 2.0 * rows * local_elements(tensor, layouts), stored.astype(np.float64)
    count, *inner = local_sizes(tensor, layouts)
    one = cast("Ints", model.format_of(tensor).stored_bytes(inner))
    elements = local_elements(tensor, layouts) / count
    visited, visits = _expert_load(operator, rows, layouts)
    return 2.0 * elements * visits, one * visited


def _even_experts(operator: Operator, rows: int) -> tuple[float, float]:
    """Share of the tensor that is read, and of its elements that each row meets: 1 unless it holds experts."""
    if operator.rows == "tokens":
        return 1.0, 1.0
    read = distinct_experts(operator.experts, operator.top_k, rows)
    return read / operator.experts, operator.top_k / operator.experts


def _expert_load(operator: Operator, rows: int, layouts: Layouts) -> tuple[Floats, Floats]:
    """Experts read, and (row, expert) visits, on the busiest group of ep; routing is uniform.

    One row: the exact expectation of the busiest group. More rows: the even share, which large counts approach.
    """
    groups = layouts.degree("ep")
    if rows == 1:
        found = {count: busiest_share(operator.experts, operator.top_k, count) for count in np.unique(groups).tolist()}
        busiest = np.array([found[count] for count in groups.tolist()])
        return busiest, busiest
    read = distinct_experts(operator.experts, operator.top_k, rows) / groups
    return read, rows * operator.top_k / groups


def _whole_bytes(model: Model, tensor: Tensor) -> int:
    return int(model.format_of(tensor).stored_bytes(tensor.shape))


def _attention_work(model: Model, layouts: Layouts, batch: Batch, operator: Operator) -> tuple[Floats, Floats]:
    """FLOPs and state bytes of one layer's attention on a rank: its query heads over the positions they see."""
    heads = local_elements(operator.scores, layouts)
    pairs, positions = batch.pairs(operator.window), batch.attended(operator.window)
    cached = np.zeros(len(layouts))
    for tensor in operator.state:
        cached = cached + local_elements(tensor, layouts) * model.kv.bits / 8
    return heads * (score_flops(1, pairs) / batch.steps), cached * (positions / batch.steps)


def _rate(model: Model, system: System, operator: Operator) -> float:
    """The matrix rate of an operator's format; a format the device cannot multiply in runs in the plain one."""
    plain = model.plain.compute
    if operator.state:
        return system.accelerator.peak_for((plain, "bf16"))[1]
    return system.accelerator.peak_for((model.format_of(operator.weights[0]).compute, plain, "bf16"))[1]


def _exchange(  # noqa: PLR0913, PLR0917 - the four nouns and a message
    model: Model, system: System, layouts: Layouts, batch: Batch, message: Message, assumptions: Assumptions
) -> tuple[Message, collectives.Exchange]:
    sent = message.per_row_bytes * batch.rows
    if not message.boundary:
        group = tp_link(system, layouts, message.axis)
        return message, collectives.all_reduce(assumptions.all_reduce, group, sent, system.accelerator.id)
    return message, _boundaries(system, layouts, sent)


def _boundaries(system: System, layouts: Layouts, sent: int) -> collectives.Exchange:
    """Mean seconds of one stage boundary: those between boxes pay the NIC, the others the link inside a box."""
    outside = _boundaries_outside(layouts, system.devices_per_node)
    crossings = np.maximum(layouts.degree("pp") - 1, 1)
    near = collectives.send_s(float(sent), system.scale_up.latency, system.scale_up.bandwidth)
    far = near if system.scale_out is None else collectives.send_s(float(sent), system.nic_latency, system.nic_bandwidth)
    count = len(layouts)
    return collectives.Exchange(
        seconds=(near * (crossings - outside) + far * outside) / crossings,
        algorithm=np.full(count, "send_recv", dtype=object),
        rounds=np.ones(count, dtype=np.int64),
        basis=np.full(count, "formula", dtype=object),
        measured=(None,) * count,
    )


def _boundaries_outside(layouts: Layouts, devices_per_node: int) -> Ints:
    """How many stage boundaries have a pair of counterparts in different boxes."""
    size = instance_size(layouts)
    stage = size // layouts.degree("pp")
    outside = np.zeros(len(layouts), dtype=np.int64)
    for boundary in range(1, int(layouts.degree("pp").max(initial=1))):
        crosses = ((boundary + 1) * stage - 1) // devices_per_node > (boundary - 1) * stage // devices_per_node
        outside += crosses & (boundary < layouts.degree("pp")) & (size > devices_per_node)
    return outside


def _calls(message: Message, layouts: Layouts) -> Ints:
    """How often a step has the exchange; a group of one has none."""
    if message.boundary:
        return layouts.degree("pp") - 1
    return np.where(layouts.degree(message.axis) > 1, message.count, 0)


def _sum(columns: list[Floats], count: int) -> Floats:
    """Columns added in order, so that the same rows give the same bits whatever the chunk."""
    total = np.zeros(count)
    for column in columns:
        total = total + column
    return total
