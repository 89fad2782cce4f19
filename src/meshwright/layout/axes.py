"""Degrees of the axes go in; the ranks they make come out: the words of a mesh, from outermost to innermost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from meshwright.base.numbers import Number

N = TypeVar("N", bound=Number)

MESH_AXES: Final = ("replicas", "dp_replicate", "dp_shard", "pp", "cp", "tp")
"""Axes that multiply ranks, outermost first: neighbours along `tp` are neighbours in rank."""

PIPELINE_OUTSIDE: Final = ("replicas", "pp", "dp_replicate", "dp_shard", "cp", "tp")
"""The same axes as trainers order them: copies are neighbours, and stages are what lies farthest apart."""

EXPERT_AXES: Final = ("ep", "etp")
"""Axes of the second view: they lay the experts over the ranks of one stage and multiply nothing."""

SHARD_AXIS: Final = "dp_shard_cp"
"""dp_shard and cp as one axis, cp inner: ranks with copies of the same weights that see other tokens of a step."""

AXES: Final = (*MESH_AXES, *EXPERT_AXES)


def world_size(degrees: Mapping[str, int]) -> int:
    """replicas * dp_replicate * dp_shard * pp * cp * tp; `sp`, `ep` and `etp` multiply nothing.

    Source: chapter "Supernodes", section 6.3.1 (cards are the product of independent axes); design, section 3.
    """
    total = 1
    for axis in MESH_AXES:
        total *= degrees.get(axis, 1)
    return total


def stage_ranks(dp_replicate: N, dp_shard: N, cp: N, tp: N) -> N:
    """Ranks of one pipeline stage of one replica: those over which experts are laid."""
    return dp_replicate * dp_shard * cp * tp
