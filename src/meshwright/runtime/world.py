"""A layout and a rank go in; its device mesh, its groups and its place along every axis come out.

Ranks are ordered as trainers order them (`PIPELINE_OUTSIDE`): stages lie farthest apart, tp neighbours nearest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from meshwright.layout.axes import PIPELINE_OUTSIDE
from meshwright.layout.mesh import coordinates, groups, rank_of
from meshwright.runtime.parallel.tensor import ALONE, TensorGroup

if TYPE_CHECKING:
    from meshwright.layout.layout import Layout

SAMPLES: Final = ("dp_replicate", "dp_shard")
"""The axes along which ranks see other samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Where a rank stands. mesh: None where the layout is one rank and no process group is needed.

    all_copies: dp_replicate and dp_shard as one axis, where both are there.   back: the pipeline's ranks once more, for
    messages to a lower rank.   place: coordinate along every axis.   device: of tensors.
    """

    layout: Layout
    rank: int
    place: Mapping[str, int]
    mesh: DeviceMesh | None
    all_copies: DeviceMesh | None
    back: dist.ProcessGroup | None
    device: torch.device

    @property
    def tensor_group(self) -> TensorGroup:
        """The ranks that share this one's blocks."""
        if self.mesh is None or self.layout.tp == 1:
            return ALONE
        group = self.mesh["tp"].get_group()
        return TensorGroup(group=group, size=self.layout.tp, rank=self.place["tp"], sp=self.layout.sp)

    @property
    def copies(self) -> int:
        """How many ranks have this one's parameters and see other samples."""
        return self.layout.dp_replicate * self.layout.dp_shard

    @property
    def copy(self) -> int:
        """Which of them this is: the samples of a step are dealt in this order."""
        return self.place["dp_replicate"] * self.layout.dp_shard + self.place["dp_shard"]

    def wire(self, sender: int, receiver: int) -> dist.ProcessGroup:
        """The group in which one pipeline rank sends to another.

        Either way has its own: NCCL runs what two ranks of one group send each other in the order in which each calls,
        so that two ranks that first receive would wait for each other.
        """
        assert self.mesh is not None
        assert self.back is not None
        return self.mesh["pp"].get_group() if sender < receiver else self.back

    def peer(self, stage: int) -> int:
        """The rank at the same place of another pipeline rank."""
        return rank_of(self.layout, {**self.place, "pp": stage}, PIPELINE_OUTSIDE)


def join(layout: Layout, rank: int, device: torch.device) -> World:
    """The world of a rank. The default process group must be there already, unless the layout is one rank.

    Every rank makes the groups of all, in one order.
    """
    mesh = all_copies = None
    ranks = torch.arange(layout.world_size)
    if layout.world_size > 1:
        shape = [getattr(layout, axis) for axis in PIPELINE_OUTSIDE]
        mesh = DeviceMesh(device.type, ranks.reshape(shape), mesh_dim_names=PIPELINE_OUTSIDE)
    if layout.dp_replicate > 1 and layout.dp_shard > 1:
        flat = ranks.reshape(layout.pp, layout.dp_replicate * layout.dp_shard, -1)
        all_copies = DeviceMesh(device.type, flat, mesh_dim_names=("pp", "copies", "rest"))["copies"]
    back = None
    if layout.pp > 1:
        pipelines = groups(layout, "pp", PIPELINE_OUTSIDE)
        made = [dist.new_group(list(members)) for members in pipelines]
        mine = next(number for number, members in enumerate(pipelines) if rank in members)
        back = cast("dist.ProcessGroup", made[mine])
    place = coordinates(layout, rank, PIPELINE_OUTSIDE)
    return World(layout=layout, rank=rank, place=place, mesh=mesh, all_copies=all_copies, back=back, device=device)


def summed_over(world: World, value: torch.Tensor, axes: tuple[str, ...]) -> torch.Tensor:
    """The sum over the ranks of several axes, one axis after the other; on every rank of them."""
    for axis in axes:
        if world.mesh is not None and getattr(world.layout, axis) > 1:
            dist.all_reduce(value, group=world.mesh[axis].get_group())
    return value
