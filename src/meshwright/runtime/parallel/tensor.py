"""Tensor parallelism by hand: rows go in and out of a part of a block that the ranks of a tp group share.

`enter` stands before matrices that are cut by their outputs, `leave` behind those cut by their inputs. Without sequence
parallelism every rank has all rows: `enter` sums gradients, `leave` sums rows. With it (`sp`) a rank has its share of
the positions: `enter` gathers them and scatters sums of gradients, `leave` scatters sums of rows and gathers gradients.
Source: Shoeybi et al., "Megatron-LM", 2019 (arXiv:1909.08053), section 3; Korthikanti et al., "Reducing Activation
Recomputation", 2022 (arXiv:2205.05198), section 4.2.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

_POSITIONS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorGroup:
    """The ranks that share a block. group: None for one rank alone.   sp: positions are cut between blocks."""

    group: dist.ProcessGroup | None
    size: int
    rank: int
    sp: bool

    @property
    def cuts_positions(self) -> bool:
        """Whether a rank has a share of the positions between blocks."""
        return self.sp and self.size > 1


ALONE = TensorGroup(group=None, size=1, rank=0, sp=False)


def enter(rows: Tensor, tp: TensorGroup) -> Tensor:
    """[batch, positions (of this rank under sp), hidden] to [batch, all positions, hidden]."""
    if tp.size == 1:
        return rows
    return _Gather.apply(rows, tp) if tp.sp else _Copy.apply(rows, tp)


def leave(rows: Tensor, tp: TensorGroup) -> Tensor:
    """Parts of sums [batch, all positions, hidden] to their sums, of this rank's positions under sp."""
    if tp.size == 1:
        return rows
    return _Scatter.apply(rows, tp) if tp.sp else _Sum.apply(rows, tp)


def summed(rows: Tensor, tp: TensorGroup) -> Tensor:
    """The sum over the group on every rank; `rows` is left as it is."""
    whole = rows.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(whole, group=tp.group)
    return whole


def highest(rows: Tensor, tp: TensorGroup) -> Tensor:
    """The maximum over the group on every rank."""
    whole = rows.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(whole, op=dist.ReduceOp.MAX, group=tp.group)
    return whole


class _Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, tp: TensorGroup) -> Tensor:
        ctx.tp = tp
        return rows.view_as(rows)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return summed(gradient, ctx.tp), None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, tp: TensorGroup) -> Tensor:
        _ = ctx
        return summed(rows, tp)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        _ = ctx
        return gradient, None


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, tp: TensorGroup) -> Tensor:
        ctx.tp = tp
        return _gathered(rows, tp)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _scattered(gradient, ctx.tp), None


class _Scatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, tp: TensorGroup) -> Tensor:
        ctx.tp = tp
        return _scattered(rows, tp)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _gathered(gradient, ctx.tp), None


def _gathered(rows: Tensor, tp: TensorGroup) -> Tensor:
    """Positions of all ranks in order: the collective puts one rank's rows behind another's along a new first dim."""
    parts = rows.new_empty((tp.size, *rows.shape))
    dist.all_gather_single(parts.flatten(0, 1), rows.contiguous(), group=tp.group)
    return parts.movedim(0, _POSITIONS).flatten(_POSITIONS, _POSITIONS + 1)


def _scattered(rows: Tensor, tp: TensorGroup) -> Tensor:
    """Sums over the group, of this rank's share of the positions."""
    parts = rows.unflatten(_POSITIONS, (tp.size, -1)).movedim(_POSITIONS, 0).contiguous()
    share = torch.empty_like(parts[0])
    dist.reduce_scatter_single(share, parts.flatten(0, 1), group=tp.group)
    return share
