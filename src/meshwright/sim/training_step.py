"""One training step as slot orders, modules and messages goes in; when every pass and exchange ran comes out.

Beside the contract of `sim.pipeline` every rank has a channel for weights and gradients, which runs one exchange at a
time, gathers before reductions. A module's pass waits for its gather, which is sent once the last pass before it that
takes time has started: one ahead. A reduction is sent when the gradients of its module are there and the channel is
free. Where whole gradients are buffered, a backward waits for all reductions but that of the module before it; two ends
of the model are not buffered at once. An update waits for every reduction of all ranks. Source: chapter "Training
systems", section 10.3.3. Without prefetch each exchange is a part of its pass, before or after it.

A closed form that hides every exchange but those of the ends (the chapter's) is met up to those of the first layer:
its gather starts behind that of the embedding, which computes nothing, and the embedding's reduction behind its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.sim.engine import Edges, Problem, Resource, simulate
from meshwright.sim.pipeline import Messages, dependencies, slot_ties
from meshwright.sim.pipeline_timeline import GRADIENTS, TASKS, UPDATE
from meshwright.sim.timeline import Timeline, timeline
from meshwright.sim.training_uses import StepPlan, Uses, offsets, uses_of

if TYPE_CHECKING:
    from meshwright.base.numbers import Bools, Floats, Ints

GATHER, REDUCE = range(len(TASKS), len(TASKS) + 2)
STEP_TASKS: Final = (*TASKS, "gather", "reduce")
"""What a task is, by its number: those of a pipeline, and exchanges of modules."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepRun:
    """A step that ran; times in seconds.

    timeline: of its tasks; a slot without exchanges is one of them.   start_s, end_s: of each use, without its
    exchanges.   gather_start_s, reduce_end_s: of these, the same where it has none.   message_start_s, message_end_s,
    slot_start_s, slot_end_s: of each message and slot.
    """

    plan: StepPlan
    uses: Uses
    messages: Messages
    timeline: Timeline
    start_s: Floats
    end_s: Floats
    gather_start_s: Floats
    reduce_end_s: Floats
    message_start_s: Floats
    message_end_s: Floats
    slot_start_s: Floats
    slot_end_s: Floats

    @property
    def total_s(self) -> float:
        """To the end of the last update."""
        return self.timeline.makespan_s

    @property
    def gradients_s(self) -> float:
        """To the last gradient, reduced."""
        return self.timeline.seconds(self.timeline.end[self.timeline.kind == GRADIENTS][0])

    def busy_s(self) -> Floats:
        """By rank, its passes."""
        return _of_ranks(self, self.uses.own_s)

    def channel_s(self) -> Floats:
        """By rank, its gathers and reductions."""
        return _of_ranks(self, self.uses.gather_s + self.uses.reduce_s)


def run_step(plan: StepPlan) -> StepRun:
    """Run one step. Raises SCH002 when slots wait for each other."""
    uses = uses_of(plan)
    tasks = _tasks(plan, uses)
    problem, kind = _problem(plan, uses, tasks)
    times = simulate(problem)
    ran = timeline(problem, times, kind=kind, kinds=STEP_TASKS, label=partial(_label, kind), tick_s=Fraction(1))
    return _named(plan, uses, tasks, ran)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Tasks:
    """Numbers of tasks: passes, then messages, the last gradient and updates, then gathers and reductions.

    of_use: the pass that holds each use.   first, last: of each slot.   duration_s: of each pass.   begins_s, ends_s:
    of each use since the start of its slot, exchanges without a task included.   split: uses that are tasks themselves.
    gathers, reductions: uses whose exchange is a task.
    """

    messages: Messages
    edges: Edges
    of_use: Ints
    first: Ints
    last: Ints
    duration_s: Floats
    begins_s: Floats
    ends_s: Floats
    split: Bools
    gathers: Ints
    reductions: Ints

    @property
    def passes(self) -> int:
        """How many."""
        return len(self.duration_s)

    def exchanges_from(self, ranks: int) -> int:
        """The number of the first gather."""
        return self.passes + len(self.messages.source) + 1 + ranks


