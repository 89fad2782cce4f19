"""Ranks and coordinates of a layout, and the groups along each axis: plain integers in, plain integers out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshwright.layout.axes import EXPERT_AXES, MESH_AXES, SHARD_AXIS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from meshwright.layout.layout import Layout


def coordinates(layout: Layout, rank: int, order: Sequence[str] = MESH_AXES) -> dict[str, int]:
    """The coordinate of a rank along every axis; `ep` and `etp` are those of its stage's second view.

    order: the axes from outermost to innermost, which varies fastest (`tp`): `MESH_AXES`, or `PIPELINE_OUTSIDE`.
    `dp_shard_cp` is the coordinate along these two as one axis.
    """
    found: dict[str, int] = {}
    rest = rank
    for axis in reversed(order):
        rest, found[axis] = divmod(rest, getattr(layout, axis))
    found[SHARD_AXIS] = found["dp_shard"] * layout.cp + found["cp"]
    inside = rank_in_stage(layout, found)
    found["etp"] = inside % layout.etp
    found["ep"] = inside // layout.etp % layout.ep
    return found


def rank_of(layout: Layout, place: Mapping[str, int], order: Sequence[str] = MESH_AXES) -> int:
    """The rank at coordinates along the axes that multiply ranks."""
    rank = 0
    for axis in order:
        rank = rank * getattr(layout, axis) + place[axis]
    return rank


def rank_in_stage(layout: Layout, place: dict[str, int]) -> int:
    """A rank's number among those of its stage and replica: over (dp_replicate, dp_shard, cp, tp)."""
    number = 0
    for axis in ("dp_replicate", "dp_shard", "cp", "tp"):
        number = number * getattr(layout, axis) + place[axis]
    return number


def groups(layout: Layout, axis: str, order: Sequence[str] = MESH_AXES) -> tuple[tuple[int, ...], ...]:
    """Every communication group along an axis: ranks in the order of their coordinate on it."""
    others: dict[tuple[int, ...], list[int]] = {}
    for rank in range(layout.world_size):
        place = coordinates(layout, rank, order)
        key = _group_key(layout, place, axis)
        others.setdefault(key, []).append(rank)
    return tuple(tuple(ranks) for _, ranks in sorted(others.items()))


def _group_key(layout: Layout, place: dict[str, int], axis: str) -> tuple[int, ...]:
    if axis == SHARD_AXIS:
        return tuple(place[name] for name in MESH_AXES if name not in {"dp_shard", "cp"})
    if axis not in EXPERT_AXES:
        return tuple(place[name] for name in MESH_AXES if name != axis)
    copy = rank_in_stage(layout, place) // (layout.ep * layout.etp)
    return (place["replicas"], place["pp"], copy, *(place[name] for name in EXPERT_AXES if name != axis))
