"""A model and columns of layouts go in; what each row's pipeline ranks hold and work on comes out.

Ranks of a pipeline that hold the same layers are one entry; of these the one that keeps most sets of activations
counts, because bytes rise with the sets. So a row has a handful of entries, whatever its pp.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.traced import values
from meshwright.layout.ownership import stage_of_layers
from meshwright.workload.slots import Shape, most_held, read_schedule

if TYPE_CHECKING:
    from meshwright.base.numbers import Floats, Ints
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model
    from meshwright.workload.slots import Slots

PLAIN: Final = "one_f_one_b"
"""The order of a single rank, where a layout names no schedule."""
_SETTLED: Final = 4
"""Times the stages: of so many micro-batches on, one more only waits, or adds a set."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pipelines:
    """Columns [rows, entries] of ranks that hold the same layers; an entry without ranks is empty.

    layers: [rows, entries, kinds + 2] of each kind, then first and last virtual stages, over all directions.
    ranks: how many are alike.   number: the first of them that keeps most.   sets: of activations of all its layers
    that it keeps at once (a fraction where it holds several virtual stages).   last_sets: of the model's end.
    directions: micro-batches enter at one end or, half of them each, at both.   growth: sets that one more micro-batch
    adds beyond those from which the rest only wait: none, but in schedules that run all forwards first.
    """

    layers: Ints
    ranks: Ints
    number: Ints
    sets: Floats
    last_sets: Floats
    directions: Ints
    growth: Floats


def pipelines(model: Model, layouts: Layouts, micro_batches: Ints) -> Pipelines:
    """The pipelines of every row. Rows whose schedule refuses their shape get what one set a rank would be."""
    plain, count = layouts.plain(), values(micro_batches)
    names, of_name = np.unique(plain.columns["schedule"].astype("U32"), return_inverse=True)
    settled = np.minimum(count, _SETTLED * plain.degree("pp") + count % plain.degree("pp"))
    found, place = _distinct(np.stack([of_name, plain.degree("pp"), plain.degree("virtual_stages"), settled]))
    entries = [
        _entries(model, str(names[name]), Shape(stages=stages, micro_batches=batches, virtual_stages=chunks))
        for name, stages, chunks, batches in found.T.tolist()
    ]
    most = max(len(item.ranks) for item in entries)
    joined = [_padded(item, most) for item in entries]
    names_of = ("layers", "ranks", "number", "sets", "last_sets", "directions", "growth")
    held = {name: np.stack([getattr(item, name) for item in joined])[place] for name in names_of}
    beyond: Any = (count - settled)[:, None] * held["growth"][:, None]
    held["sets"] = held["sets"] + beyond
    held["last_sets"] = held["last_sets"] + beyond * held["layers"][:, :, -1]
    return Pipelines(**held)


def _distinct(keys: Ints) -> tuple[Ints, Ints]:
    """The distinct columns, and which of them each is: packed into one number, whose sorting is quick."""
    sizes = keys.max(axis=1, initial=0) + 1
    packed = np.ravel_multi_index(tuple(keys), tuple(sizes.tolist()))
    found, place = np.unique(packed, return_inverse=True)
    return np.stack(np.unravel_index(found, tuple(sizes.tolist()))), place


@cache
def _entries(model: Model, schedule: str, shape: Shape) -> Pipelines:
    """The entries of one shape."""
    name = PLAIN if schedule in {"None", ""} else schedule
    program = read_schedule(name)
    refused = program.refusal(shape) is not None
    if refused:
        name, shape = PLAIN, replace(shape, virtual_stages=1)
        program = read_schedule(name)
    placement = program.placement(shape)
    held, last = _counted(name, shape)
    table: dict[tuple[int, ...], list[float]] = {}
    for rank, row in enumerate(_rank_layers(model, placement)):
        pieces = max(int((placement == rank).sum()), 1)
        sets = held[rank] / pieces
        entry = table.setdefault(row, [0, rank, sets])
        entry[0] += 1
        if sets > entry[2]:
            entry[1:] = [rank, sets]
    ranks, number, sets = zip(*table.values(), strict=True)
    layers = np.array(list(table), dtype=np.int64)
    return Pipelines(
        layers=layers,
        ranks=np.array(ranks, dtype=np.int64),
        number=np.array(number, dtype=np.int64),
        sets=np.array(sets, dtype=np.float64),
        last_sets=layers[:, -1] * float(last),
        directions=np.array(program.DIRECTIONS, dtype=np.int64),
        growth=np.array(_growth(name, shape.stages, shape.virtual_stages)),
    )


def stage_modules(model: Model, stages: int) -> tuple[tuple[int, ...], ...]:
    """By virtual stage, its modules in the order of a forward: kinds of layers, and the two ends, numbered behind."""
    kinds, first = model.kind_of_layer, len(model.kinds)
    held = [list(kinds[layers.start : layers.stop]) for layers in stage_of_layers(len(kinds), stages)]
    held[0].insert(0, first)
    held[-1].append(first + 1)
    return tuple(map(tuple, held))


def _rank_layers(model: Model, placement: Ints) -> list[tuple[int, ...]]:
    """For every rank, layers of each kind, first and last virtual stages; of all directions together."""
    rows = np.zeros((int(placement.max()) + 1, len(model.kinds) + 2), dtype=np.int64)
    stages = stage_modules(model, placement.shape[1])
    for direction in placement.tolist():
        for rank, modules in zip(direction, stages, strict=True):
            np.add.at(rows[rank], list(modules), 1)
    return [tuple(row) for row in rows.tolist()]


@cache
def _growth(name: str, stages: int, virtual_stages: int) -> float:
    """Sets that one more micro-batch adds to the fullest rank, in whole stages."""
    shape = Shape(stages=stages, micro_batches=_SETTLED * stages, virtual_stages=virtual_stages)
    if read_schedule(name).refusal(shape) is not None:
        return 0.0
    more = replace(shape, micro_batches=(_SETTLED + 1) * stages)
    pieces = read_schedule(name).placement(shape).size / stages
    return (max(_counted(name, more)[0]) - max(_counted(name, shape)[0])) / stages / pieces


@cache
def _counted(name: str, shape: Shape) -> tuple[list[float], float]:
    slots = read_schedule(name).slots(shape)
    last = _only(slots, slots.virtual_stages - 1)
    return most_held(slots).tolist(), float(most_held(last).max())


def _only(slots: Slots, virtual_stage: int) -> Slots:
    """The slots of one virtual stage, on the ranks that hold it."""
    rows = slots.virtual_stage == virtual_stage
    names = ("rank", "sequence", "kind", "virtual_stage", "micro_batch", "direction", "cell")
    return replace(slots, **{name: getattr(slots, name)[rows] for name in names})


def _padded(entry: Pipelines, count: int) -> Pipelines:
    """The entry with as many places as the longest; those added have no ranks and no layers."""

    def filled(column: Any) -> Any:
        return np.concatenate([column, np.zeros((count - len(column), *column.shape[1:]), dtype=column.dtype)])

    names = ("layers", "ranks", "number", "sets", "last_sets")
    # directions and growth are of the whole pipeline
    return replace(entry, **{name: filled(getattr(entry, name)) for name in names})
