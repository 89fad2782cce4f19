"""A run and a pipeline rank go in; the fullest moment that it is to have comes out, with what is alive then, by name.

It is the planner's simulated memory of the same slots and modules, in which what a run holds otherwise is a kind of its
own, with its life. Passes are those of equal layers: durations move only when messages come.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from meshwright.cost.pipelines import stage_modules
from meshwright.cost.training_activations import activation_columns, entry_bytes
from meshwright.cost.training_exchange import boundary_bytes
from meshwright.layout.layouts import table
from meshwright.layout.ownership import ZERO_OF_STATE, fullest_sizes
from meshwright.model.mixers import plain_attention
from meshwright.sim.memory import memory
from meshwright.sim.training_step import run_step
from meshwright.sim.training_step_memory import WHAT, step_memory
from meshwright.sim.training_uses import Modules, StepPlan
from meshwright.verify.expected_memory import counter_bytes, state_of, sum_over
from meshwright.verify.setting import held_by, sharded
from meshwright.verify.terms import Term, differs
from meshwright.workload.operators import operators
from meshwright.workload.recomputing import read_recompute
from meshwright.workload.saved import block_saved, head_saved
from meshwright.workload.saved_entries import FP32_BITS, INDEX_BITS, Kernels
from meshwright.workload.slots import BACKWARD_INPUT, BACKWARD_WEIGHT, FORWARD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshwright.sim.training_step import StepRun
    from meshwright.verify.setting import Setting
    from meshwright.workload.saved_entries import Saved

_FULL, _GRADIENTS = ZERO_OF_STATE["parameters"], ZERO_OF_STATE["gradients"]
_SHORT_S: Final = 2.0**-10
"""Of an exchange of a module, beside passes of a second: one gather ahead, and nothing waits."""
_FIRST_ROW_BYTES, _LAST_ROW_BYTES = 9, 10
_STATE: Final = ("parameters", "gradients", "optimizer_state")
REASONS: Final = {
    "gradients": "accumulated from the first backward of a module on; the plan has them all the time",
    "whole_copies": "FSDP2 keeps whole modules, as products read them, beside its shards until the last backward",
    "whole_gradients": "of a module, as products have them, when its backward ends; the plan has all from its start",
    "flat_gradients": "FSDP2 reduces a copy of a module's gradients",
    "samples": "tokens and labels of a step, int64",
    "rotary_tables": "cosines and sines of every stage and micro-batch",
    "vocabulary_cut": "what a cut table and a cut loss keep to find a row's own token",
    "gathered_rows": "under sp the run keeps gathered inputs of products, where the plan gathers again",
    "sent_rows": "gloo's sends are done once they are waited for: at the end of a step",
    "asked_rows": "messages are asked for one slot before they are needed",
    "put_off": "inputs and gradients of products whose weight gradients have slots of their own",
    "step_counters": "torch's AdamW counts its steps once a tensor",
}
"""By kind, why a run holds it and the plan does not, or when."""


class _Life(NamedTuple):
    """Buffers of one kind. end: NaN where it stays to the end of the step."""

    kind: str
    rank: Any
    start: Any
    end: Any
    nbytes: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedPeak:
    """planned_bytes: what the planner's simulation alone says.   terms: what is alive in the run's fullest moment."""

    planned_bytes: int
    terms: tuple[Term, ...]


def peak(setting: Setting, rank: int) -> ExpectedPeak:
    """Of the rank at the origin of a pipeline rank's copies and tp group."""
    own, held = state_of(setting, setting.layout), held_by(setting, rank)
    state = {name: sum_over(getattr(own, name), held) for name in _STATE}
    run = run_step(_plan(setting))
    nothing = np.zeros(setting.slots.ranks, np.int64)
    plain = step_memory(run, nothing)
    tick = run.timeline.tick_s
    alone = plain.peaks(tick)[rank].peak_bytes + sum(state.values())
    kinds, lives = _kinds(setting, run)
    held_kinds = tuple(dict.fromkeys([*kinds, *(life.kind for life in lives)]))
    whole = memory(_joined(plain.buffers, kinds, lives, held_kinds))
    alive = whole.peaks(tick)[rank].alive_bytes
    cut = state_of(setting, sharded(setting.layout))
    copies = setting.global_batch // (setting.layout.dp_replicate * setting.layout.dp_shard)
    constant = {
        "parameters": sum_over(cut.parameters, held),
        "optimizer_state": state["optimizer_state"],
        "step_counters": counter_bytes(setting, rank),
        "samples": 2 * INDEX_BITS // 8 * copies * setting.sequence,
    }
    terms = [
        differs(name, size, REASONS[name]) if name in REASONS else Term(name=name, value=size, reason="")
        for name, size in sorted((constant | alive).items(), key=lambda item: -item[1])
        if size
    ]
    return ExpectedPeak(planned_bytes=alone, terms=tuple(terms))


