"""The ownership table: a tensor and a layout go in; which axis shards which dim, who replicates it, and the index range
that each rank holds come out.

One rule, `shard_range`, answers for a single rank and for columns of layouts alike, so the memory ledger, message sizes
and the placements of a real run cannot disagree about who owns a slice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from meshwright.layout.axes import MESH_AXES
from meshwright.layout.mesh import coordinates

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints
    from meshwright.layout.layout import Layout
    from meshwright.layout.layouts import Layouts
    from meshwright.model.tensors import Dim, Role, Tensor

AXIS_OF_ROLE: Final[Mapping[Role, str]] = {
    "heads": "tp",
    "kv_heads": "tp",
    "intermediate": "tp",
    "vocab": "tp",
    "positions": "cp",
    "experts": "ep",
    "expert_intermediate": "etp",
}
"""Which axis shards a dim of this role; a role that is not here is held whole by every rank of its stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where one tensor lies: per dim the axis that shards it (None is whole), and the axes of a stage that repeat it."""

    shards: tuple[str | None, ...]
    replicated_on: tuple[str, ...]


def placement(tensor: Tensor, layout: Layout) -> Placement:
    """The axes that shard and that replicate a tensor within its stage, those of degree 1 left out."""
    axes = tuple(AXIS_OF_ROLE.get(dim.role) for dim in tensor.dims)
    shards = tuple(axis if axis is not None and getattr(layout, axis) > 1 else None for axis in axes)
    if any(dim.role in {"experts", "expert_intermediate"} for dim in tensor.dims):
        spread = layout.ep * layout.etp
        stage = layout.dp_replicate * layout.dp_shard * layout.cp * layout.tp
        return Placement(shards=shards, replicated_on=("expert_replicas",) if stage > spread else ())
    held = set(shards)
    repeated = [axis for axis in MESH_AXES[1:] if axis not in {"pp", *held} and getattr(layout, axis) > 1]
    if any(_short(dim, layout) for dim in tensor.dims):
        repeated.append("tp")
    return Placement(shards=shards, replicated_on=tuple(repeated))


def shard_range(units: int, degree: Ints | int, index: Ints | int) -> tuple[Ints, Ints]:
    """First and past-the-last unit that shard `index` of `degree` holds, of `units` indivisible ones.

    With no more shards than units: equal shares rounded up, the last ones shorter or empty (as DTensor chunks). With
    more shards than units: each unit is repeated over degree / units neighbours (KV heads under a wide tp). Works on
    ints and on columns.
    """
    share = -(-units // np.asarray(degree))
    repeat = np.maximum(1, np.asarray(degree) // units)
    first = np.minimum(np.where(repeat > 1, np.asarray(index) // repeat, np.asarray(index) * share), units)
    return first, np.minimum(first + share, units)


def local_sizes(tensor: Tensor, layouts: Layouts) -> tuple[Ints, ...]:
    """For each dim, the elements on the fullest rank (shard 0), one column a dim."""
    return tuple(_local_size(dim, layouts) for dim in tensor.dims)


def local_elements(tensor: Tensor, layouts: Layouts) -> Ints:
    """Elements on the fullest rank."""
    total = np.ones(len(layouts), dtype=np.int64)
    for size in local_sizes(tensor, layouts):
        total = total * size
    return total


def index_ranges(tensor: Tensor, layout: Layout, rank: int) -> tuple[range, ...]:
    """The global index range of each dim that a rank of the tensor's stage holds."""
    place = coordinates(layout, rank)
    return tuple(_range_of(dim, layout, place) for dim in tensor.dims)


def stage_of_layers(layers: int, stages: int) -> tuple[range, ...]:
    """The layers of each pipeline stage: equal shares; what is left over goes to the stages before the last, which also
    holds the head. Source: vLLM 0.11, `get_pp_indices` (distributed/utils.py)."""
    share, extra = divmod(layers, stages)
    counts = [share] * stages
    for place in range(extra):
        counts[stages - 2 - place] += 1
    bounds = np.cumsum([0, *counts]).tolist()
    return tuple(range(start, stop) for start, stop in zip(bounds[:-1], bounds[1:], strict=True))


def _local_size(dim: Dim, layouts: Layouts) -> Ints:
    axis = AXIS_OF_ROLE.get(dim.role)
    if axis is None:
        return np.full(len(layouts), dim.size, dtype=np.int64)
    first, last = shard_range(dim.units, layouts.degree(axis), 0)
    return cast("Ints", (last - first) * dim.grain)


def _range_of(dim: Dim, layout: Layout, place: Mapping[str, int]) -> range:
    axis = AXIS_OF_ROLE.get(dim.role)
    if axis is None:
        return range(dim.size)
    first, last = shard_range(dim.units, getattr(layout, axis), place[axis])
    return range(int(first) * dim.grain, int(last) * dim.grain)


def _short(dim: Dim, layout: Layout) -> bool:
    """Whether a sharded dim has fewer units than its axis has ranks, so that some ranks hold the same unit."""
    axis = AXIS_OF_ROLE.get(dim.role)
    return axis is not None and getattr(layout, axis) > dim.units