def _tasks(plan: StepPlan, uses: Uses) -> _Tasks:
    """A slot is one task, but where exchanges run beside its passes: there each is one."""
    slots, rows = plan.slots, np.arange(len(plan.slots.rank))
    messages, edges = dependencies(slots, None, rows, rows)
    beside = plan.prefetch == "on"
    exchanged = ((uses.gather_s > 0) | (uses.reduce_s > 0)) & beside
    split = np.bincount(uses.slot, exchanged, len(rows))[uses.slot] > 0
    if beside and plan.modules.gather_each_s.any():
        split = np.ones_like(split)
    of_use = np.cumsum(split | uses.first) - 1
    spent = uses.own_s if beside else uses.gather_s + uses.own_s + uses.reduce_s
    begins, ends = offsets(uses, spent)
    first = of_use[uses.first]
    last = of_use[np.append(uses.first[1:], True)]  # the last use of all ends its slot
    duration = np.zeros(int(of_use[-1]) + 1)
    duration[of_use] = np.where(split, spent, ends)  # of a slot that is one task its last use writes last
    return _Tasks(
        messages=messages,
        edges=edges,
        of_use=of_use,
        first=first,
        last=last,
        duration_s=duration,
        begins_s=begins,
        ends_s=ends,
        split=split,
        gathers=np.flatnonzero((uses.gather_s > 0) & beside),
        reductions=np.flatnonzero((uses.reduce_s > 0) & beside),
    )


def _problem(plan: StepPlan, uses: Uses, tasks: _Tasks) -> tuple[Problem, Ints]:
    """The tasks with what they wait for and run on; and what each is."""
    slots, ranks, messages = plan.slots, plan.slots.ranks, tasks.messages
    wires, wire = np.unique(messages.sender * ranks + messages.receiver, return_inverse=True)
    sends = np.full(len(wire), plan.send_s)
    channel = ranks + len(wires)
    slot_of = uses.slot[np.unique(tasks.of_use, return_index=True)[1]]
    continued = np.ones(tasks.passes, np.bool_)
    continued[tasks.first] = False
    ties = slot_ties(slots, "direction")
    last_tie = int(ties.max(initial=0)) + 2
    exchanged = np.concatenate([tasks.gathers, tasks.reductions])
    duration = (tasks.duration_s, sends, np.zeros(1), np.full(ranks, plan.update_s))
    resource = (slots.rank[slot_of], np.where(sends > 0, ranks + wire, -1), [-1], np.arange(ranks))
    order = _exchange_order(uses, tasks)
    tie = (np.where(continued, 0, ties[slot_of] + 1), ties[messages.source] + 1, np.full(1 + ranks, last_tie), order)
    kind = (slots.kind[slot_of], messages.kind, [GRADIENTS], np.full(ranks, UPDATE))
    of_exchange = np.repeat([GATHER, REDUCE], [len(tasks.gathers), len(tasks.reductions)])
    lasts = (uses.gather_s[tasks.gathers], uses.reduce_s[tasks.reductions])
    durations = np.concatenate([*duration, *lasts])
    problem = Problem(
        duration=durations,
        resource=np.concatenate([*resource, channel + uses.rank[exchanged]]).astype(np.int64),
        edges=_joined([_moved(plan, tasks), _chained(uses, tasks), *_of_exchanges(plan, uses, tasks)]),
        resources=(
            *(Resource(name=f"rank {rank}") for rank in range(ranks)),
            *(Resource(name=f"wire {pair // ranks} to {pair % ranks}", queue="fifo") for pair in wires.tolist()),
            *(Resource(name=f"channel {rank}") for rank in range(ranks)),
        ),
        tie=np.concatenate(tie),
        release=np.zeros(len(durations)),
    )
    return problem, np.concatenate([*kind, of_exchange]).astype(np.int64)


def _exchange_order(uses: Uses, tasks: _Tasks) -> Ints:
    """Ties on a channel: gathers before reductions, both in the order of the passes."""
    rows, _ = uses.in_order()
    place = np.empty(len(rows), np.int64)
    place[rows] = np.arange(len(rows))
    return np.concatenate([place[tasks.gathers], len(rows) + place[tasks.reductions]])


# -------------------------------------------------------------------------------------------------- what waits for what


def _moved(plan: StepPlan, tasks: _Tasks) -> Edges:
    """The edges of slots and messages, between the tasks that slots became."""
    beyond = np.arange(len(tasks.messages.source) + 1 + plan.slots.ranks) + tasks.passes
    return Edges(
        before=np.concatenate([tasks.last, beyond])[tasks.edges.before],
        after=np.concatenate([tasks.first, beyond])[tasks.edges.after],
        at_start=tasks.edges.at_start,
    )


def _chained(uses: Uses, tasks: _Tasks) -> Edges:
    """Each pass of a slot after the one before it."""
    rows = np.flatnonzero(tasks.split & ~uses.first)
    return _edges(tasks.of_use[rows - 1], tasks.of_use[rows])


