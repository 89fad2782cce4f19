"""Expectations over routings and sums over steps, against enumeration."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from math import comb, isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.model.mixers.told import Span
from meshwright.workload.batches import Batch, decode, prefill
from meshwright.workload.feed_forward import busiest_share, distinct_experts

WINDOWS = st.none() | st.integers(1, 40)
SMALL = [
    (experts, top_k, groups)
    for experts in (1, 2, 4, 6, 8, 12)
    for top_k in range(1, min(experts, 4) + 1)
    for groups in range(1, experts + 1)
    if experts % groups == 0
]


@pytest.mark.parametrize(("experts", "top_k", "groups"), SMALL)
def test_busiest_share_is_the_mean_over_all_choices(experts, top_k, groups):
    size = experts // groups
    most = [
        max(sum(expert // size == group for expert in chosen) for group in range(groups))
        for chosen in combinations(range(experts), top_k)
    ]
    assert busiest_share(experts, top_k, groups) == float(Fraction(sum(most), comb(experts, top_k)))


@given(experts=st.integers(1, 64), data=st.data())
def test_busiest_share_lies_between_the_even_share_and_all(experts, data):
    top_k = data.draw(st.integers(1, experts))
    groups = data.draw(st.sampled_from([count for count in range(1, experts + 1) if experts % count == 0]))
    share = busiest_share(experts, top_k, groups)
    assert top_k / groups - 1e-9 <= share <= top_k
    assert share >= 1.0


@pytest.mark.parametrize(("experts", "top_k", "rows"), [(4, 2, 2), (4, 1, 3), (5, 3, 2), (6, 2, 2)])
def test_distinct_experts_is_the_mean_over_all_routings(experts, top_k, rows):
    routings = list(product(combinations(range(experts), top_k), repeat=rows))
    mean = sum(len(set().union(*routing)) for routing in routings) / len(routings)
    assert isclose(distinct_experts(experts, top_k, rows), mean, rel_tol=1e-12)


@given(experts=st.integers(1, 512), data=st.data())
def test_one_row_reads_exactly_top_k_experts(experts, data):
    top_k = data.draw(st.integers(1, experts))
    assert isclose(distinct_experts(experts, top_k, 1), top_k, rel_tol=1e-12)


@given(experts=st.integers(1, 512), rows=st.integers(1, 10_000), data=st.data())
def test_distinct_experts_rises_with_rows_and_never_exceeds_the_experts(experts, rows, data):
    top_k = data.draw(st.integers(1, experts))
    few, many = distinct_experts(experts, top_k, rows), distinct_experts(experts, top_k, rows + 1)
    assert few <= many <= experts


def brute_attended(batch: Batch, window: int | None) -> int:
    """Positions that some row of each step can see, each counted once a step."""
    total = 0
    for step in range(batch.steps):
        before = batch.start + (step if batch.rows == 1 else 0)
        seen = {key for row in range(batch.rows) for key in visible(before + row, window)}
        total += len(seen)
    return total


def brute_pairs(batch: Batch, window: int | None) -> int:
    """(query, key) pairs: row by row."""
    return sum(
        len(visible(batch.start + (step if batch.rows == 1 else 0) + row, window))
        for step in range(batch.steps)
        for row in range(batch.rows)
    )


def visible(position: int, window: int | None) -> range:
    """What a token at `position` sees: itself and what is before it, within the window."""
    first = 0 if window is None else max(0, position - window + 1)
    return range(first, position + 1)


@given(context=st.integers(0, 60), steps=st.integers(1, 30), window=WINDOWS)
def test_decode_sums_equal_the_sum_over_steps(context, steps, window):
    batch = decode(context, steps)
    assert batch.attended(window) == brute_attended(batch, window)
    assert batch.pairs(window) == brute_pairs(batch, window)


@given(start=st.integers(0, 60), rows=st.integers(2, 40), steps=st.integers(1, 3), window=WINDOWS)
def test_prompt_sums_equal_the_sum_over_rows(start, rows, steps, window):
    batch = Batch(rows=rows, steps=steps, start=start)
    assert batch.attended(window) == brute_attended(batch, window)
    assert batch.pairs(window) == brute_pairs(batch, window)


SPANS = st.one_of(
    st.builds(Span, window=WINDOWS, top=WINDOWS),
    st.builds(Span, chunk=st.integers(1, 40)),
    st.builds(Span, stride=st.integers(1, 9), top=WINDOWS),
)


def rows_shown(position: int, span: Span) -> set[int]:
    """Rows of state that a token may read, before it chooses: the row of a stride is there once it is complete."""
    if span.chunk is not None:
        return {key for key in range(position + 1) if key // span.chunk == position // span.chunk}
    return set(range((position + 1) // span.stride)) if span.stride > 1 else set(visible(position, span.window))


@given(start=st.integers(0, 60), rows=st.integers(1, 40), steps=st.integers(1, 4), span=SPANS)
def test_any_span_sums_as_row_by_row(start, rows, steps, span):
    batch = Batch(rows=rows, steps=steps, start=start)
    firsts = [start + (step if rows == 1 else 0) for step in range(steps)]
    shown = [[rows_shown(first + row, span) for row in range(rows)] for first in firsts]
    chosen = [[min(len(seen), span.top or len(seen)) for seen in step] for step in shown]
    assert batch.pairs_seen(span) == sum(sum(step) for step in chosen)
    read = [len(set().union(*step)) if rows > 1 else chosen[number][0] for number, step in enumerate(shown)]
    assert batch.rows_read(span) == sum(read)


@given(tokens=st.integers(1, 200))
def test_a_causal_prompt_scores_half_a_square(tokens):
    assert prefill(tokens).pairs(None) == tokens * (tokens + 1) // 2
    assert prefill(tokens).attended(None) == tokens
