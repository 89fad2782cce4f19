"""`expected`, `full`, a number or a file goes in; what says how many experts a step reads comes out, checked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from meshwright.base.errors import JobError


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedReads:
    """A routing by how likely a token chooses each expert; laws, counts and layers as in `job.routing`.

    counts: of a recorded trace, how often each expert was chosen.
    """

    law: Literal["even", "zipf", "counts"]
    exponent: float = 0.0
    counts: tuple[tuple[float, ...], ...] = ()
    layers: tuple[int, ...] = ()


ExpertReads: TypeAlias = Literal["expected", "full"] | float | tuple[float, ...] | RoutedReads
"""How many distinct experts of a layer the rows of one step read, over all groups together.

`expected`: what uniform and independent choices are expected to cover.   `full`: all of them.   A number: that many in
a decode step, though never fewer than one row chooses nor more than all rows can.   Several numbers: how often each
expert of a layer, in their order, was chosen; rows choose independently in these proportions, alike in every layer.
A routing: what its choices are expected to cover, layer by layer; `even` deals them in turn.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertChoices:
    """A counted routing: how often each expert was chosen."""

    choices: tuple[float, ...]


def checked_reads(reads: ExpertReads, experts: int, top_k: int) -> ExpertReads:
    """The reads themselves, once they can be those of a layer of `experts`, `top_k` a row. Raises JOB007."""
    if isinstance(reads, (str, RoutedReads)):
        return reads
    if not isinstance(reads, tuple):
        if not top_k <= reads <= experts:
            raise JobError(
                7, f"--expert-reads {reads:g}: a row alone reads {top_k} of {experts}", _range(top_k, experts)
            )
        return reads
    return checked_choices(reads, experts, top_k, "--expert-reads")


def checked_choices(choices: tuple[float, ...], experts: int, top_k: int, what: str) -> tuple[float, ...]:
    """Counts of choices themselves, once a layer can have them. what: the option, for errors. Raises JOB007."""
    if len(choices) != experts:
        raise JobError(
            7, f"{what}: choices of {len(choices)} experts, and a layer has {experts}", f"give {experts} numbers"
        )
    if not all(math.isfinite(count) and count >= 0 for count in choices) or not _LEAST < sum(choices) < _MOST:
        raise JobError(7, f"{what}: choices that cannot be counts", "give numbers from 0, not all of them 0")
    most = max(choices)
    if most * top_k > sum(choices) * (1 + 1e-9):
        cause = f"{what}: expert {choices.index(most)} has {most / sum(choices):.1%} of the choices"
        raise JobError(7, cause, f"a row chooses {top_k} different ones: none can have more than {1 / top_k:.1%}")
    return choices


_LEAST, _MOST = 1e-300, 1e300
"""Between which sums of counts can be divided by, and into."""


def no_experts(model: str, fix: str) -> JobError:
    """The error for a routing of a model that has no experts. fix: what the one who asked can do."""
    return JobError(7, f"{model} has no experts", fix)


def _range(top_k: int, experts: int) -> str:
    return f"give a number from {top_k} to {experts}, or expected, or full"
