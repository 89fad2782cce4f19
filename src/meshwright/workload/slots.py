"""Stages, micro-batches and a schedule's name go in; the slot orders of every rank come out, as columns.

A slot is one piece of work of one micro-batch on one virtual stage. A schedule says in which order a rank runs its
slots, never how long they take: `sim.pipeline` gives them times, and a real run can follow the same columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, cast

import numpy as np

from meshwright.base.errors import ScheduleError
from meshwright.base.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from meshwright.base.numbers import Bools, Ints, N

SCHEDULES: Final = Registry(
    kind="schedules", package="meshwright.workload", folder="schedules", error=ScheduleError, number=3
)
FORWARD, BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT = range(4)
KINDS: Final = ("forward", "backward", "backward_input", "backward_weight")
"""What a slot does, by its number: `backward` is whole, the last two are its halves."""
_FIELDS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How many. stages: ranks in line.   virtual_stages: pieces of the model that a rank of `interleaved` holds."""

    stages: int
    micro_batches: int
    virtual_stages: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a schedule does not take a shape. nearest: the nearest number that it takes, None where there is none."""

    code: str
    reason: str
    nearest: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one micro-batch takes a rank, in one unit of time.

    weight: the part of `backward` that is a weight gradient.   cell: a forward beside another's backward.
    """

    forward: Any
    backward: Any
    weight: Any
    cell: Any

    @property
    def inputs(self) -> Any:
        """The part of a backward that is an input gradient."""
        return self.backward - self.weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Bubble:
    """A published formula for idle time with free transfers and equal stages.

    time: (ranks, virtual stages of a rank, work) -> idle, in the unit of the work.
    of: `step`, from the start to the last gradient of all ranks; `rank`, from a rank's own first slot to its last.
    holds: for which work it is exact, a cell as long as its parts; for other work it is what the paper states.
    least: the micro-batches from which on it is exact, by ranks.   where: both in words.
    """

    time: Callable[[int, int, Work], Any]
    of: Literal["step", "rank"]
    holds: Callable[[Work], bool]
    least: Callable[[int], int]
    where: str


