"""What is a step's loss divided by? Answers, lengths and token losses go in; the gradient and its shares come out.

The loss of a step is the mean over the valid tokens of the global batch: every micro-batch divides its sum by that one
count, gradients add, and nothing divides them again. The wrong ways stand beside it, as refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from meshwright.base.errors import JobError
from meshwright.job.serve import check_range

_MOST: Final = 10**12
_MOST_SEQUENCES: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """`count` answers of `length` valid tokens each. token_gradient: dl/dtheta of one token, alike for all of them."""

    count: int
    length: int
    token_gradient: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What the answers of one group give. share: of all tokens, and so of the loss."""

    tokens: int
    share: float
    gradient_sum: float
    gradient: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A way that gives another gradient, and why it is wrong."""

    method: str
    gradient: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LossScale:
    """The gradient of the token mean. sum_scale: what a sum over tokens is multiplied by, 1 / all tokens.

    rank_sum_scale: the same where gradients are averaged over `ranks` afterwards, ranks / all tokens: the average is
    undone.   loss_per_theta: of losses that are linear in theta, the loss over theta.
    """

    answers: int
    tokens: int
    groups: Mapping[str, Part]
    sum_scale: float
    rank_sum_scale: float
    gradient: float
    loss_per_theta: float
    refused: tuple[Refused, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatches:
    """How one step's sequences are dealt: `micro_batches` of `micro_batch` sequences each on every rank."""

    sequences: int
    ranks: int
    micro_batch: int
    micro_batches: int


def loss_scale(groups: Mapping[str, Answers], ranks: int) -> LossScale:
    """The gradient of a global batch of answers, and what each way to normalise it would give instead.

    ranks: data-parallel copies that average their gradients.   Raises JOB001 (sizes). Source: chapter "Training
    systems", section 10.3.1.
    """
    check_range("groups", len(groups), 1, _MOST)
    check_range("ranks", ranks, 1, _MOST)
    for name, group in groups.items():
        check_range(f"groups.{name}.count", group.count, 1, _MOST)
        check_range(f"groups.{name}.length", group.length, 1, _MOST)
    answers = sum(group.count for group in groups.values())
    tokens = sum(group.count * group.length for group in groups.values())
    parts = {name: _part(group, tokens) for name, group in groups.items()}
    gradient = sum(part.gradient for part in parts.values())
    of_means = sum(group.count * group.token_gradient for group in groups.values()) / answers
    return LossScale(
        answers=answers,
        tokens=tokens,
        groups=parts,
        sum_scale=1 / tokens,
        rank_sum_scale=ranks / tokens,
        gradient=gradient,
        loss_per_theta=gradient,
        refused=(
            Refused(method="mean of the answers' means", gradient=of_means, reason="tokens of long answers weigh less"),
            Refused(
                method="token mean, divided again by the number of answers",
                gradient=gradient / answers,
                reason="the common count of tokens has divided every sum already",
            ),
            Refused(
                method="token mean, averaged over ranks",
                gradient=gradient / ranks,
                reason="the average divides once more: multiply each sum by ranks / tokens",
            ),
        ),
    )


def micro_batches(sequences: int, ranks: int, micro_batch: int) -> MicroBatches:
    """Micro-batches that each rank accumulates in a step of `sequences`, `micro_batch` sequences at a time.

    ranks x micro_batches x micro_batch is `sequences`. Raises JOB001 (sizes), JOB061 (a step that cannot be dealt
    evenly, with the nearest that can). Source: chapter "Training systems", section 10.1.3.
    """
    for name, value in (("sequences", sequences), ("ranks", ranks), ("micro_batch", micro_batch)):
        check_range(name, value, 1, _MOST_SEQUENCES)
    at_once = ranks * micro_batch
    if sequences % at_once:
        cause = f"{sequences} sequences are not whole micro-batches of {micro_batch} on {ranks} ranks"
        raise JobError(61, cause, _nearest_dealt(sequences, ranks, micro_batch))
    return MicroBatches(sequences=sequences, ranks=ranks, micro_batch=micro_batch, micro_batches=sequences // at_once)


def _part(group: Answers, tokens: int) -> Part:
    own = group.count * group.length
    total = own * group.token_gradient
    return Part(tokens=own, share=own / tokens, gradient_sum=total, gradient=total / tokens)


def _nearest_dealt(sequences: int, ranks: int, micro_batch: int) -> str:
    """The nearest numbers of sequences, and of ranks, that go together."""
    at_once = ranks * micro_batch
    below, above = sequences // at_once * at_once, -(-sequences // at_once) * at_once
    steps = [f"sequences={number}" for number in (below, above) if number]
    if sequences % micro_batch == 0:
        pieces = sequences // micro_batch
        dividing = [number for number in range(1, pieces + 1) if pieces % number == 0]
        steps.append(f"ranks={min(dividing, key=lambda number: abs(number - ranks))}")
    return f"give {', or '.join(steps)}"
