"""The ownership table: a tensor and layouts go in; the global index range of every dim that each rank holds comes out.

    a dim of                     is cut by                                        each part is repeated over
    heads, intermediate, vocab   tp; then cp (attention=context_parallel)
    kv_heads                     tp, down to whole heads                          tp / kv_heads neighbours
    experts                      ep
    expert_intermediate          etp
    samples                      dp_replicate, dp_shard (attention=data_parallel)
    positions                    cp (activations of attention=context_parallel: nothing);
                                 then tp under sp (activations that tp cuts nowhere else)
    dim 0, in the states that    dp_shard_cp (dp_shard, then cp, as one axis), what the cuts above left,
    `zero` covers                in chunks rounded up (as torch FSDP2)
    any other                    nothing

Axes of the stage that cut no dim of a tensor repeat it. Tensors with experts live on the second view of a stage's
ranks (`ep`, `etp`), so there the rest of the stage repeats them, and `zero` cuts their state over what that view leaves
free of dp_shard_cp. Stages share no tensor but a tied embedding.

One rule, `owned`, answers for one rank and for columns of layouts alike, so the memory ledger, message sizes and the
placements of a real run cannot disagree about who owns a slice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

import numpy as np

from meshwright.base.numbers import divide_up, maximum, minimum
from meshwright.base.traced import named
from meshwright.layout.axes import EXPERT_AXES, MESH_AXES, SHARD_AXIS, stage_ranks
from meshwright.layout.context import joined_ways
from meshwright.layout.layouts import table
from meshwright.layout.mesh import coordinates

if TYPE_CHECKING:
    from meshwright.base.numbers import Bools, Ints
    from meshwright.layout.layout import Layout
    from meshwright.layout.layouts import Layouts
    from meshwright.model.tensors import Dim, Role, Tensor

State: TypeAlias = Literal["parameters", "gathered", "gradients", "optimizer_state", "activations", "kv_cache"]
"""What a tensor is kept as. `gathered` is a parameter while it is used, its pieces brought together."""

AXIS_OF_ROLE: Final[Mapping[Role, str]] = {
    "heads": "tp",
    "kv_heads": "tp",
    "intermediate": "tp",
    "vocab": "tp",
    "experts": "ep",
    "expert_intermediate": "etp",
    "positions": "cp",
}
"""The axis that cuts a dim of this role. `samples` are cut by `SAMPLE_AXES`; any other role is held whole."""

SAMPLE_AXES: Final = ("dp_replicate", "dp_shard")
"""The axes over which samples are dealt, where the copies of attention see different ones."""

_WITH_CONTEXT: Final = frozenset({"heads", "intermediate", "vocab", "positions"})
"""Roles that attention=context_parallel cuts otherwise."""

ZERO_OF_STATE: Final[Mapping[State, int]] = {"optimizer_state": 1, "gradients": 2, "parameters": 3}
"""From which `zero` dim 0 of a state is cut; a state that is not here it never cuts."""

_NEVER: Final = 9
_ORIGIN: Final[Mapping[str, int]] = dict.fromkeys((*MESH_AXES, *EXPERT_AXES, SHARD_AXIS), 0)
_STAGE_AXES: Final = tuple(axis for axis in MESH_AXES if axis not in {"replicas", "pp"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cut:
    """One cut of one dim, as columns: into `ways` parts of whole grains; a rank holds number coordinate / step.

    axis: whose coordinate.   step: neighbours along the axis that hold the same part.   grain: elements never parted.
    """

    axis: str
    ways: Ints
    step: Ints | int = 1
    grain: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where one tensor lies among the ranks of a stage of one replica; axes of degree 1 are left out.

    shards: per dim, axis -> parts, in the order of cutting.   replicated_on: axis -> ranks that hold the same part
    (`expert_replicas`: what ep x etp leave of the stage). All parts times all copies are the ranks of the stage.
    """

    shards: tuple[Mapping[str, int], ...]
    replicated_on: Mapping[str, int]

    @property
    def copies(self) -> int:
        """How many ranks of the stage hold each element."""
        return int(np.prod([1, *self.replicated_on.values()]))


