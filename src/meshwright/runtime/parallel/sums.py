"""Gradients that several ranks, or several modules, have parts of: who they are, and how they are summed and measured.

After the reduction over samples, a gradient is still a part of one
- over tp, where a weight that every rank repeats worked on a rank's own heads, or on its own positions under sp;
- over pipeline ranks, where two stages hold one weight: a tied head, and the two directions of a bidirectional pipeline.
Left unsummed, copies drift apart and nothing fails.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor

from meshwright.layout.axes import PIPELINE_OUTSIDE
from meshwright.layout.mesh import groups, rank_of
from meshwright.layout.ownership import placement
from meshwright.runtime.state.weights import kept, weights_of

if TYPE_CHECKING:
    from meshwright.layout.layout import Layout
    from meshwright.model.model import Model
    from meshwright.runtime.world import World

_INSIDE = (".self_attn.", ".mlp.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """The groups of one rank. over_tp: ranks that repeat a weight, by name.   over_stages: by name, its holders.

    copies: over all ranks and modules of the run, how many hold each element of what the optimizer keeps, by name.
    holders: by name, how many modules of all stages hold it.
    """

    over_tp: Mapping[str, dist.ProcessGroup]
    over_stages: Mapping[str, dist.ProcessGroup]
    copies: Mapping[str, int]


def sums_of(model: Model, world: World, holders: Mapping[str, Sequence[int]]) -> Sums:
    """The groups of this rank; every rank makes those of all. holders: by name, pipeline ranks, one entry a module."""
    layout, named = world.layout, weights_of(model)
    repeats = {
        name: placement(item.tensor, layout, "gathered").replicated_on.get("tp", 1) for name, item in named.items()
    }
    state = {name: placement(item.tensor, layout, "optimizer_state").copies for name, item in named.items()}
    partial = {name: count for name, count in repeats.items() if count > 1 and is_partial(name, layout)}
    by_count = {count: _neighbours(world, count) for count in sorted(set(partial.values()))}
    sets = sorted({tuple(sorted(set(ranks))) for ranks in holders.values() if len(set(ranks)) > 1})
    by_set = {ranks: _across(world, ranks) for ranks in sets}
    return Sums(
        over_tp={name: by_count[count] for name, count in partial.items()},
        over_stages={
            name: group
            for name, ranks in holders.items()
            if (group := by_set.get(tuple(sorted(set(ranks))))) is not None
        },
        copies={name: state[name] * len(modules) for name, modules in holders.items()},
    )


def is_partial(name: str, layout: Layout) -> bool:
    """Whether the gradient of a weight that a tp group repeats is a part on each rank.

    Inside attention and feed-forward a rank works on its own heads; outside them on its own positions, under sp.
    """
    return layout.sp or any(part in name for part in _INSIDE)


def canonical(name: str, *, tied: bool) -> str:
    """The name of the weight that is kept: a tied head's is that of the token table."""
    return "model.embed_tokens.weight" if tied and name == "lm_head.weight" else name


def sum_gradients(parameters: Sequence[tuple[str, Tensor]], sums: Sums) -> None:
    """Make every gradient whole. parameters: this rank's, by (canonical) name, once a module."""
    for chosen in (sums.over_tp, None, sums.over_stages):
        if chosen is None:
            _add_up(parameters)
            continue
        buckets: defaultdict[tuple[dist.ProcessGroup, torch.dtype], list[tuple[str, Tensor]]] = defaultdict(list)
        for name, parameter in parameters:
            if name in chosen and parameter.grad is not None:
                local = kept(parameter.grad)
                buckets[chosen[name], local.dtype].append((name, local))
        for (group, _), members in buckets.items():
            _sum_bucket(members, group, once=chosen is sums.over_stages)


def global_norm(parameters: Sequence[tuple[str, Tensor]], sums: Sums) -> Tensor:
    """The Euclidean norm of the whole gradient, every element counted once, on every rank."""
    total = torch.zeros((), dtype=torch.float64)
    for name, parameter in parameters:
        if parameter.grad is not None:
            total += kept(parameter.grad).to("cpu", torch.float64).pow(2).sum() / sums.copies[name]
    if dist.is_initialized():
        dist.all_reduce(total)
    return total.sqrt()


def _add_up(parameters: Sequence[tuple[str, Tensor]]) -> None:
    """Modules of one rank that hold one weight: each gets the sum."""
    by_name: defaultdict[str, list[Tensor]] = defaultdict(list)
    for name, parameter in parameters:
        if parameter.grad is not None:
            by_name[name].append(kept(parameter.grad))
    for gradients in by_name.values():
        if len(gradients) > 1:
            whole = torch.stack(gradients).sum(0)
            for gradient in gradients:
                gradient.copy_(whole)


def _sum_bucket(members: Sequence[tuple[str, Tensor]], group: dist.ProcessGroup, *, once: bool) -> None:
    """One all_reduce of many, by name: ranks of a bidirectional pipeline hold theirs in different orders.

    once: a name that stands twice is sent once, and both get the sum.
    """
    ordered = sorted(members, key=lambda item: item[0])
    sent = list(dict(ordered).items()) if once else ordered
    flat = torch.cat([gradient.reshape(-1) for _, gradient in sent])
    dist.all_reduce(flat, group=group)
    pieces = flat.split([gradient.numel() for _, gradient in sent])
    if not once:
        for (_, gradient), piece in zip(sent, pieces, strict=True):
            gradient.copy_(piece.view_as(gradient))
        return
    found = {name: piece for (name, _), piece in zip(sent, pieces, strict=True)}
    for name, gradient in members:
        gradient.copy_(found[name].view_as(gradient))


def _neighbours(world: World, count: int) -> dist.ProcessGroup:
    """Of every tp group, runs of `count` neighbours: those that hold the same part. Returns this rank's."""
    runs = [
        ranks[first : first + count]
        for ranks in groups(world.layout, "tp", PIPELINE_OUTSIDE)
        for first in range(0, len(ranks), count)
    ]
    return _mine(world, runs)


def _across(world: World, stages: Sequence[int]) -> dist.ProcessGroup | None:
    """Pipeline ranks at the same place of every copy and tp rank. Returns this rank's group, None if it is in none."""
    layout = world.layout
    places = product(range(layout.dp_replicate), range(layout.dp_shard), range(layout.tp))
    origin = dict.fromkeys(PIPELINE_OUTSIDE, 0)
    runs = [
        [
            rank_of(layout, {**origin, "dp_replicate": copy, "dp_shard": part, "tp": tp, "pp": stage}, PIPELINE_OUTSIDE)
            for stage in stages
        ]
        for copy, part, tp in places
    ]
    return _mine(world, runs)


def _mine(world: World, runs: Sequence[Sequence[int]]) -> dist.ProcessGroup | None:
    found = None
    for ranks in runs:
        group = dist.new_group(list(ranks))
        found = group if world.rank in ranks else found
    return found
