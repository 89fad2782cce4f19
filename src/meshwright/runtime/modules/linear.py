"""A matrix product whose weight gradient may be put off: rows and a weight go in, rows come out.

Schedules that split the backward run the gradient of a product's input at once, and that of its weight in a later slot.
`Later` keeps what such a slot has to do. Nothing else of a backward is put off: gradients of norms and of the token
table are small.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True)
class Later:
    """Weight gradients that a backward put off. splits: whether backwards of this rank are ever split."""

    splits: bool = False
    puts_off: bool = False
    work: list[Callable[[], None]] = field(default_factory=list["Callable[[], None]"])

    def taken(self) -> list[Callable[[], None]]:
        """What was put off since the last call."""
        found, self.work = self.work, []
        return found


class Linear(nn.Module):
    """weight [out, in] and, with `bias`, bias [out]: this rank's part of a projection."""

    def __init__(self, out: int, inner: int, later: Later, *, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out, inner))
        self.bias = nn.Parameter(torch.empty(out)) if bias else None
        self.later = later

    def forward(self, rows: Tensor) -> Tensor:
        """[..., in] to [..., out]."""
        if self.later.splits and torch.is_grad_enabled():
            return _Product.apply(rows, self.weight, self.bias, self.later)
        return nn.functional.linear(rows, self.weight, self.bias)


class _Product(torch.autograd.Function):
    """A product that asks, in its backward, whether the gradient of its weight is put off."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor | None, later: Later) -> Tensor:
        ctx.save_for_backward(rows)
        # not saved: a block that is made again would bring a copy, and a gradient that is put off would be lost on it
        ctx.weight, ctx.bias, ctx.later = weight, bias, later
        return nn.functional.linear(rows, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        (rows,) = ctx.saved_tensors
        weight, bias, later = ctx.weight, ctx.bias, ctx.later
        flat = gradient.reshape(-1, gradient.shape[-1])
        inner = gradient @ weight if ctx.needs_input_grad[0] else None

        def of_weight() -> Tensor:
            return flat.T @ rows.reshape(-1, rows.shape[-1])

        if not later.puts_off:
            return inner, of_weight(), None if bias is None else flat.sum(0), None

        def finish() -> None:
            with torch.no_grad():
                _add(weight, of_weight())
                if bias is not None:
                    _add(bias, flat.sum(0))

        later.work.append(finish)
        return inner, None, None, None


def _add(parameter: Tensor, gradient: Tensor) -> None:
    """As the engine of autograd does: the first gradient is kept, later ones are added to it."""
    if parameter.grad is None:
        parameter.grad = gradient
    else:
        parameter.grad.add_(gradient)
