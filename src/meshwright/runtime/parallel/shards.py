"""Stages go in; the same stages with parameters, gradients and optimizer state sharded as `zero` says come out: FSDP2.

zero 0 is torch's `replicate` (gradients are summed over all copies), 1 to 3 are `fully_shard` over dp_shard, copied
over dp_replicate. What is kept between steps is always a shard under 1 to 3; the stage decides when parameters are
whole and when gradients are reduced:

    zero   parameters are whole                          gradients are reduced
    0, 1   from the first forward to the last backward   after the last micro-batch
    2      as 1                                          after every micro-batch
    3      while a module is used                        after every micro-batch

A schedule that splits the backward reduces after the weight gradient, not after the input gradient, at which torch's
own hooks would; that one step, `reduce_now`, uses what torch's pipeline stages use, which is not public.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.distributed as dist
from torch.distributed._composable.replicate_with_fsdp import replicate
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

if TYPE_CHECKING:
    from torch import nn

    from meshwright.layout.layout import Layout
    from meshwright.runtime.modules.decoder import Stage
    from meshwright.runtime.world import World

_GRADIENTS, _PARAMETERS = 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """compute: of products and messages.   kept: of what the optimizer updates.   reduced: of sums of gradients."""

    compute: torch.dtype
    kept: torch.dtype
    reduced: torch.dtype

    @property
    def mixed(self) -> bool:
        """Whether products are in another format than what the optimizer updates."""
        return self.compute != self.kept


def is_sharded(layout: Layout, precision: Precision) -> bool:
    """Whether FSDP2 stands between a stage and its parameters: where there are copies, or two formats."""
    return layout.dp_replicate * layout.dp_shard > 1 or precision.mixed


def shard(stage: Stage, world: World, precision: Precision) -> None:
    """Wrap every block and both ends of a stage, then the stage. Nothing is done where nothing is shared."""
    layout = world.layout
    if not is_sharded(layout, precision):
        return
    wrap = _wrapper(world, precision)
    for part in _parts(stage):
        wrap(part)
    wrap(stage)
    for module in stage.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)  # losses are divided by all tokens of a step already
            module.set_force_sum_reduction_for_comms(True)


def before_backward(stage: Stage, layout: Layout, *, split: bool, last: bool) -> None:
    """Say whether the coming backward of a micro-batch reduces gradients, and whether parameters stay whole behind it.

    split: its weight gradients come later, and with them `reduce_now`.   last: it is the step's last of this stage.
    """
    if not isinstance(stage, FSDPModule):
        return
    reduces = not split and (last or layout.zero >= _GRADIENTS)
    stage.set_requires_gradient_sync(reduces)
    stage.set_reshard_after_backward(layout.zero == _PARAMETERS or (last and not split))
    stage.set_is_last_backward(last and not split)


def reduce_now(stage: Stage, layout: Layout, *, last: bool) -> None:
    """Reduce what a weight gradient left, where `zero` asks for it. Source: as torch's `perform_reduce_grad`."""
    if not isinstance(stage, FSDPModule) or not (last or layout.zero >= _GRADIENTS):
        return
    stage.set_requires_gradient_sync(True)
    stage.set_reshard_after_backward(layout.zero == _PARAMETERS or last)
    stage.set_is_last_backward(last)
    root: Any = (replicate if layout.zero == 0 else fully_shard).state(stage)  # pyright: ignore[reportFunctionMemberAccess] - that torch's `contract` adds
    for state in root._state_ctx.all_states:  # noqa: SLF001 - see above
        for group in state._fsdp_param_groups:  # noqa: SLF001
            for parameter in group.fsdp_params:  # all in the format of sums, as those that a backward left are
                parameter.accumulate_unsharded_grad_if_needed()
                if parameter.unsharded_accumulated_grad is None:
                    parameter.to_accumulated_grad_if_needed()
            group.post_backward()
    root._root_post_backward_final_callback()  # noqa: SLF001


def _wrapper(world: World, precision: Precision) -> Any:
    mixed = MixedPrecisionPolicy(
        param_dtype=precision.compute if precision.mixed else None,
        reduce_dtype=precision.reduced,
        cast_forward_inputs=False,
    )
    layout = world.layout
    if layout.zero == 0:
        copies = _copies(world)
        return lambda module: replicate(module, mesh=copies, mp_policy=mixed)
    both = layout.dp_replicate > 1 and layout.dp_shard > 1
    over = cast("DeviceMesh", world.mesh)["dp_replicate", "dp_shard"] if both else _copies(world)
    after = layout.zero == _PARAMETERS
    return lambda module: fully_shard(module, mesh=over, reshard_after_forward=after, mp_policy=mixed)


def _copies(world: World) -> DeviceMesh:
    """All copies as one axis."""
    if (
        world.mesh is None
    ):  # one process of several, each alone with the same layout: every rank makes the groups of all
        groups = [dist.new_group([rank]) for rank in range(dist.get_world_size())]
        own = cast("dist.ProcessGroup", groups[dist.get_rank()])
        return DeviceMesh.from_group(own, world.device.type, mesh_dim_names=("dp_shard",))
    if world.layout.dp_replicate == 1:
        return world.mesh["dp_shard"]
    if world.layout.dp_shard == 1:
        return world.mesh["dp_replicate"]
    assert world.all_copies is not None
    return world.all_copies


def _parts(stage: Stage) -> list[nn.Module]:
    """The modules that are whole one at a time; ends that share one matrix are left to the stage."""
    parts: list[nn.Module] = [*stage.blocks]
    tied = stage.first and stage.last and stage.lm_head.weight is cast("Any", stage.model.embed_tokens).weight
    if stage.first and not tied:
        parts.insert(0, cast("nn.Module", stage.model.embed_tokens))
    if stage.last and not tied:
        parts.append(stage.lm_head)
    return parts
