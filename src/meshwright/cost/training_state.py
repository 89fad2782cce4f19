"""The memory of training state: a model, columns of layouts and a recipe go in; exact bytes of a layer come out.

Weights, gradients and optimizer state under ZeRO, FSDP and HSDP are read off the ownership table: nothing is divided by
a number of ranks here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from meshwright.base.numbers import divide_up, maximum, where
from meshwright.base.traced import named
from meshwright.cost.kept import Kept, check_targets, gathered, gradient_buffers, kept, operand_copies, read, written
from meshwright.cost.pipelines import along_rows
from meshwright.cost.stages import by_stages, stage_kinds
from meshwright.layout.layouts import distinct
from meshwright.layout.ownership import ZERO_OF_STATE, cutting_fields, fullest_sizes, state_ways
from meshwright.model.model import Model, block_weights, first_weights, last_weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshwright.base.numbers import Ints
    from meshwright.cost.memory_even import Shards
    from meshwright.job.recipe import Recipe
    from meshwright.layout.layouts import Layouts
    from meshwright.layout.ownership import State
    from meshwright.model.tensors import Dim, Tensor

_Module: TypeAlias = tuple[tuple[Kept, ...], ...]
_Items: TypeAlias = dict[tuple[str, ...], list[tuple[int, int, Kept]]]
_STATES: Final[tuple[State, ...]] = ("parameters", "gradients", "optimizer_state")
_IN_USE: Final = ("gathered", "gradient_buffer", "operand_copy")
_COLUMNS: Final = (*_STATES, *_IN_USE, "read", "written")
_GATHERED: Final = _COLUMNS.index("gathered")
_LARGEST: Final = _COLUMNS.index("operand_copy")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StateColumns:
    """Columns of int64, [rows, kinds + 2]: bytes of one layer of each kind, of the first and of the last stage's ends.

    All on the fullest rank, that at the origin of the mesh. parameters, gradients, optimizer_state (with the master):
    resident.   gathered: a whole module's parameters while in use, after tp and ep; what `zero` 3 brings together, the
    resident ones below it.   gradient_buffer: a whole module's gradients before they are reduced to their owners.
    operand_copy: the largest copy of a matrix that is made for one product.   read, written: by a rank's update, beside
    optimizer_state: gradients, and parameters without a master; the parameters that change.
    """

    parameters: Ints
    gradients: Ints
    optimizer_state: Ints
    gathered: Ints
    gradient_buffer: Ints
    operand_copy: Ints
    read: Ints
    written: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageState:
    """Columns of int64, one row a layout, of the stage whose fullest rank keeps most; the first of equally full ones.

    total: parameters, gradients and optimizer_state.   gathered, gradient_buffer, operand_copy: of its largest module.
    """

    stage: Ints
    parameters: Ints
    gradients: Ints
    optimizer_state: Ints
    total: Ints
    gathered: Ints
    gradient_buffer: Ints
    operand_copy: Ints


def state_columns(model: Model, layouts: Layouts, recipe: Recipe, *, shards: Shards = "strict") -> StateColumns:
    """Bytes that training keeps, and those of a module in use, one row a layout. A tied head counts again when pp > 1.

    shards: `strict` cuts dim 0 over dp_shard x cp in chunks rounded up, as torch FSDP2; `even` divides bytes exactly,
    as a flat buffer of a whole module is dealt out (ZeRO, Megatron-LM) and as tables by `16 N / d` have it.
    Every expert counts, whether or not a token visits it. Raises JOB043 for adapters of matrices that the model lacks.
    Source: Rajbhandari et al., "ZeRO" (arXiv 1910.02054), section 5, for the ranks with copies of the same weights
    and other tokens of a step, dp_shard x cp; replicas over dp_replicate repeat it (HSDP).
    """
    items = _items(model, recipe)
    few, place = distinct(layouts, sorted({field for fields in items for field in fields}))
    table = along_rows(_table(items, few, len(model.kinds) + 3, shards), place)
    if model.tied:
        last, shared = table[:, :, -2], table[:, :, -1]
        table[:, :, -2] = last + where((layouts.degree("pp") > 1)[:, None], shared, np.zeros(1, dtype=np.int64))
    return StateColumns(**{name: table[:, number, :-1] for number, name in enumerate(_COLUMNS)})


def stage_totals(model: Model, layouts: Layouts, columns: StateColumns) -> StageState:
    """What the fullest rank of the fullest stage keeps: the layers and ends of its stage added up."""
    names = (*_STATES, *_IN_USE, "stage")
    found: Any = np.zeros((len(names), len(layouts)), dtype=columns.parameters.dtype)
    for stages, rows in by_stages(layouts):
        counts, numbers = stage_kinds(model, stages)
        resident = [getattr(columns, name)[rows] @ counts.T for name in _STATES]
        worst = np.argmax(sum(resident), axis=1)
        has: Any = counts[worst] > 0
        in_use = [where(has, getattr(columns, name)[rows], 0).max(axis=1) for name in _IN_USE]
        at = np.arange(len(worst))
        found[:, rows] = np.stack([*(column[at, worst] for column in resident), *in_use, numbers[worst]])
    return StageState(**dict(zip(names, found, strict=True)), total=found[0] + found[1] + found[2])


def _tensors(model: Model) -> list[tuple[Tensor, ...]]:
    """Those of a layer of each kind, of the first end, of the last end, and what the last end shares with the first."""
    last = last_weights(model)
    own = tuple(tensor for tensor in last if tensor.alias is None)
    shared = tuple(tensor for tensor in last if tensor.alias is not None)
    return [*(block_weights(model, kind) for kind in range(len(model.kinds))), first_weights(model), own, shared]


def _module(tensors: tuple[Tensor, ...], recipe: Recipe) -> _Module:
    """What each of the columns adds up, in their order; of the last one the largest counts."""
    resident = kept(tensors, recipe)
    by_state = tuple(tuple(item for item in resident if item.state == state) for state in _STATES)
    in_use = (gathered(tensors, recipe), gradient_buffers(tensors, recipe), operand_copies(tensors, recipe))
    return (*by_state, *in_use, read(tensors, recipe), written(tensors, recipe))


@cache
def _items(model: Model, recipe: Recipe) -> _Items:
    """Every tensor with the number of its column and of its module, by the fields that cut it."""
    check_targets(model, recipe)
    found: _Items = {}
    for number, module in enumerate(_module(tensors, recipe) for tensors in _tensors(model)):
        for column, items in enumerate(module):
            for item in items:
                found.setdefault(cutting_fields(item.tensor), []).append((column, number, item))
    return found


def _table(items: _Items, layouts: Layouts, modules: int, shards: Shards) -> Any:
    """[rows, columns, modules]; what is cut alike is evaluated once for each way that it is cut."""
    total: Any = np.zeros((len(layouts), len(_COLUMNS), modules), dtype=np.int64)
    for fields in sorted(items):
        few, place = distinct(layouts, fields)
        part = np.take(_group(items[fields], few, modules, shards), place, axis=0)
        most = maximum(total[:, _LARGEST], part[:, _LARGEST])
        total = total + part
        total[:, _LARGEST] = most
    whole = (layouts.degree("zero") < ZERO_OF_STATE["parameters"])[:, None]
    total[:, _GATHERED] = where(whole, total[:, 0], total[:, _GATHERED])
    return total


def _group(items: Sequence[tuple[int, int, Kept]], layouts: Layouts, modules: int, shards: Shards) -> Any:
    """[rows, columns, modules] of some tensors."""
    sizes: dict[tuple[tuple[Dim, ...], State], tuple[Ints | int, ...]] = {}
    ways: dict[tuple[tuple[Dim, ...], State], Ints] = {}
    found: list[list[Any]] = [[np.zeros(len(layouts), dtype=np.int64)] * modules for _ in _COLUMNS]
    for column, module, item in items:
        state: State = item.state if shards == "strict" else "gathered"
        key = (item.tensor.dims, state)
        if key not in sizes:
            sizes[key] = fullest_sizes(item.tensor, layouts, state)
        piece: Any = item.piece_bytes(sizes[key])
        if shards == "even":
            cut = (item.tensor.dims, item.state)
            if cut not in ways:
                ways[cut] = state_ways(item.tensor, layouts, item.state)
            piece = divide_up(piece, ways[cut])
        piece = named(piece, f"{item.tensor.name}.{item.name}_bytes")
        so_far = found[column][module]
        found[column][module] = maximum(so_far, piece) if column == _LARGEST else so_far + piece
    columns = [column for numbers in found for column in numbers]
    return np.stack(columns, axis=1).reshape(len(layouts), len(_COLUMNS), modules)
