"""What does a long context weigh beside the weights? Models, a batch and a context go in; a row a model comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from meshwright.base.units import Bytes, Tokens
from meshwright.cost.memory import serving_ledger
from meshwright.cost.roofline import read_s
from meshwright.job.serve import MOST_SESSIONS, MOST_TOKENS, check_range
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import Layouts, table
from meshwright.layout.rules import first_broken
from meshwright.model.model import Model, Rope, parameter_bytes
from meshwright.model.reader import read_model
from meshwright.scenarios._shared import check_resident
from meshwright.scenarios.fit import replica_layout
from meshwright.scenarios.inspect import (
    TokenWork,
    cached_bytes,
    fixed_state_by_name,
    fixed_state_bytes,
    kv_bytes_per_token,
    token_work,
)
from meshwright.system.system import System
from meshwright.workload.operators import Operator, operators

LEFT_OUT: Final = (
    "exchanges between devices: times are those of one device that reads everything",
    "skewed routing: `balanced` spreads the choices evenly over the experts, `uniform` is the mean of random choices",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Sessions of the context that `devices` hold.

    pooled: as if weights and state spread evenly over their memories, each less its workspace.   tensor_parallel: by
    the ledger at tp=devices, where KV heads are never cut and norms are repeated; None where a rule forbids that tp.
    """

    devices: int
    pooled_sessions: int
    tensor_parallel_sessions: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRow:
    """One model. Bytes and FLOPs are of the whole model, of one decode step where the name says `step`.

    session_bytes: state of one session of the context.   one_*: a batch of one; its `share` is of the resident weights.
    balanced_*: the batch's choices spread evenly over the experts.   uniform_*: their mean, chosen at random.
    *_read_s: on one device.   times_fewer_flops, times_less_state: the first model's step against this one's.
    """

    model: str
    parameters_bytes: int
    kv_bytes_per_token: int
    fixed_state_bytes: int
    fixed_state_bytes_by_name: dict[str, int]
    session_bytes: int
    one_step_weight_bytes: float
    one_step_weight_share: float
    balanced_step_weight_bytes: float
    uniform_step_weight_bytes: float
    step_flops: float
    step_state_bytes: int
    weight_read_s: float
    state_read_s: float
    times_fewer_flops: float
    times_less_state: float
    room: tuple[Room, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextTable:
    """The rows in the order of the models, and what they leave out."""

    rows: tuple[ContextRow, ...]
    not_modelled: tuple[str, ...]


def compare_contexts(  # noqa: PLR0917 - the columns of the chapter's table
    models: tuple[str, ...],
    system: System,
    batch: int,
    context: Tokens,
    devices: tuple[int, ...],
    workspace_bytes: Bytes,
) -> ContextTable:
    """Weights, state, work and room of each model, `batch` sessions with `context` positions cached each.

    A step reads context + 1 positions of a session, as everywhere (equation 6-4). Raises MOD001 (an id), JOB001
    (sizes). Source: chapter "Supernodes", section 6.2.2 and footnote 37.
    """
    check_range("models", len(models), 1, MOST_SESSIONS)
    check_range("batch", batch, 1, MOST_SESSIONS)
    check_range("context", context, 1, MOST_TOKENS)
    for count in devices:
        check_range("devices", count, 1, MOST_SESSIONS)
    found = tuple(read_model(name) for name in models)
    first = token_work(found[0], batch, context)
    rows = tuple(_row(model, system, batch, context, devices, workspace_bytes, first) for model in found)
    return ContextTable(rows=rows, not_modelled=LEFT_OUT)


def balanced_experts(experts: int, top_k: int, rows: int) -> int:
    """Experts that `rows` tokens reach when their choices spread as evenly as they can.

    Source: chapter "Supernodes", section 6.2.2 and footnote 37.
    """
    return min(experts, top_k * rows)


def stretched_positions(rope: Rope) -> int | None:
    """Positions that a stretched rotary embedding reaches; None where the config does not say from how many.

    Source: chapter "Supernodes", section 6.2.2 and footnote 36. Leaves out quality.
    """
    if rope.original_positions is None:
        return None
    return round(rope.original_positions * (1.0 if rope.factor is None else rope.factor))


def _row(  # noqa: PLR0917 - as `compare_contexts`
    model: Model,
    system: System,
    batch: int,
    context: Tokens,
    devices: tuple[int, ...],
    workspace_bytes: Bytes,
    first: TokenWork,
) -> ContextRow:
    check_resident(model, batch, context + 1, workspace_bytes)
    rate = system.accelerator.memory_bandwidth
    held = parameter_bytes(model)["total"]
    one, step = token_work(model, 1, context), token_work(model, batch, context)
    balanced = sum(_balanced_bytes(model, item, batch) for item in operators(model))
    return ContextRow(
        model=model.name,
        parameters_bytes=held,
        kv_bytes_per_token=kv_bytes_per_token(model),
        fixed_state_bytes=fixed_state_bytes(model),
        fixed_state_bytes_by_name=fixed_state_by_name(model),
        session_bytes=cached_bytes(model, context),
        one_step_weight_bytes=one.weight_bytes,
        one_step_weight_share=one.weight_bytes / held,
        balanced_step_weight_bytes=balanced,
        uniform_step_weight_bytes=step.weight_bytes,
        step_flops=step.flops * batch,
        step_state_bytes=step.state_bytes,
        weight_read_s=read_s(balanced, rate),
        state_read_s=read_s(float(step.state_bytes), rate),
        times_fewer_flops=first.flops / step.flops,
        times_less_state=first.state_bytes / step.state_bytes,
        room=tuple(_room(model, system, context, count, workspace_bytes) for count in devices),
    )


def _balanced_bytes(model: Model, operator: Operator, batch: int) -> float:
    """Weight bytes one operator reads a step, a mixture's choices spread evenly."""
    if not operator.weights:
        return 0.0
    tensor = operator.weights[0]
    stored = operator.count * int(model.format_of(tensor).stored_bytes(tensor.shape))
    if operator.rows != "routed":
        return float(stored)
    return stored * balanced_experts(operator.experts, operator.top_k, batch) / operator.experts


def _room(model: Model, system: System, context: Tokens, devices: int, workspace_bytes: Bytes) -> Room:
    """The ledger asked twice: one rank with the memory of all devices, and tp ranks of one device each."""
    split = table([replica_layout(model, devices, 1, 1)])
    memory = int(system.accelerator.memory)
    pooled = _sessions(model, table([Layout()]), context, 0, devices * (memory - workspace_bytes))
    kept = first_broken(model, split, devices)[0] is None
    return Room(
        devices=devices,
        pooled_sessions=pooled,
        tensor_parallel_sessions=_sessions(model, split, context, workspace_bytes, memory) if kept else None,
    )


def _sessions(model: Model, layouts: Layouts, context: Tokens, workspace_bytes: int, capacity_bytes: int) -> int:
    ledger = serving_ledger(
        model,
        layouts,
        sessions=np.ones(1, dtype=np.int64),
        tokens=context,
        workspace_bytes=workspace_bytes,
        capacity_bytes=capacity_bytes,
    )
    return int(ledger.max_sessions[0])