def _of_exchanges(plan: StepPlan, uses: Uses, tasks: _Tasks) -> list[Edges]:
    """Passes wait for gathers, reductions for passes, the last gradient for reductions; and what holds both back."""
    ranks = plan.slots.ranks
    gather = np.full(len(uses.slot), -1, np.int64)
    gather[tasks.gathers] = tasks.exchanges_from(ranks) + np.arange(len(tasks.gathers))
    reduction = np.full(len(uses.slot), -1, np.int64)
    start = tasks.exchanges_from(ranks) + len(tasks.gathers)
    reduction[tasks.reductions] = start + np.arange(len(tasks.reductions))
    last_gradient = np.full(len(tasks.reductions), tasks.passes + len(tasks.messages.source))
    return [
        _edges(gather[tasks.gathers], tasks.of_use[tasks.gathers]),
        _edges(tasks.of_use[tasks.reductions], reduction[tasks.reductions]),
        _edges(reduction[tasks.reductions], last_gradient),
        _one_ahead(plan, uses, tasks, gather),
        *_buffered(plan, uses, tasks, reduction),
    ]


def _one_ahead(plan: StepPlan, uses: Uses, tasks: _Tasks, gather: Ints) -> Edges:
    """A gather of every pass once the last pass before it that takes time has started."""
    rows, line = uses.in_order()
    here = np.arange(len(rows))
    busy = np.maximum.accumulate(np.where(uses.own_s[rows] > 0, here, -1))
    opener = np.concatenate([[-1], busy[:-1]])
    starts = np.flatnonzero(np.diff(line, prepend=-1))
    within = opener >= starts[np.searchsorted(starts, here, side="right") - 1]
    wanted = within & (gather[rows] >= 0) & (plan.modules.gather_each_s[uses.module[rows]] > 0)
    return _edges(tasks.of_use[rows[opener[wanted]]], gather[rows[wanted]], at_start=True)


def _buffered(plan: StepPlan, uses: Uses, tasks: _Tasks, reduction: Ints) -> list[Edges]:
    """A backward after the reduction two before its own; of two ends of the model after the one before."""
    rows, line = uses.in_order()
    among = uses.leaves_gradients[rows] & (reduction[rows] >= 0) & (plan.modules.reduce_each_s[uses.module[rows]] > 0)
    rows, line = rows[among], line[among]
    ends = uses.module[rows] >= len(plan.modules.forward_s) - 2
    two, one = line[2:] == line[:-2], (line[1:] == line[:-1]) & ends[1:] & ends[:-1]
    return [
        _edges(reduction[rows[:-2][two]], tasks.of_use[rows[2:][two]]),
        _edges(reduction[rows[:-1][one]], tasks.of_use[rows[1:][one]]),
    ]


def _edges(before: Ints, after: Ints, *, at_start: bool = False) -> Edges:
    return Edges(before=before, after=after, at_start=np.full(len(before), at_start))


def _joined(edges: list[Edges]) -> Edges:
    return Edges(
        before=np.concatenate([item.before for item in edges]).astype(np.int64),
        after=np.concatenate([item.after for item in edges]).astype(np.int64),
        at_start=np.concatenate([item.at_start for item in edges]),
    )


# ------------------------------------------------------------------------------------------------------- what came out


def _named(plan: StepPlan, uses: Uses, tasks: _Tasks, ran: Timeline) -> StepRun:
    """Times of uses, of their exchanges and of messages."""
    begun, ended = ran.start[tasks.of_use], ran.end[tasks.of_use]
    base = ran.start[tasks.first][uses.slot]
    begins = np.where(tasks.split, begun, base + tasks.begins_s)
    ends = np.where(tasks.split, ended, base + tasks.ends_s)
    start, end = begins, ends
    if plan.prefetch == "off":
        start, end = begins + uses.gather_s, ends - uses.reduce_s
    gather_start, reduce_end = begins.copy(), ends.copy()
    exchanges = tasks.exchanges_from(plan.slots.ranks)
    reductions = exchanges + len(tasks.gathers)
    gather_start[tasks.gathers] = ran.start[exchanges:reductions]
    reduce_end[tasks.reductions] = ran.end[reductions : reductions + len(tasks.reductions)]
    sent = slice(tasks.passes, tasks.passes + len(tasks.messages.source))
    return StepRun(
        plan=plan,
        uses=uses,
        messages=tasks.messages,
        timeline=ran,
        start_s=start,
        end_s=end,
        gather_start_s=gather_start,
        reduce_end_s=reduce_end,
        message_start_s=ran.start[sent],
        message_end_s=ran.end[sent],
        slot_start_s=ran.start[tasks.first],
        slot_end_s=ran.end[tasks.last],
    )


def _of_ranks(run: StepRun, spent: Floats) -> Floats:
    """By rank, what its uses spend."""
    total = np.zeros(run.plan.slots.ranks)
    np.add.at(total, run.uses.rank, spent)
    return total


def _label(kind: Ints, task: int) -> str:
    return STEP_TASKS[int(kind[task])]