def placement(tensor: Tensor, layout: Layout, state: State = "parameters") -> Placement:
    """Which axes cut and which repeat a tensor kept as `state`."""
    cut = cuts(tensor, table([layout]), state)
    shards = tuple({item.axis: int(item.ways[0]) for item in dim} for dim in cut)
    axes = (*_STAGE_AXES, *EXPERT_AXES, SHARD_AXIS)
    parts = {axis: int(np.prod([1, *(dim.get(axis, 1) for dim in shards)])) for axis in axes}
    if _has_experts(tensor):
        ranks = stage_ranks(layout.dp_replicate, layout.dp_shard, layout.cp, layout.tp)
        copies = {axis: getattr(layout, axis) // parts[axis] for axis in EXPERT_AXES}
        copies["expert_replicas"] = ranks // (layout.ep * layout.etp * parts[SHARD_AXIS])
    else:
        whole = _STAGE_AXES if parts[SHARD_AXIS] == 1 else ("dp_replicate", "tp")
        copies = {axis: getattr(layout, axis) // parts[axis] for axis in whole}
    kept = tuple({axis: ways for axis, ways in dim.items() if ways > 1} for dim in shards)
    return Placement(shards=kept, replicated_on={axis: count for axis, count in copies.items() if count > 1})


def index_ranges(
    tensor: Tensor, layout: Layout, rank: int, state: State = "parameters", order: Sequence[str] = MESH_AXES
) -> tuple[range, ...]:
    """The global index range of each dim that a rank of the tensor's stage holds. order: as in `mesh.coordinates`."""
    place = {axis: np.array([index]) for axis, index in coordinates(layout, rank, order).items()}
    bounds = owned(tensor, table([layout]), place, state)
    return tuple(range(int(np.max(first)), int(np.max(last))) for first, last in bounds)


def owned(
    tensor: Tensor, layouts: Layouts, place: Mapping[str, Ints | int], state: State
) -> tuple[tuple[Ints | int, Ints | int], ...]:
    """For each dim, first and past-the-last global index held at a place.

    place: axis -> coordinate, ints or columns that broadcast against the rows. What is not cut comes back as ints.
    """
    both = zip(tensor.dims, cuts(tensor, layouts, state), strict=True)
    return tuple(_bounds(dim.size, dim_cuts, place) for dim, dim_cuts in both)


def fullest_sizes(tensor: Tensor, layouts: Layouts, state: State = "parameters") -> tuple[Ints | int, ...]:
    """For each dim, the elements on the fullest rank, that at the origin of the mesh; an int where nothing is cut."""
    pairs = zip(tensor.dims, owned(tensor, layouts, _ORIGIN, state), strict=True)
    return tuple(named(last, f"local_{dim.role}") for dim, (_, last) in pairs)


def local_sizes(tensor: Tensor, layouts: Layouts, state: State = "parameters") -> tuple[Ints, ...]:
    """`fullest_sizes`, one column a dim."""
    return tuple(np.broadcast_to(size, len(layouts)) for size in fullest_sizes(tensor, layouts, state))


def local_elements(tensor: Tensor, layouts: Layouts, state: State = "parameters") -> Ints:
    """Elements on the fullest rank."""
    return np.broadcast_to(product(fullest_sizes(tensor, layouts, state)), len(layouts))


def product(sizes: Sequence[Ints | int]) -> Ints | int:
    """Elements of a piece with these dims."""
    total: Ints | int = 1
    for size in sizes:
        total = total * size
    return total


def local_samples(samples: Ints, layouts: Layouts) -> Ints:
    """How many of `samples` (a column) the fullest copy of the attention ranks works on and keeps the state of."""
    held: Any = samples
    for axis, degree in _degrees("samples", layouts):
        held = _bounds(held, (Cut(axis=axis, ways=degree),), _ORIGIN)[1]
    return cast("Ints", named(held, "local_samples"))


def sample_ways(layouts: Layouts) -> Ints:
    """Among how many copies of the attention ranks the samples are dealt: 1 where every copy sees all."""
    ways = np.ones(len(layouts), dtype=np.int64)
    for _, degree in _degrees("samples", layouts):
        ways = ways * degree
    return ways


def stage_of_layers(layers: int, stages: int) -> tuple[range, ...]:
    """The layers of each pipeline stage: equal shares; what is left over goes to stages before the last.

    The last one holds the head besides. Source: vLLM 0.11, `get_pp_indices` (distributed/utils.py).
    """
    share, extra = divmod(int(layers), int(stages))
    counts = [share] * int(stages)
    for place in range(extra):
        counts[stages - 2 - place] += 1
    bounds = np.cumsum([0, *counts]).tolist()
    return tuple(range(start, stop) for start, stop in pairwise(bounds))


def cuts(tensor: Tensor, layouts: Layouts, state: State) -> tuple[tuple[Cut, ...], ...]:
    """For each dim, what cuts it, in order; a cut that no row makes is left out."""
    found = [_role_cuts(dim, tensor, layouts, state) for dim in tensor.dims]
    covered = layouts.degree("zero") >= ZERO_OF_STATE.get(state, _NEVER)
    if found and covered.any():
        found[0].append(_state_cut(tensor, layouts, covered))
    return tuple(tuple(dim) for dim in found)


def state_ways(tensor: Tensor, layouts: Layouts, state: State) -> Ints:
    """Into how many parts `zero` cuts a weight kept as `state`: 1 where it does not cover it."""
    ways: Ints = np.ones(len(layouts), dtype=np.int64)
    for cut in cuts(tensor, layouts, state)[0]:
        ways = ways * cut.ways if cut.axis == SHARD_AXIS else ways
    return ways


def shard_group_size(tensor: Tensor, layouts: Layouts) -> Ints:
    """How many ranks share one weight's state under any `zero` above 0: those a group gathers from and reduces to."""
    return _state_ways(tensor, layouts)[0]


def cutting_fields(tensor: Tensor) -> tuple[str, ...]:
    """The fields of a layout that decide how a weight is cut, in any state; what else differs leaves it as it is."""
    axes = {AXIS_OF_ROLE[dim.role] for dim in tensor.dims if dim.role in AXIS_OF_ROLE}
    if _has_experts(tensor):
        axes |= {*EXPERT_AXES, "tp"}
    return tuple(sorted({*axes, "dp_shard", "cp", "zero"}))


def _role_cuts(dim: Dim, tensor: Tensor, layouts: Layouts, state: State) -> list[Cut]:
    found: list[Cut] = []
    pairs = _degrees(dim.role, layouts)
    ways = joined_ways(layouts) if dim.role in _WITH_CONTEXT else None
    if ways is not None:
        pairs = _over_both(dim, layouts, state, ways)
    if dim.role == "positions" and state == "activations" and not any(_on_tp(item) for item in tensor.dims):
        pairs.append(("tp", np.where(layouts.columns["sp"], layouts.degree("tp"), 1)))
    for axis, degree in pairs:
        most = int(degree.max(initial=1))
        if dim.role == "kv_heads" and most > dim.units:  # a KV head is never parted: neighbours hold the same one
            step = maximum(degree // dim.units, 1)
            found.append(Cut(axis=axis, ways=minimum(degree, dim.units), step=step, grain=dim.grain))
        elif most > 1:
            found.append(Cut(axis=axis, ways=degree, grain=dim.grain))
    return found


def _over_both(dim: Dim, layouts: Layouts, state: State, ways: Ints) -> list[tuple[str, Ints]]:
    """What cuts a dim where ranks of cp share a layer with those of tp. ways: of cp, in each row."""
    if dim.role != "positions":
        return [("tp", layouts.degree("tp")), ("cp", ways)]
    return [("cp", layouts.degree("cp") // ways if state == "activations" else layouts.degree("cp"))]


def _degrees(role: Role, layouts: Layouts) -> list[tuple[str, Ints]]:
    """The axes that cut a role and into how many parts; samples only where the copies see different ones."""
    if role == "samples":
        dealt = layouts.columns["attention"] == "data_parallel"
        return [(axis, np.where(dealt, layouts.degree(axis), 1)) for axis in SAMPLE_AXES]
    axis = AXIS_OF_ROLE.get(role)
    return [] if axis is None else [(axis, layouts.degree(axis))]


def _state_cut(tensor: Tensor, layouts: Layouts, covered: Bools) -> Cut:
    """The cut along dp_shard_cp."""
    ways, step = _state_ways(tensor, layouts)
    whole = layouts.degree("dp_shard") * layouts.degree("cp")
    return Cut(axis=SHARD_AXIS, ways=np.where(covered, ways, 1), step=np.where(covered, step, whole))


def _state_ways(tensor: Tensor, layouts: Layouts) -> tuple[Ints, Ints]:
    """Parts along dp_shard_cp, and how many of its neighbours hold the same one.

    A copy of all experts takes ep x etp neighbours of a stage, so `taken` groups of tp ranks; these neighbours hold
    different experts, and the copies beside it hold the other pieces of each.
    """
    degree = layouts.degree("dp_shard") * layouts.degree("cp")
    taken: Ints = np.ones(len(layouts), dtype=np.int64)
    if _has_experts(tensor):
        taken = np.clip(layouts.degree("ep") * layouts.degree("etp") // layouts.degree("tp"), 1, degree)
    return degree // taken, taken


def _bounds(size: Any, dim_cuts: tuple[Cut, ...], place: Mapping[str, Ints | int]) -> tuple[Any, Any]:
    """First and past-the-last index after the cuts: equal shares rounded up, so that the last are short or empty."""
    first: Any = 0
    last: Any = size
    for cut in dim_cuts:
        grains = divide_up(cast("Ints", last - first), cut.grain)
        share = divide_up(grains, cut.ways) * cut.grain
        start = cast("Ints", first + _number(place[cut.axis], cut) * share)
        first, last = minimum(start, last), minimum(start + share, last)
    return first, last


def _number(coordinate: Ints | int, cut: Cut) -> Ints | int:
    """Which part a coordinate holds."""
    at_origin = isinstance(coordinate, int) and coordinate == 0
    return 0 if at_origin else coordinate // cut.step


def _on_tp(dim: Dim) -> bool:
    return AXIS_OF_ROLE.get(dim.role) == "tp"


def _has_experts(tensor: Tensor) -> bool:
    return any(dim.role in {"experts", "expert_intermediate"} for dim in tensor.dims)
