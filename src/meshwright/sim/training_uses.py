"""Slot orders and the modules of every stage go in; every pass of every module, in order and with its times, comes out.

A module is a layer or an end of the model (embedding, head): what is gathered and reduced as one. A use is one pass of
one module over one micro-batch, a part of a slot.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from meshwright.workload.slots import BACKWARD, BACKWARD_WEIGHT, FORWARD, Slots

if TYPE_CHECKING:
    from meshwright.base.numbers import Bools, Floats, Ints

Prefetch: TypeAlias = Literal["on", "off"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Modules:
    """Columns, one row a kind of module: a layer of each kind, then the first and the last end of the model.

    forward_s, input_s, weight_s: one micro-batch through one module, the exchanges inside it and what recompute runs
    again included.   gather_once_s: of its updated parameters, before its first forward of a step.   gather_each_s:
    before every pass that reads them.   reduce_each_s: of its gradients, after every backward.   reduce_last_s: added
    after the last backward of a step. A time of zero is an exchange that does not take place.   saved_bytes: kept of
    one micro-batch.   rebuilt_bytes: beside while its backward runs.   gathered_bytes: of the whole module while it is
    in use, beside what persists.   gradient_bytes: whole gradients, from its backward until they are reduced.
    """

    forward_s: Floats
    input_s: Floats
    weight_s: Floats
    gather_once_s: Floats
    gather_each_s: Floats
    reduce_each_s: Floats
    reduce_last_s: Floats
    saved_bytes: Ints
    rebuilt_bytes: Ints
    gathered_bytes: Ints
    gradient_bytes: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepPlan:
    """One step of one layout.

    stages: of every virtual stage along the model, the rows of `modules` that it holds, in the order of a forward; none
    is empty.   prefetch: `on` gives every rank a channel of its own beside its stream; `off` lets the stream wait for
    each exchange.   send_s: of one message between neighbours.   activation_bytes: of such a message, and of its
    gradient.   update_s: of every rank, after all gradients.
    """

    slots: Slots
    stages: tuple[tuple[int, ...], ...]
    modules: Modules
    prefetch: Prefetch
    send_s: float
    activation_bytes: int
    update_s: float

    def alone(self) -> StepPlan:
        """The same passes with messages and exchanges of modules that take no time, and no update."""
        none = np.zeros(len(self.modules.forward_s))
        names = ("gather_once_s", "gather_each_s", "reduce_each_s", "reduce_last_s")
        return replace(self, modules=replace(self.modules, **dict.fromkeys(names, none)), send_s=0.0, update_s=0.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Uses:
    """Columns, one row a use; those of one slot stand together, in the order in which they run.

    slot, rank, sequence, kind, micro_batch: of its slot.   module: its row of `Modules`.   place: which module it is,
    counted over all stages and directions.   step: its number within the slot.   gather_s, reduce_s: of the exchange
    before and after it, zero for none.   own_s: without them.
    """

    slot: Ints
    rank: Ints
    sequence: Ints
    kind: Ints
    micro_batch: Ints
    module: Ints
    place: Ints
    step: Ints
    gather_s: Floats
    own_s: Floats
    reduce_s: Floats

    @property
    def first(self) -> Bools:
        """Of its slot."""
        return self.step == 0

    @property
    def is_forward(self) -> Bools:
        """Whether it is a forward."""
        return self.kind == FORWARD

    @property
    def leaves_gradients(self) -> Bools:
        """Whether the gradients of its weights are there behind it."""
        return (self.kind == BACKWARD) | (self.kind == BACKWARD_WEIGHT)

    @property
    def reads_weights(self) -> Bools:
        """Whether it reads its module's parameters."""
        return self.kind != BACKWARD_WEIGHT

    def in_order(self) -> tuple[Ints, Ints]:
        """Rows in the order of their slot orders, and the number of the slot order that each is of."""
        rows = np.lexsort((np.arange(len(self.slot)), self.sequence, self.rank))
        line = self.rank[rows] * (int(self.sequence.max(initial=0)) + 1) + self.sequence[rows]
        return rows, line


def uses_of(plan: StepPlan) -> Uses:
    """Every use of a step."""
    slots, modules = plan.slots, plan.modules
    flat = np.array([row for stage in plan.stages for row in stage], np.int64)
    sizes = np.array([len(stage) for stage in plan.stages], np.int64)
    assert (sizes > 0).all(), "a stage without modules"
    count = sizes[slots.virtual_stage]
    slot = np.repeat(np.arange(len(slots.rank)), count)
    step = np.arange(len(slot)) - np.repeat(np.cumsum(count) - count, count)
    kind, stage = slots.kind[slot], slots.virtual_stage[slot]
    along = np.where(kind == FORWARD, step, sizes[stage] - 1 - step) + (np.cumsum(sizes) - sizes)[stage]
    module, place = flat[along], slots.direction[slot] * len(flat) + along
    passes = np.stack([modules.forward_s, modules.input_s + modules.weight_s, modules.input_s, modules.weight_s])
    reads, leaves = kind != BACKWARD_WEIGHT, (kind == BACKWARD) | (kind == BACKWARD_WEIGHT)
    gather = np.where(reads, modules.gather_each_s[module], 0.0)
    opening = _ends_of(place, kind == FORWARD, first=True)
    gather[opening] += modules.gather_once_s[module[opening]]
    reduce = np.where(leaves, modules.reduce_each_s[module], 0.0)
    closing = _ends_of(place, leaves, first=False)
    reduce[closing] += modules.reduce_last_s[module[closing]]
    return Uses(
        slot=slot,
        rank=slots.rank[slot],
        sequence=slots.sequence[slot],
        kind=kind,
        micro_batch=slots.micro_batch[slot],
        module=module,
        place=place,
        step=step,
        gather_s=gather,
        own_s=passes[kind, module],
        reduce_s=reduce,
    )


def _ends_of(place: Ints, among: Bools, *, first: bool) -> Ints:
    """The first or the last row of every place, of some rows."""
    rows = np.flatnonzero(among)
    rows = rows if first else rows[::-1]
    return rows[np.unique(place[rows], return_index=True)[1]]


def offsets(uses: Uses, durations: Floats) -> tuple[Floats, Floats]:
    """When each use begins and ends since the start of its slot, where they follow each other."""
    begins: Any = np.zeros(len(durations))
    ends = durations.copy()
    for step in range(1, int(uses.step.max(initial=0)) + 1):
        rows = np.flatnonzero(uses.step == step)
        begins[rows] = ends[rows - 1]
        ends[rows] = begins[rows] + durations[rows]
    return begins, ends