def _kinds(setting: Setting, run: StepRun) -> tuple[tuple[str, ...], list[_Life]]:
    """The planner's kinds that stay, and the lives of all others."""
    gone = {"sent_messages", "received_messages", "gradient_buffers"}
    lives = [*_messages(setting, run), *_sets(setting, run), *_gradients(setting, run), *_copies(setting, run)]
    lives += _gathered(setting, run)
    if (setting.slots.kind == BACKWARD_WEIGHT).any():
        gone |= {"activations", "transient"}
        lives += _split(setting, run)
    return tuple(kind for kind in WHAT if kind not in gone), lives


def _joined(buffers: Any, kept: Sequence[str], lives: Sequence[_Life], kinds: tuple[str, ...]) -> Any:
    """The buffers of the kinds that stay, and all lives."""
    mine = np.flatnonzero(np.isin(buffers.kind, [buffers.kinds.index(kind) for kind in kept]))
    numbers = np.array([kinds.index(kind) if kind in kinds else -1 for kind in buffers.kinds])
    rows = [np.broadcast_arrays(life.rank, life.start, life.end, life.nbytes) for life in lives]
    return replace(
        buffers,
        rank=np.concatenate([buffers.rank[mine], *(row[0] for row in rows)]).astype(np.int64),
        alloc=np.concatenate([buffers.alloc[mine], *(row[1] for row in rows)]),
        free=np.concatenate([buffers.free[mine], *(row[2] for row in rows)]),
        size_bytes=np.concatenate([buffers.size_bytes[mine], *(row[3] for row in rows)]).astype(np.int64),
        kind=np.concatenate(
            [
                numbers[buffers.kind[mine]],
                *(np.full(len(row[0]), kinds.index(life.kind)) for row, life in zip(rows, lives, strict=True)),
            ]
        ),
        kinds=kinds,
    )


def _messages(setting: Setting, run: StepRun) -> list[_Life]:
    """What was sent stays; what is to come is asked for when the slot before begins."""
    sent, slots = run.messages, setting.slots
    size = run.plan.activation_bytes
    before = np.full(len(slots.rank), 0.0)
    for rank in range(slots.ranks):
        rows = np.flatnonzero(slots.rank == rank)
        before[rows[1:]] = run.slot_start_s[rows[:-1]]
    return [
        _Life("sent_rows", sent.sender, run.slot_end_s[sent.source], np.nan, size),
        _Life("asked_rows", sent.receiver, before[sent.target], run.slot_start_s[sent.target], size),
    ]


def _sets(setting: Setting, run: StepRun) -> list[_Life]:
    """What every forward of a stage keeps beside the planner's set, until its backward."""
    model, layout, slots = setting.model, setting.layout, setting.slots
    rows = np.flatnonzero(slots.kind == FORWARD)
    ends = _backwards(setting, run)[rows]
    wide = layout.micro_batch * setting.sequence
    turned = plain_attention(model.kinds[0].mixer, "rotary tables").head_dim
    tables = 2 * setting.sequence * turned * model.plain.bits // 8
    found = [_Life("rotary_tables", slots.rank[rows], run.slot_start_s[rows], ends, tables)]
    if layout.tp > 1:
        first, last = slots.virtual_stage == 0, slots.virtual_stage == slots.virtual_stages - 1
        size = (first * _FIRST_ROW_BYTES + last * _LAST_ROW_BYTES)[rows] * wide
        found.append(_Life("vocabulary_cut", slots.rank[rows], run.slot_start_s[rows], ends, size))
    return found


def _backwards(setting: Setting, run: StepRun) -> Any:
    """By slot, when the backward of its micro-batch through the same stage, or that of its input, ends."""
    slots = setting.slots
    key = (slots.direction * slots.virtual_stages + slots.virtual_stage) * slots.micro_batches + slots.micro_batch
    found = np.full(int(key.max()) + 1, np.nan)
    back = np.flatnonzero((slots.kind != FORWARD) & (slots.kind != BACKWARD_WEIGHT))
    found[key[back]] = run.slot_end_s[back]
    return found[key]


