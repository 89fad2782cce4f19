"""The estimator: a model's operators and a column table of layouts go in; times and bytes of a step come out.

There is one estimator and it works on columns; a single layout is a table of one row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from meshwright.base.numbers import where
from meshwright.base.traced import named
from meshwright.cost.context import (
    context_exchanges,
    expanded_of_rank,
    pairs_of_rank,
    positions_of_rank,
    rows_of_rank,
)
from meshwright.cost.efficiency import DATASHEET, Efficiency
from meshwright.cost.forward_exchange import calls, forward_exchanges, shared_sessions
from meshwright.cost.roofline import compute_s, matmul_flops, read_s, roofline_s
from meshwright.layout.context import by_weights
from meshwright.layout.ownership import fullest_sizes, local_elements, local_samples, product
from meshwright.workload.attention import score_flops
from meshwright.workload.context_split import RING_OF_ZIGZAG, ContextPlan
from meshwright.workload.expert_reach import routed_load
from meshwright.workload.messages import has_message
from meshwright.workload.operators import FormChoice, Operator, form_of, operators

if TYPE_CHECKING:
    from meshwright.base.numbers import Bools, Floats, Ints
    from meshwright.cost.collectives import Exchange
    from meshwright.job.expert_load import ExpertReads
    from meshwright.layout.layouts import Layouts
    from meshwright.model.mixers.told import Recurrence
    from meshwright.model.model import Model
    from meshwright.model.tensors import Tensor
    from meshwright.system.system import System
    from meshwright.workload.batches import Batch, Count
    from meshwright.workload.expert_batches import Dedup
    from meshwright.workload.messages import Message

_SOURCE: Final = 'chapter "Supernodes", equations 6-2 and 6-5'
WeightReads: TypeAlias = Literal["strict", "even"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """What the estimator is told beside the four nouns.

    all_reduce: `auto`, `measured` or a registered algorithm.   all_reduce_s: seconds of one in every group, given in
    place of the algorithm's.   weight_reads: `strict` reads what the ownership table stores; `even` divides every
    weight by tp exactly (the chapter's form; the experts of the busiest ep group by etp), KV still by heads.
    expert_reads: how many experts the rows of a step read.   attention_form: of latent attention; `by_phase` absorbs in
    decode steps and expands in prompts.   dedup: how rows are sent to experts of other copies of attention; dispatch,
    combine: formats of the rows sent and returned, as in `row_formats`.   context: how ranks of cp share a prompt.
    """

    all_reduce: str = "auto"
    all_reduce_s: float | None = None
    weight_reads: WeightReads = "strict"
    expert_reads: ExpertReads = "expected"
    attention_form: FormChoice = "by_phase"
    dedup: Dedup = "rank"
    dispatch: str = "plain"
    combine: str = "plain"
    efficiency: Efficiency = DATASHEET
    context: ContextPlan = RING_OF_ZIGZAG


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Work:
    """Columns of one operator on the busiest rank, all its layers together, one step.

    state_bytes: cached state that it reads.   written_bytes: state of fixed size that it writes back; a new position is
    not counted.
    """

    operator: Operator
    flops: Floats
    weight_bytes: Floats
    state_bytes: Floats
    written_bytes: Floats
    seconds: Floats
    compute_bound: Bools


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """Columns of one forward step of one replica, seconds unless the name says otherwise.

    local: operators, one after the other.   exchange: collectives and stage boundaries.   total: both; stages follow
    each other, because one step of a batch is a chain.
    """

    work: tuple[Work, ...]
    exchanges: tuple[tuple[Message, Exchange], ...]
    local_s: Floats
    exchange_s: Floats
    total_s: Floats


def estimate_step(model: Model, system: System, layouts: Layouts, batch: Batch, assumptions: Assumptions) -> Step:
    """One mean step of `batch` for every layout. A row whose algorithm does not permit its group has NaN seconds.

    Source: chapter "Supernodes", equations 6-2 and 6-5.
    """
    own = _sessions(batch, layouts)
    table = operators(model, form_of(batch, assumptions.attention_form))
    work = tuple(_work(model, system, layouts, batch, own, item, assumptions) for item in table)
    local = named(_sum([item.seconds for item in work], len(layouts)), "local_s")
    exchanges = forward_exchanges(model, system, layouts, batch, own, assumptions)
    exchanges += context_exchanges(
        model, system, layouts, batch, own, table, _attention_s(work), assumptions.context, assumptions.efficiency.link
    )
    merged = _sum([_called_s(message, exchange, layouts) for message, exchange in exchanges], len(layouts))
    merged = named(merged, "exchange_s")
    total = named(local + merged, "step_s", _SOURCE)
    return Step(work=work, exchanges=exchanges, local_s=local, exchange_s=merged, total_s=total)


def _called_s(message: Message, exchange: Exchange, layouts: Layouts) -> Any:
    """Seconds of all calls of a step; none where a row has no such group, whatever its algorithm permits there."""
    seconds = exchange.seconds * calls(message, layouts)
    return seconds if message.boundary else where(has_message(message, layouts), seconds, np.zeros(1))


def _attention_s(work: tuple[Work, ...]) -> dict[int, Floats]:
    """Seconds in which one layer of each kind scores and mixes positions."""
    found: dict[int, Floats] = {}
    for item in work:
        kind = item.operator.kind
        if kind is not None and item.operator.scores.dims:
            found[kind] = found.get(kind, 0.0) + item.seconds / item.operator.count
    return found


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


def _work(  # noqa: PLR0917 - the four nouns and an operator
    model: Model,
    system: System,
    layouts: Layouts,
    batch: Batch,
    own: Ints,
    operator: Operator,
    assumptions: Assumptions,
) -> Work:
    weights = state = written = np.zeros(len(layouts))
    if operator.scores.dims:
        work, state = _attention_work(model, layouts, batch, own, operator, assumptions.context)
    elif operator.recurrence is not None:
        work, state = _recurrent_work(model, layouts, batch, own, operator.recurrence)
        written = state
    else:
        work, weights = _matrix_work(model, layouts, batch, own, operator, assumptions)
    rate: Any = matrix_rate(model, system, operator) * assumptions.efficiency.matrix
    memory: Any = system.accelerator.memory_bandwidth * assumptions.efficiency.memory
    moved = weights + state + written
    return Work(
        operator=operator,
        flops=work * operator.count,
        weight_bytes=weights * operator.count,
        state_bytes=state * operator.count,
        written_bytes=written * operator.count,
        seconds=named(roofline_s(work, rate, moved, memory) * operator.count, f"{operator.name}_s"),
        compute_bound=np.asarray(compute_s(work, rate) > read_s(moved, memory)),
    )


def _matrix_work(  # noqa: PLR0917 - the four nouns and an operator
    model: Model, layouts: Layouts, batch: Batch, own: Ints, operator: Operator, assumptions: Assumptions
) -> tuple[Floats, Floats]:
    """FLOPs and weight bytes of one layer's product on the busiest rank, one step: a weight is read once a step."""
    tensor, even = operator.weights[0], assumptions.weight_reads == "even"
    if operator.rows != "routed":
        rows: Any = own * _rows(batch, layouts, operator)
        if even:
            shards = by_weights(layouts).degree("tp")
            return matmul_flops(tensor.elements / shards, rows), _whole_bytes(model, tensor) / shards
        sizes = fullest_sizes(tensor, layouts, "gathered")
        stored = _column(model.format_of(tensor).stored_bytes(sizes), layouts)
        return matmul_flops(_column(product(sizes), layouts), rows), stored
    routed: Any = shared_sessions(_each(batch.sessions), own, layouts) * (1.0 * rows_of_rank(batch, layouts))
    visited, visits = routed_load(model, operator, layouts.degree("ep"), routed, assumptions.expert_reads)
    if even:
        shards = operator.experts * layouts.degree("etp")
        return matmul_flops(tensor.elements / shards, visits), _whole_bytes(model, tensor) * (visited / shards)
    sizes = fullest_sizes(tensor, layouts, "gathered")[1:]  # of one expert
    stored = _column(model.format_of(tensor).stored_bytes(sizes), layouts)
    return matmul_flops(_column(product(sizes), layouts), visits), stored * visited


def _rows(batch: Batch, layouts: Layouts, operator: Operator) -> Any:
    """Rows of one session that a matrix multiplies in a step."""
    if operator.rows == "positions":
        return expanded_of_rank(batch, layouts)
    return 1.0 * (batch.sampled if operator.sampled else rows_of_rank(batch, layouts))


def _sessions(batch: Batch, layouts: Layouts) -> Ints:
    """Sessions that the fullest copy of attention works on in a step: a column, or one number in a column of one."""
    copies = layouts.degree("dp_replicate") * layouts.degree("dp_shard")
    sessions = _each(batch.sessions)
    return local_samples(sessions, layouts) if copies.max(initial=1) > 1 else sessions


def _each(count: Count) -> Ints:
    return np.atleast_1d(np.asarray(count))


def _whole_bytes(model: Model, tensor: Tensor) -> Any:
    return model.format_of(tensor).stored_bytes(tensor.shape)


def _column(values: Ints | int, layouts: Layouts) -> Floats:
    return np.broadcast_to(np.asarray(values) * 1.0, len(layouts))


def _attention_work(  # noqa: PLR0917 - the nouns, an operator, and how ranks share positions
    model: Model, layouts: Layouts, batch: Batch, own: Ints, operator: Operator, context: ContextPlan
) -> tuple[Floats, Floats]:
    """FLOPs and state bytes of one layer's attention on a rank: its query heads over the positions they see."""
    scored: Any = local_elements(operator.scores, layouts, "activations") * 1.0
    mixed: Any = local_elements(operator.values, layouts, "activations") * 1.0
    pairs = pairs_of_rank(batch, layouts, operator.span, context)
    positions = positions_of_rank(batch.rows_read(operator.span), batch, layouts)
    cached = np.zeros(len(layouts))
    for item in operator.state:
        sizes = fullest_sizes(item.tensor, layouts, "kv_cache")
        cached = cached + _column(model.cached_bytes(item, sizes), layouts)
    return score_flops(scored, mixed, pairs * own), cached * (positions * own)


def _recurrent_work(
    model: Model, layouts: Layouts, batch: Batch, own: Ints, recurrence: Recurrence
) -> tuple[Floats, Floats]:
    """FLOPs and state bytes of one layer's recurrence on a rank: every session's state is read, and written, once."""
    columns: Any = local_elements(recurrence.work(batch.rows), layouts, "activations") * 1.0
    state = np.zeros(len(layouts))
    for item in recurrence.state:
        held: Any = local_elements(item.tensor, layouts, "kv_cache")
        state = state + _column(model.session_bytes(item, held), layouts)
    return matmul_flops(columns, rows_of_rank(batch, layouts) * own), state * (1.0 * own)


def matrix_rate(model: Model, system: System, operator: Operator) -> float:
    """The matrix rate of an operator, FLOP/s, at the datasheet. Raises SYS005 for a format without any rate."""
    return system.accelerator.peak_for(compute_formats(model, operator))[1]


def compute_formats(model: Model, operator: Operator) -> tuple[str, ...]:
    """The formats an operator may be multiplied in, best first: its weights', the activations', BF16."""
    own = (model.format_of(operator.weights[0]).compute,) if operator.weights else ()
    return tuple(dict.fromkeys((*own, model.plain.compute, "bf16")))


def _sum(columns: list[Floats], count: int) -> Floats:
    """Columns added in order, so that the same rows give the same bits whatever the chunk."""
    total = np.zeros(count)
    for column in columns:
        total = total + column
    return total
