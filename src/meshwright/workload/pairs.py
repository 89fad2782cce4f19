"""Positions of packed documents and a mask go in; the (query, key) pairs that they score come out, exactly.

One count serves all: a batch's step, a rank's part of a sequence, a batch of documents of which none sees another.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from meshwright.base.errors import JobError
from meshwright.model.mixers.told import ALL
from meshwright.workload.batches import Batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshwright.model.mixers.told import Span

Mask: TypeAlias = Literal["causal", "full"]
"""What a position sees of its document: itself and what is before it, as far as its span goes, or all of it."""


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


def positions_pairs(runs: Sequence[Run], documents: Sequence[int], mask: Mask, span: Span = ALL) -> int:
    """Pairs of the positions of `runs`, in a sequence of documents packed one after the other.

    A position sees its own document alone (a block-diagonal mask). Raises JOB130 (positions beyond the documents, no
    document, a span of a full mask). Source: chapter "Training systems", section 10.3.4; "Supernodes", 6.2.4.
    """
    if not documents or min(documents) < 1:
        raise JobError(130, f"documents of {list(documents)} tokens", "give documents of one token and more")
    bounds = [bound for bound in (span.window, span.chunk, span.top, span.stride) if bound is not None]
    if min(bounds) < 1 or (mask == "full" and span != ALL):
        cause = f"a span of {min(bounds)} under a {mask} mask"
        raise JobError(130, cause, "give a window, a chunk and a top of one position and more, under a causal mask")
    ends = (0, *accumulate(documents))
    if any(run.count and not 0 <= run.first <= run.last < ends[-1] for run in runs):
        raise JobError(130, f"positions beyond the {ends[-1]} of the documents", f"give positions 0 to {ends[-1] - 1}")
    return sum(_run_pairs(run, start, stop, mask, span) for run in runs for start, stop in pairwise(ends))


def packed_pairs(documents: Sequence[int], mask: Mask, span: Span = ALL) -> int:
    """Pairs of whole documents packed one after the other. Raises JOB130. Source: as `positions_pairs`."""
    whole = Run(first=0, count=sum(documents))
    return positions_pairs((whole,), documents, mask, span)


def _run_pairs(run: Run, start: int, stop: int, mask: Mask, span: Span) -> int:
    """Pairs of a run in the document at [start, stop): of neighbours as of a prompt, else of one decode step each."""
    before = max(0, -(-(start - run.first) // run.step))
    beyond = min(run.count, max(0, -(-(stop - run.first) // run.step)))
    count = beyond - before
    if count <= 0:
        return 0
    if mask == "full":
        return count * (stop - start)
    first = run.first + before * run.step - start
    if run.step == 1:
        return int(Batch(rows=count, steps=1, start=first).pairs_seen(span))
    each = first + run.step * np.arange(count)
    return int(np.sum(Batch(rows=1, steps=1, start=each).pairs_seen(span)))