def _gradients(setting: Setting, run: StepRun) -> list[_Life]:
    """Of every module from the end of its first backward on."""
    uses, layout = run.uses, setting.layout
    state = state_of(setting, sharded(layout) if layout.zero >= _GRADIENTS else layout)
    rows = np.flatnonzero(uses.leaves_gradients)
    rows = rows[np.argsort(run.end_s[rows], kind="stable")]
    rows = rows[np.unique(uses.place[rows], return_index=True)[1]]
    size = state.gradients[0][uses.module[rows]]
    found = [_Life("gradients", uses.rank[rows], run.reduce_end_s[rows], np.nan, size)]
    if _stands(setting) and layout.zero >= _GRADIENTS:
        rows = np.flatnonzero(uses.leaves_gradients)
        flat = state.gradient_buffer[0]
        whole = state_of(setting, sharded(layout)).gathered[0] if layout.zero else flat
        found += [
            _Life(name, uses.rank[rows], run.end_s[rows], run.reduce_end_s[rows], size[uses.module[rows]])
            for name, size in (("whole_gradients", whole), ("flat_gradients", flat))
        ]
    return found


def _stands(setting: Setting) -> bool:
    """Whether FSDP2 stands between a stage and its parameters."""
    mixed = setting.model.plain.bits != FP32_BITS
    return mixed or setting.layout.dp_replicate * setting.layout.dp_shard > 1


def _copies(setting: Setting, run: StepRun) -> list[_Life]:
    """Whole modules of zero 0 to 2, from their first forward to the end of their last backward."""
    if not _stands(setting) or setting.layout.zero == _FULL:
        return []
    uses = run.uses
    size = state_of(setting, replace(setting.layout, zero=_FULL)).gathered[0]
    places, first = np.unique(uses.place, return_index=True)
    start = np.full(len(places), np.inf)
    end = np.zeros(len(places))
    at = np.searchsorted(places, uses.place)
    np.minimum.at(start, at, run.start_s)
    np.maximum.at(end, at, run.end_s)
    return [_Life("whole_copies", uses.rank[first], start, end, size[uses.module[first]])]


def _split(setting: Setting, run: StepRun) -> list[_Life]:
    """Sets until the gradient of the input is there; from then on what products need for that of their weights."""
    uses = run.uses
    width = int(uses.micro_batch.max()) + 1
    name = uses.place * width + uses.micro_batch
    freed, weighed = (np.full(int(name.max()) + 1, np.nan) for _ in range(2))
    inputs = (uses.kind != FORWARD) & (uses.kind != BACKWARD_WEIGHT)
    freed[name[inputs]] = run.end_s[inputs]
    weights = uses.kind == BACKWARD_WEIGHT
    weighed[name[weights]] = run.end_s[weights]
    rows = np.flatnonzero(uses.kind == FORWARD)
    saved = run.plan.modules.saved_bytes[uses.module[rows]]
    off = np.flatnonzero(uses.kind == BACKWARD_INPUT)
    size = _put_off(setting)[uses.module[off]]
    back = np.flatnonzero(inputs)  # nothing is made beside in a slot of weight gradients
    beside = run.plan.modules.rebuilt_bytes[uses.module[back]]
    return [
        _Life("activations", uses.rank[rows], run.start_s[rows], freed[name[rows]], saved),
        _Life("transient", uses.rank[back], run.start_s[back], run.end_s[back], beside),
        _Life("put_off", uses.rank[off], run.end_s[off], weighed[name[off]], size),
    ]


def _put_off(setting: Setting) -> Any:
    """Of one module of each row: inputs of its matrices, those that share one once, and gradients of their outputs."""
    model, layouts = setting.model, setting.layouts
    kernels = Kernels()
    found = np.zeros(len(model.kinds) + 2, np.int64)
    for kind in range(len(model.kinds)):
        entries = [item for item in block_saved(model, kind, setting.sequence, kernels).saved if _of_matrix(item)]
        found[kind] = _entries(setting, entries)
    found[-1] = _entries(setting, [item for item in head_saved(model, setting.sequence, kernels) if _of_matrix(item)])
    bits = model.plain.bits // 8
    for operator in operators(model):
        if operator.weights:
            out: Any = fullest_sizes(operator.weights[0], layouts, "gathered")[-2]
            rows = setting.layout.micro_batch * setting.sequence
            row = len(found) - 1 if operator.kind is None else operator.kind
            found[row] += int(np.max(out)) * rows * bits
    return found


