"""What one step works on: sessions and a length go in; rows, cached positions, attention pairs come out, exactly."""

from __future__ import annotations

from dataclasses import dataclass

from meshwright.base.numbers import minimum
from meshwright.workload.pairs import Count, summed_minima


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One forward step of one replica: `sessions` sessions of the same length, each with `rows` tokens.

    sessions: whole numbers, one or a column.   rows: tokens of one session that go through the matrices.   start: its
    positions cached before the first step.   `steps` equal steps are summed: sessions and rows are per step; positions
    and pairs of a session are totals over the steps, so that a mean is exact.
    """

    rows: int
    steps: int
    start: Count
    sessions: Count = 1

    @property
    def sampled(self) -> int:
        """Rows of one session that go through the head each step: the last one only."""
        return 1

    def attended(self, window: int | None) -> Count:
        """Cached positions of one session read over all steps by a layer with this window, each at least once a step.

        Decode step j reads min(window, start + j + 1); a prompt reads itself and what its first row can still see.
        """
        if self.rows == 1:
            return summed_minima(self.start + 1, self.start + self.steps, window)
        before = self.start if window is None else minimum(self.start, window - 1)
        return (before + self.rows) * self.steps

    def pairs(self, window: int | None) -> Count:
        """(query, key) pairs of one session over all steps: a row sees itself and what is before it, in the window."""
        if self.rows == 1:
            return self.attended(window)
        return summed_minima(self.start + 1, self.start + self.rows, window) * self.steps


def decode(context: Count, steps: int, sessions: Count = 1) -> Batch:
    """`steps` decode steps of sessions that each have `context` positions cached before the first.

    The new token's own key and value are read with the rest: step j reads context + j + 1 positions. Source: chapter
    "Supernodes", equation 6-4.
    """
    return Batch(rows=1, steps=steps, start=context, sessions=sessions)


def prefill(tokens: int) -> Batch:
    """One forward pass over a prompt of `tokens`, nothing cached before; causal."""
    return Batch(rows=tokens, steps=1, start=0)
