"""Positions of packed documents and a mask go in; the (query, key) pairs that they score come out, exactly.

One count serves all: a batch's step, a rank's part of a sequence, a batch of documents of which none sees another.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias

from meshwright.base.errors import JobError
from meshwright.base.numbers import Ints, maximum, minimum

if TYPE_CHECKING:
    from collections.abc import Sequence

Count: TypeAlias = int | Ints
Mask: TypeAlias = Literal["causal", "full"]
"""What a position sees of its document: itself and what is before it (in the window, if there is one), or all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Positions first, first + step, ... of a packed sequence, `count` of them; the first position is 0."""

    first: int
    count: int
    step: int = 1

    @property
    def last(self) -> int:
        """Its last position; of no positions, none."""
        return self.first + (self.count - 1) * self.step


def summed_minima(first: Count, last: Count, window: int | None, step: int = 1) -> Count:
    """Sum of min(window, n) for n = first, first + step, ... last: whole numbers or columns of them.

    The n-th position of a document sees n positions, or those in its window: so these are pairs. Source: chapter
    "Supernodes", section 6.2.4.
    """
    count = last - first + 1 if step == 1 else (last - first) // step + 1
    if window is None:
        return (first + last) * count // 2
    inside = maximum(minimum(last, window) - first + 1, 0)
    inside = inside if step == 1 else minimum((inside + step - 1) // step, count)
    below = (2 * first + (inside - 1) * step) * inside // 2 if step > 1 else (2 * first + inside - 1) * inside // 2
    return below + window * (count - inside)


def positions_pairs(runs: Sequence[Run], documents: Sequence[int], mask: Mask, window: int | None = None) -> int:
    """Pairs of the positions of `runs`, in a sequence of documents packed one after the other.

    A position sees its own document alone (a block-diagonal mask). Raises JOB130 (positions beyond the documents, no
    document, a window of a full mask). Source: chapter "Training systems", section 10.3.4; "Supernodes", 6.2.4.
    """
    if not documents or min(documents) < 1:
        raise JobError(130, f"documents of {list(documents)} tokens", "give documents of one token and more")
    if window is not None and (window < 1 or mask == "full"):
        cause = f"a window of {window} under a {mask} mask"
        raise JobError(130, cause, "give a window of one position and more under a causal mask")
    ends = (0, *accumulate(documents))
    if any(run.count and not 0 <= run.first <= run.last < ends[-1] for run in runs):
        raise JobError(130, f"positions beyond the {ends[-1]} of the documents", f"give positions 0 to {ends[-1] - 1}")
    return sum(_run_pairs(run, start, stop, mask, window) for run in runs for start, stop in pairwise(ends))


def packed_pairs(documents: Sequence[int], mask: Mask, window: int | None = None) -> int:
    """Pairs of whole documents packed one after the other. Raises JOB130. Source: as `positions_pairs`."""
    whole = Run(first=0, count=sum(documents))
    return positions_pairs((whole,), documents, mask, window)


def _run_pairs(run: Run, start: int, stop: int, mask: Mask, window: int | None) -> int:
    """Pairs of a run in the document at [start, stop)."""
    before = max(0, -(-(start - run.first) // run.step))
    beyond = min(run.count, max(0, -(-(stop - run.first) // run.step)))
    count = beyond - before
    if count <= 0:
        return 0
    if mask == "full":
        return count * (stop - start)
    first = run.first + before * run.step - start + 1
    return int(summed_minima(first, first + (count - 1) * run.step, window, run.step))