def _of_matrix(item: Saved) -> bool:
    """Whether a projection or the head takes it."""
    return item.need == "product_input" and item.operator != "attention" and not item.core


def _entries(setting: Setting, entries: Sequence[Saved]) -> int:
    """Bytes of entries of one micro-batch; under sp those before a product are gathered."""
    layouts = table([replace(setting.layout, sp=False)])
    sizes = entry_bytes(entries, layouts, setting.sequence)
    return sum(int(size[0]) for size in sizes) * setting.layout.micro_batch


def _gathered(setting: Setting, run: StepRun) -> list[_Life]:
    """Under sp, from forward to backward, or while it is made again."""
    uses = run.uses
    kept, made = _gathered_rows(setting)
    width = int(uses.micro_batch.max()) + 1
    name = uses.place * width + uses.micro_batch
    freed = np.full(int(name.max()) + 1, np.nan)
    back = (uses.kind != FORWARD) & (uses.kind != BACKWARD_WEIGHT)
    freed[name[back]] = run.end_s[back]
    rows, again = np.flatnonzero(uses.kind == FORWARD), np.flatnonzero(back)
    return [
        _Life("gathered_rows", uses.rank[rows], run.start_s[rows], freed[name[rows]], kept[uses.module[rows]]),
        _Life("gathered_rows", uses.rank[again], run.start_s[again], run.end_s[again], made[uses.module[again]]),
    ]


def _gathered_rows(setting: Setting) -> tuple[Any, Any]:
    """Under sp, of a module of each row: what gathered inputs of products add to its set, and to what is made again."""
    model, layout = setting.model, setting.layout
    kept, made = (np.zeros(len(model.kinds) + 2, np.int64) for _ in range(2))
    if not layout.sp or layout.tp == 1:
        return kept, made
    policy = read_recompute(layout.recompute)
    for kind in range(len(model.kinds)):
        block = block_saved(model, kind, setting.sequence, Kernels())
        entries = [item for item in block.saved if _of_matrix(item) and item.tensor.part == "norms"]
        dropped = {item.storage for item in block.saved} - {item.storage for item in policy.kept(block)}
        whole = _entries(setting, entries)
        cut = sum(int(size[0]) for size in entry_bytes(entries, setting.layouts, setting.sequence))
        more = whole - cut * layout.micro_batch
        if policy.rebuilt == "layer" and layout.recompute != "none":
            made[kind] = more
        else:
            kept[kind] = whole if dropped & {item.storage for item in entries} else more
    head = [item for item in head_saved(model, setting.sequence, Kernels()) if _of_matrix(item)]
    cut = sum(int(size[0]) for size in entry_bytes(head, setting.layouts, setting.sequence)) * layout.micro_batch
    kept[-1] = _entries(setting, head) - cut
    return kept, made


def _plan(setting: Setting) -> StepPlan:
    """The step, with passes of equal layers and short exchanges of modules."""
    model, layout, layouts = setting.model, setting.layout, setting.layouts
    state = state_of(setting, layout)
    kept = activation_columns(model, layouts, sequence=setting.sequence)
    rows = len(model.kinds) + 2
    none, even = np.zeros(rows), np.ones(rows)
    nothing = np.zeros(rows, np.int64)
    modules = Modules(
        forward_s=even,
        input_s=even,
        weight_s=even,
        gather_once_s=none,
        gather_each_s=even * _SHORT_S if layout.zero == _FULL else none,
        reduce_each_s=even * _SHORT_S if layout.zero >= _GRADIENTS else none,
        reduce_last_s=none,
        saved_bytes=np.array([*kept.saved[0], kept.embedding[0], kept.head[0]]),
        rebuilt_bytes=np.array([*kept.rebuilt[0], 0, kept.head_transient[0]]),
        gathered_bytes=state.gathered[0] if layout.zero == _FULL else nothing,
        gradient_bytes=state.gradient_buffer[0] if layout.zero >= _GRADIENTS else nothing,
    )
    return StepPlan(
        slots=setting.slots,
        stages=stage_modules(model.kind_of_layer, setting.slots.virtual_stages),
        modules=modules,
        prefetch="on",
        send_s=0.0,
        activation_bytes=round(float(boundary_bytes(model, layouts, setting.sequence)[0])),
        update_s=0.0,
    )
