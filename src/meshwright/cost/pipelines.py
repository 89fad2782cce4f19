"""A model and columns of layouts go in; what each row's pipeline ranks hold and work on comes out.

Ranks of a pipeline that hold the same layers are one entry; of these the one that keeps most sets of activations
counts, because bytes rise with the sets. So a row has a handful of entries, whatever its pp.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from meshwright.base.traced import values
from meshwright.layout.layouts import distinct
from meshwright.layout.ownership import stage_of_layers
from meshwright.workload.slots import Shape, most_held, read_schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshwright.base.numbers import Floats, Ints
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model
    from meshwright.workload.slots import Slots

Line: TypeAlias = tuple[str | None, int]
"""A schedule, or None for a single stage, and the virtual stages of a rank."""
PLAIN: Final = "one_f_one_b"
"""The order of a single rank, where a layout names no schedule."""
_COLUMNS: Final = ("layers", "ranks", "number", "sets", "last_sets", "directions", "growth")
_SHAPE: Final = ("schedule", "pp", "virtual_stages")
_COUNT: Final = "num_micro_batches"
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
    stages: Any = plain.degree("pp")
    settled = np.minimum(count, _SETTLED * stages + count % stages)
    few, place = distinct(replace(plain, columns={**plain.columns, _COUNT: settled}), (*_SHAPE, _COUNT))
    rows = zip(*(few.columns[name].tolist() for name in (*_SHAPE, _COUNT)), strict=True)
    kinds = model.kind_of_layer
    entries = [
        _entries(kinds, name or PLAIN, Shape(stages=stages, micro_batches=batches, virtual_stages=chunks))
        for name, stages, chunks, batches in rows
    ]
    held = {name: along_rows(_joined([getattr(item, name) for item in entries]), place) for name in _COLUMNS}
    beyond: Any = (count - settled)[:, None] * held["growth"][:, None]
    held["sets"] = held["sets"] + beyond
    held["last_sets"] = held["last_sets"] + beyond * held["layers"][:, :, -1]
    return Pipelines(**held)


def bounding_pipelines(
    model: Model, layouts: Layouts, micro_batches: Ints, lines: Sequence[Line]
) -> tuple[Pipelines, Pipelines]:
    """The mean rank, and a rank that holds no more than one does, of whatever line of `lines` a row's stages take.

    For bounds: where time is no less than that of the mean, and bytes are no less than those of the second, whichever
    line it is. The second has the fewest layers and sets that the rank with most sets has in any line.
    """
    plain, count = layouts.plain(), values(micro_batches)
    stages: Any = plain.degree("pp")
    settled = np.minimum(count, _SETTLED * stages + count % stages)
    few, place = distinct(plain.changed({_COUNT: settled}), ("pp", _COUNT))
    shapes = zip(few.columns["pp"].tolist(), few.columns[_COUNT].tolist(), strict=True)
    least = [_least(model.kind_of_layer, tuple(lines), stages, batches) for stages, batches in shapes]
    held = {name: along_rows(_joined([getattr(item, name) for item in least]), place) for name in _COLUMNS}
    whole = np.array([*model.kind_counts, 1, 1])
    mean: Any = whole / stages[:, None, None]
    even = {**held, "layers": mean, "ranks": stages[:, None], "sets": held["sets"] * 0.0}
    return Pipelines(**{**even, "last_sets": held["sets"] * 0.0}), Pipelines(**held)


@cache
def takes(layers: int, name: str | None, shape: Shape) -> bool:
    """Whether a schedule takes a shape, with a layer for every virtual stage."""
    if name is None:
        return shape.stages == shape.virtual_stages == 1
    program = read_schedule(name)
    return program.refusal(shape) is None and program.placement(shape).shape[1] <= layers


@cache
def _least(kinds: tuple[int, ...], lines: tuple[Line, ...], stages: int, batches: int) -> Pipelines:
    """One entry: of the rank with most sets of each line that takes the shape, the least in everything."""
    shapes = [(name, Shape(stages=stages, micro_batches=batches, virtual_stages=pieces)) for name, pieces in lines]
    taken = [_entries(kinds, name or PLAIN, shape) for name, shape in shapes if takes(len(kinds), name, shape)]
    fullest = [(item, int(np.argmax(item.sets))) for item in taken]

    def least(name: str) -> Any:
        return np.min([getattr(item, name)[place] for item, place in fullest], axis=0, keepdims=True)

    found = {name: least(name) for name in ("layers", "ranks", "number", "sets", "last_sets")}
    return Pipelines(**found, directions=np.array(1, dtype=np.int64), growth=np.array(0.0))


def along_rows(few: Any, place: Ints) -> Any:
    """`few[place]`, in memory row behind row for each of the other dims: what follows goes through them one by one."""
    return np.take(np.ascontiguousarray(few.T), place, axis=-1).T


def added(columns: Any, place: int, part: Any) -> Any:
    """The columns with a part added to one of them."""
    columns = columns.astype(np.result_type(columns, part))
    columns[:, place] = columns[:, place] + part
    return columns


def largest(columns: Any) -> Ints:
    """[rows]: of [rows, entries], the first of the largest entries."""
    plain = values(columns)
    most, found = plain[:, 0], np.zeros(len(plain), dtype=np.int64)
    for entry in range(1, plain.shape[1]):
        found[plain[:, entry] > most] = entry
        most = np.maximum(most, plain[:, entry])
    return found


def of_entry(columns: Any, entry: Ints) -> Any:
    """[rows]: of [rows, entries], the entry of each row."""
    return columns.T.reshape(-1)[entry * len(entry) + np.arange(len(entry))]


def over_entries(columns: Any) -> Any:
    """[rows]: of [rows, entries], the sum in their order: the same bits for any number of empty ones."""
    total: Any = columns[:, 0]
    for entry in range(1, columns.shape[1]):
        total = total + columns[:, entry]
    return total


def _joined(columns: list[Any]) -> Any:
    """The columns behind each other; where they are of entries, each with as many places as the longest."""
    if columns[0].ndim == 0:
        return np.array(columns)
    most = max(len(column) for column in columns)
    found = np.zeros((len(columns), most, *columns[0].shape[1:]), dtype=columns[0].dtype)
    for place, column in enumerate(columns):
        found[place, : len(column)] = column  # places added have no ranks and no layers
    return found


@cache
def _entries(kinds: tuple[int, ...], name: str, shape: Shape) -> Pipelines:
    """The entries of one shape."""
    program = read_schedule(name)
    refused = program.refusal(shape) is not None
    if refused:
        name, shape = PLAIN, replace(shape, virtual_stages=1)
        program = read_schedule(name)
    held, last = _counted(name, shape)
    table: dict[tuple[int, ...], list[float]] = {}
    for rank, (row, pieces) in enumerate(_rank_layers(kinds, name, shape.stages, shape.virtual_stages)):
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
        last_sets=np.multiply(layers[:, -1], last, dtype=np.float64),
        directions=np.array(program.DIRECTIONS, dtype=np.int64),
        growth=np.array(_growth(name, shape.stages, shape.virtual_stages)),
    )


def stage_modules(kinds: tuple[int, ...], stages: int) -> tuple[tuple[int, ...], ...]:
    """By virtual stage, its modules in the order of a forward: kinds of layers, and the two ends, numbered behind."""
    first = max(kinds) + 1
    held = [list(kinds[layers.start : layers.stop]) for layers in stage_of_layers(len(kinds), stages)]
    held[0].insert(0, first)
    held[-1].append(first + 1)
    return tuple(map(tuple, held))


@cache
def _rank_layers(
    kinds: tuple[int, ...], name: str, stages: int, virtual_stages: int
) -> list[tuple[tuple[int, ...], int]]:
    """For every rank, layers of each kind, first and last virtual stages, and virtual stages; of all directions."""
    placement = read_schedule(name).placement(Shape(stages=stages, micro_batches=stages, virtual_stages=virtual_stages))
    rows = np.zeros((int(placement.max()) + 1, max(kinds) + 3), dtype=np.int64)
    modules = stage_modules(kinds, placement.shape[1])
    sizes = [len(held) for held in modules]
    flat = np.concatenate([np.array(held, dtype=np.int64) for held in modules])
    for direction in placement:
        np.add.at(rows, (np.repeat(direction, sizes), flat), 1)
    pieces = np.maximum(np.bincount(placement.reshape(-1), minlength=len(rows)), 1)
    return [(tuple(row), count) for row, count in zip(rows.tolist(), pieces.tolist(), strict=True)]


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