class Program(Protocol):
    """What a file of `schedules/` holds.

    DIRECTIONS: 2 where half of the micro-batches enters at the last rank.   COPIES: of the parameters, over all ranks.
    BUBBLE: None where no formula is known.
    """

    TITLE: str
    SOURCE: str
    DIRECTIONS: int
    COPIES: int
    BUBBLE: Bubble | None

    def refusal(self, shape: Shape, /) -> Refusal | None:
        """Why it does not take the shape; None where it does."""
        ...

    def placement(self, shape: Shape, /) -> Ints:
        """The rank of each virtual stage, one row a direction."""
        ...

    def slots(self, shape: Shape, /) -> Slots:
        """The slot orders of every rank, for a shape that it takes."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Slots:
    """Columns, one row a slot; rows of one (rank, sequence) stand in the order in which they run.

    sequence: which of a rank's slot orders; two of them share the rank's stream, first come, first served.
    virtual_stage: place along the model.   micro_batch: its number; both from 0.   direction: 1 where it enters at the
    last rank.   cell: slots of a rank with one number may overlap, or run as one; -1 for none.
    placement: the rank of each virtual stage, one row a direction.
    """

    rank: Ints
    sequence: Ints
    kind: Ints
    virtual_stage: Ints
    micro_batch: Ints
    direction: Ints
    cell: Ints
    placement: Ints

    @property
    def virtual_stages(self) -> int:
        """Along the model."""
        return int(self.placement.shape[1])

    @property
    def ranks(self) -> int:
        """In line."""
        return int(self.placement.max()) + 1

    @property
    def micro_batches(self) -> int:
        """Of both directions."""
        return int(self.micro_batch.max()) + 1


def read_schedule(name: str) -> Program:
    """The schedule registered as `name`. Raises SCH003 for an unknown one."""
    return cast("Program", SCHEDULES.module(name))


def checked_shape(name: str, shape: Shape) -> Program:
    """The schedule, once it takes the shape. Raises SCH001 (micro-batches), SCH003 (name), SCH004 (stages)."""
    program = read_schedule(name)
    refusal = program.refusal(shape)
    if refusal is not None:
        what = "--micro-batches" if refusal.code == "SCH001" else "--stages"
        fix = "choose another schedule" if refusal.nearest is None else f"{what} {refusal.nearest}"
        raise ScheduleError(int(refusal.code[-3:]), f"{name}: {refusal.reason}", fix)
    return program


# ------------------------------------------------------------------------------------------ what schedules are made of


def piece(kind: int, virtual_stage: Any, micro_batch: Any, direction: int = 0, cell: Any = -1) -> Ints:
    """Slots of one kind in order: rows of kind, virtual stage, micro-batch, direction, cell."""
    columns = (kind, virtual_stage, micro_batch, direction, cell)
    rows = np.empty((*np.broadcast(*columns).shape, _FIELDS), dtype=np.int64)
    for place, column in enumerate(columns):
        rows[..., place] = column
    return rows.reshape(-1, _FIELDS)


def woven(*pieces: Ints) -> Ints:
    """One slot of each piece in turn."""
    rows = np.empty((len(pieces[0]), len(pieces), _FIELDS), dtype=np.int64)
    for place, part in enumerate(pieces):
        rows[:, place] = part
    return rows.reshape(-1, _FIELDS)


def joined(*pieces: Ints) -> Ints:
    """One piece after the other."""
    return np.concatenate(pieces)


def alternated(forwards: Ints, backwards: Ints, warm_up: int) -> Ints:
    """`warm_up` forwards, then a forward and a backward in turn, then the backwards that are left."""
    first = min(warm_up, len(forwards))
    paired = len(forwards) - first
    return joined(forwards[:first], woven(forwards[first:], backwards[:paired]), backwards[paired:])


def with_weights(order: Ints, lag: int) -> Ints:
    """The order with the weight gradient of the i-th backward after the input gradient of the one `lag` later.

    Those whose time never comes stand at the end.
    """
    places = np.flatnonzero(order[:, 0] == BACKWARD_INPUT)
    weights = order[places].copy()
    weights[:, 0] = BACKWARD_WEIGHT
    behind = np.concatenate([places[lag:], np.full(min(lag, len(places)), len(order))])
    return np.insert(order, np.minimum(behind + 1, len(order)), weights, axis=0)


def below(order: Ints, micro_batches: int) -> Ints:
    """The slots of the first `micro_batches` alone."""
    return order[order[:, 2] < micro_batches]


def gathered(orders: Sequence[tuple[int, int, Ints]], placement: Ints) -> Slots:
    """The columns of (rank, sequence, order)."""
    rows = np.concatenate([order for _, _, order in orders])
    sizes = [len(order) for _, _, order in orders]
    kind, virtual_stage, micro_batch, direction, cell = np.ascontiguousarray(rows.T)
    return Slots(
        rank=np.repeat(np.array([rank for rank, _, _ in orders], np.int64), sizes),
        sequence=np.repeat(np.array([sequence for _, sequence, _ in orders], np.int64), sizes),
        kind=kind,
        virtual_stage=virtual_stage,
        micro_batch=micro_batch,
        direction=direction,
        cell=cell,
        placement=placement,
    )


def in_line(shape: Shape) -> Ints:
    """Placement of one virtual stage a rank."""
    return np.arange(shape.stages, dtype=np.int64)[None, :]


def both_ways(shape: Shape) -> Ints:
    """Placement of one virtual stage a rank and direction, the second direction from the last rank to the first."""
    ranks = np.arange(shape.stages, dtype=np.int64)
    return np.stack([ranks, ranks[::-1]])


def in_a_v(shape: Shape) -> Ints:
    """Placement of two virtual stages a rank: down the ranks, and back up."""
    ranks = np.arange(shape.stages, dtype=np.int64)
    return np.concatenate([ranks, ranks[::-1]])[None, :]


def forward_only(shape: Shape) -> Slots:
    """Every rank passes every micro-batch on, as in inference."""
    batches = np.arange(shape.micro_batches)
    return gathered([(rank, 0, piece(FORWARD, rank, batches)) for rank in range(shape.stages)], in_line(shape))


# ------------------------------------------------------------------------------------------------ what a schedule costs


def crossings(slots: Slots) -> int:
    """Boundaries between ranks that the forward pass of one micro-batch crosses; as many gradients come back."""
    return int((np.diff(slots.placement[0]) != 0).sum())


def activation_sets(slots: Slots, share: N) -> N:
    """The most saved sets that a rank holds at once, as its slot order alone has it, in sets of a whole stage.

    share: of a whole stage that a virtual stage is.
    """
    return cast("N", int(most_held(slots).max()) * cast("Any", share))


def weight_lag(slots: Slots) -> list[int]:
    """By rank, the most micro-batches by which a weight gradient runs behind its input gradient."""
    return [_lag_of(slots, rank) for rank in range(slots.ranks)]


def most_held(slots: Slots) -> Ints:
    """By rank, the most saved sets of a virtual stage that it holds at once, as its slot order alone has it.

    A set is held from its forward to the end of its backward (of its weight gradient where that is split off). Two
    slot orders on one stream count as each alone, added.
    """
    orders = int(slots.sequence.max(initial=0)) + 1
    keys = slots.rank * orders + slots.sequence
    places = np.argsort(keys, kind="stable")
    keys, freed = keys[places], _frees(slots)[places]
    held = np.where(slots.kind[places] == FORWARD, 1, 0) - freed
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    running = np.cumsum(held)
    before = np.repeat(running[starts] - held[starts], np.diff(starts, append=len(keys)))
    # a set is freed at the end of its slot, so the next slot begins with it gone
    most = np.maximum.reduceat(running - before + freed, starts)
    found = np.zeros(slots.ranks, np.int64)
    np.add.at(found, keys[starts] // orders, np.maximum(most, 0))
    return found


def _frees(slots: Slots) -> Ints:
    """1 where the end of a slot frees a saved set."""
    split = slots.kind == BACKWARD_WEIGHT
    return ((slots.kind == BACKWARD) | split).astype(np.int64)


def _lag_of(slots: Slots, rank: int) -> int:
    rows: Bools = slots.rank == rank
    begun = np.cumsum(slots.kind[rows] == BACKWARD_INPUT)
    ended = np.cumsum(slots.kind[rows] == BACKWARD_WEIGHT)
    weights = slots.kind[rows] == BACKWARD_WEIGHT
    return int((begun - ended)[weights].max(initial=0))
