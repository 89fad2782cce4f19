"""What one step works on: sessions and a length go in; rows, cached positions, attention pairs come out, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from meshwright.base.numbers import Ints, maximum, minimum

if TYPE_CHECKING:
    from meshwright.model.mixers.told import Span

Count: TypeAlias = int | Ints


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
            return _sum_of_minima(self.start + 1, self.start + self.steps, window)
        before = self.start if window is None else minimum(self.start, window - 1)
        return (before + self.rows) * self.steps

    def pairs(self, window: int | None) -> Count:
        """(query, key) pairs of one session over all steps: a row sees itself and what is before it, in the window."""
        if self.rows == 1:
            return self.attended(window)
        return _sum_of_minima(self.start + 1, self.start + self.rows, window) * self.steps

    def rows_read(self, span: Span) -> Count:
        """`attended` of any span: rows of state, of which a prompt reads once all that any of its tokens may choose."""
        if self.rows == 1:
            return self.pairs_seen(span)
        if span.chunk is not None:
            before = self.start % span.chunk
            before = before if span.window is None else minimum(before, span.window - 1)
            return (before + self.rows) * self.steps
        if span.stride > 1:
            return (self.start + self.rows) // span.stride * self.steps
        return self.attended(span.window)

    def pairs_seen(self, span: Span) -> Count:
        """`pairs` of any span: the n-th position of a session sees n // stride rows, at most `top` of them.

        In chunks it sees the (n - 1) mod chunk positions before it in its own, and itself; of these, too, no more than
        a window or `top` lets it.
        """
        times = 1 if self.rows == 1 else self.steps
        first, last = self.start + 1, self.start + (self.steps if self.rows == 1 else self.rows)
        if span.chunk is not None:
            sums = [_sum_in_chunks(place, span.chunk, _least(span.window, span.top)) for place in (first - 1, last)]
            return (sums[1] - sums[0]) * times
        if span.stride > 1:
            top, stride = span.top, span.stride
            return (_sum_of_complete(last, stride, top) - _sum_of_complete(first - 1, stride, top)) * times
        return self.pairs(_least(span.window, span.top))


def decode(context: Count, steps: int, sessions: Count = 1) -> Batch:
    """`steps` decode steps of sessions that each have `context` positions cached before the first.

    The new token's own key and value are read with the rest: step j reads context + j + 1 positions. Source: chapter
    "Supernodes", equation 6-4.
    """
    return Batch(rows=1, steps=steps, start=context, sessions=sessions)


def prefill(tokens: int) -> Batch:
    """One forward pass over a prompt of `tokens`, nothing cached before; causal."""
    return Batch(rows=tokens, steps=1, start=0)


def _sum_of_minima(first: Count, last: Count, window: int | None) -> Count:
    """Sum of min(window, n) for n from first to last: whole numbers or columns of them."""
    if window is None:
        return (first + last) * (last - first + 1) // 2
    inside = maximum(minimum(last, window) - first + 1, 0)
    below = (2 * first + inside - 1) * inside // 2
    return below + window * (last - first + 1 - inside)


def _least(*bounds: int | None) -> int | None:
    return min((bound for bound in bounds if bound is not None), default=None)


def _sum_in_chunks(last: Count, chunk: int, bound: int | None) -> Count:
    """Sum of min(bound, (n - 1) mod chunk + 1) for n from 1 to last."""
    whole, rest = last // chunk, last % chunk
    return whole * _sum_of_minima(1, chunk, bound) + _sum_of_minima(1, rest, bound)


def _sum_of_complete(last: Count, stride: int, top: int | None) -> Count:
    """Sum of min(top, n // stride) for n from 1 to last."""
    complete = (last + 1) // stride
    counted = complete if top is None else minimum(complete, top)
    return stride * (counted * (counted - 1) // 2) + (last + 1 - counted * stride) * counted
