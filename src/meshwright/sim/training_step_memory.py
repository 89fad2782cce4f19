"""A training step that ran and the bytes of its modules go in; what every rank holds over time, and its peak, come out.

Held beside what persists: what a forward saves, until the end of its backward (of the weight gradient where that is
split off); what recompute and gradients take beside, while a backward runs; modules from the start of their gather to
the end of the pass, one that is gathered again while it is whole takes no second room; whole gradients from their
backward to the end of their reduction; both copies of every message, as in `sim.pipeline_memory`. Source: chapter
"Training systems", sections 10.1.2 and 10.2.1 to 10.2.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from meshwright.sim.memory import Buffers, Memory, memory

if TYPE_CHECKING:
    from meshwright.base.numbers import Floats, Ints
    from meshwright.sim.training_step import StepRun

WHAT: Final = ("activations", "transient", "gathered", "gradient_buffers", "sent_messages", "received_messages")
"""The kinds of its buffers."""
_Lives: TypeAlias = "tuple[Ints, Floats, Floats, Ints]"


def step_memory(run: StepRun, resident_bytes: Ints) -> Memory:
    """What every rank holds, in seconds. resident_bytes: by rank, what persists."""
    parts = (_saved(run), _beside(run), _gathered(run), _gradients(run), *_messages(run))
    rank, alloc, free, size = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return memory(
        Buffers(
            rank=rank,
            alloc=alloc,
            free=free,
            size_bytes=size,
            kind=np.repeat(np.arange(len(WHAT)), [len(part[0]) for part in parts]),
            kinds=WHAT,
            resident_bytes=resident_bytes,
        )
    )


def _saved(run: StepRun) -> _Lives:
    """From a forward to the end of what frees it; forwards without a backward save nothing."""
    uses = run.uses
    name = uses.place * (int(uses.micro_batch.max(initial=0)) + 1) + uses.micro_batch
    freeing = np.full(int(name.max(initial=0)) + 1, np.nan)
    last = uses.leaves_gradients
    freeing[name[last]] = run.end_s[last]
    rows = np.flatnonzero((uses.is_forward) & ~np.isnan(freeing[name]))
    return uses.rank[rows], run.start_s[rows], freeing[name[rows]], run.plan.modules.saved_bytes[uses.module[rows]]


def _beside(run: StepRun) -> _Lives:
    uses = run.uses
    rows = np.flatnonzero(~uses.is_forward)
    return uses.rank[rows], run.start_s[rows], run.end_s[rows], run.plan.modules.rebuilt_bytes[uses.module[rows]]


def _gathered(run: StepRun) -> _Lives:
    """One buffer for passes in a row between which the module stays whole."""
    uses = run.uses
    rows = np.flatnonzero(uses.reads_weights & (run.plan.modules.gathered_bytes[uses.module] > 0))
    rows = rows[np.lexsort((run.gather_start_s[rows], uses.place[rows]))]
    place, alloc, free = uses.place[rows], run.gather_start_s[rows], run.end_s[rows]
    kept: Any = (place[1:] == place[:-1]) & (alloc[1:] <= free[:-1])
    begins, ends = np.append(True, ~kept)[: len(rows)], np.append(~kept, True)[: len(rows)]
    return (
        uses.rank[rows[begins]],
        alloc[begins],
        free[ends],
        run.plan.modules.gathered_bytes[uses.module[rows[begins]]],
    )


def _gradients(run: StepRun) -> _Lives:
    uses = run.uses
    rows = np.flatnonzero(uses.leaves_gradients)
    size = run.plan.modules.gradient_bytes[uses.module[rows]]
    return uses.rank[rows], run.start_s[rows], run.reduce_end_s[rows], size


def _messages(run: StepRun) -> tuple[_Lives, _Lives]:
    """The sender's copies, and the receiver's."""
    sent = run.messages
    size = np.full(len(sent.source), run.plan.activation_bytes, np.int64)
    leaves, taken = run.slot_end_s[sent.source], run.slot_start_s[sent.target]
    return (sent.sender, leaves, run.message_end_s, size), (sent.receiver, run.message_start_s, taken, size)
