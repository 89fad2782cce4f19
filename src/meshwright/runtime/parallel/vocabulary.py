"""Token tables and losses over a vocabulary that a tp group shares: each rank has the rows of its own token numbers."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn

from meshwright.runtime.parallel.tensor import TensorGroup, highest, leave, summed

NO_LABEL: Final = -100
"""A position that is padding: it has no loss. The number is Hugging Face's."""


class TokenTable(nn.Module):
    """weight [rows of this rank, hidden]. owned: the token numbers that these rows stand for."""

    def __init__(self, owned: range, hidden: int, tp: TensorGroup) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(len(owned), hidden))
        self.owned, self.tp = owned, tp

    def forward(self, tokens: Tensor) -> Tensor:
        """[batch, positions] to [batch, positions (of this rank under sp), hidden]."""
        if self.tp.size == 1:
            return nn.functional.embedding(tokens, self.weight)
        here = (tokens >= self.owned.start) & (tokens < self.owned.stop)
        rows = nn.functional.embedding(torch.where(here, tokens - self.owned.start, 0), self.weight)
        return leave(rows * here[..., None], self.tp)


def token_loss(logits: Tensor, labels: Tensor, owned: range, tp: TensorGroup) -> Tensor:
    """The summed cross-entropy of all positions with a label.

    logits: [batch, positions, tokens of this rank], in float32 or wider.   labels: [batch, positions], `NO_LABEL`
    where there is none. Every rank of the group gets the whole sum.
    """
    flat, targets = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
    if tp.size == 1:
        return nn.functional.cross_entropy(flat, targets, ignore_index=NO_LABEL, reduction="sum")
    return _SharedLoss.apply(flat, targets, owned, tp)


class _SharedLoss(torch.autograd.Function):
    """Softmax over parts: the largest logit, the sum of exponentials and the label's logit are agreed on."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, owned: range, tp: TensorGroup) -> Tensor:
        largest = highest(_largest(logits), tp)
        exponentials = (logits - largest[:, None]).exp()
        here = (targets >= owned.start) & (targets < owned.stop)
        places = torch.where(here, targets - owned.start, 0)
        own = logits.gather(1, places[:, None])[:, 0] if logits.shape[1] else logits.new_zeros(len(targets))
        sums = summed(torch.stack((exponentials.sum(1), torch.where(here, own - largest, 0.0))), tp)
        labelled = targets != NO_LABEL
        ctx.save_for_backward(exponentials.div_(sums[0][:, None]), places, here, labelled)
        return torch.where(labelled, sums[0].log() - sums[1], 0.0).sum()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        shares, places, here, labelled = ctx.saved_tensors
        found = shares.clone()
        if found.shape[1]:
            found.scatter_add_(1, places[:, None], -(here.to(found.dtype))[:, None])
        return found * (labelled * gradient)[:, None], None, None, None


def _largest(logits: Tensor) -> Tensor:
    """By row; minus infinity where this rank has no tokens."""
    return logits.amax(1) if logits.shape[1] else logits.new_full((len(logits),), float("-inf"))
