"""Laws of a context over ranks: every position and pair once, zigzag in balance, one softmax however it is cut."""

from __future__ import annotations

from functools import reduce
from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.base.errors import UserError
from meshwright.model.mixers.told import ALL, Span
from meshwright.workload.batches import Batch, decode, prefill
from meshwright.workload.context_split import ContextPlan, busiest_pairs, context_parts
from meshwright.workload.pairs import Run, packed_pairs, positions_pairs
from meshwright.workload.ring_rounds import ring_pairs, ring_rounds
from meshwright.workload.softmax_merge import Partial, merged, mixed, partial

SPLITS = st.sampled_from(["contiguous", "zigzag", "striped"])
DOCUMENTS = st.lists(st.integers(1, 40), min_size=1, max_size=5)
SPANS = st.one_of(
    st.just(ALL),
    st.builds(Span, window=st.integers(1, 50)),
    st.builds(Span, chunk=st.integers(1, 50)),
    st.builds(Span, stride=st.integers(2, 5), top=st.one_of(st.none(), st.integers(1, 9))),
    st.builds(Span, top=st.integers(1, 30)),
    st.builds(Span, window=st.integers(1, 20), chunk=st.integers(1, 20)),
    st.builds(Span, chunk=st.integers(1, 20), top=st.integers(1, 20)),
)
MASKS = st.one_of(st.tuples(st.just("causal"), SPANS), st.tuples(st.just("full"), st.just(ALL)))
EMPTY = Partial(maxima=np.array([-np.inf]), sums=np.zeros(1), vectors=np.zeros((1, 3)))


def held(runs):
    return [run.first + run.step * place for run in runs for place in range(run.count)]


def seen(documents, mask, span):
    """Positions, or rows of state, that each position sees, counted one by one."""
    return [size if mask == "full" else seen_by(place, span) for size in documents for place in range(size)]


def seen_by(place, span):
    visible = rows_of(place, span)
    return len(visible) if span.top is None else min(len(visible), span.top)


def rows_of(place, span):
    return [
        other
        for other in range(place + 1)
        if (span.window is None or place - other < span.window)
        and (span.chunk is None or place // span.chunk == other // span.chunk)
        and (other + 1) % span.stride == 0
    ]


@given(SPLITS, DOCUMENTS, MASKS, st.data())
def test_every_rank_scores_the_pairs_of_its_positions_and_all_together_score_all(split, documents, masked, data):
    mask, span = masked
    tokens = sum(documents)
    parts = context_parts(split, tokens, data.draw(st.integers(1, tokens)))
    assert sorted(chain.from_iterable(map(held, parts))) == list(range(tokens))
    by_hand = seen(documents, mask, span)
    found = [positions_pairs(part, documents, mask, span) for part in parts]
    assert found == [sum(by_hand[place] for place in held(part)) for part in parts]
    assert sum(found) == packed_pairs(documents, mask, span) == sum(by_hand)
    assert max(found) == busiest_pairs(split, tuple(documents), len(parts), mask, span)


@given(st.integers(1, 200), st.one_of(st.none(), st.integers(1, 200)))
def test_one_document_has_the_pairs_of_a_prompt_and_of_its_decode_steps(tokens, window):
    found = packed_pairs([tokens], "causal", Span(window=window))
    assert found == prefill(tokens).pairs(window) == decode(0, tokens).pairs(window)


@given(SPANS, st.integers(0, 40), st.integers(2, 12))
def test_a_prompt_reads_once_each_row_that_one_of_its_positions_may_see(span, start, rows):
    seen = set(chain.from_iterable(rows_of(place, span) for place in range(start, start + rows)))
    assert Batch(rows=rows, steps=1, start=start).rows_read(span) == len(seen)


@given(SPANS, st.integers(0, 40), st.integers(1, 12))
def test_decode_steps_read_what_each_of_them_sees(span, start, steps):
    by_hand = sum(seen_by(place, span) for place in range(start, start + steps))
    assert decode(start, steps).rows_read(span) == by_hand == decode(start, steps).pairs_seen(span)


@given(st.integers(1, 64), st.integers(1, 64), st.integers(0, 127))
def test_zigzag_is_balanced_to_within_one_stretch(ranks, stretch, extra):
    """Exactly where 2 n stretches are equal; else no two ranks differ by more than the pairs of the last stretch."""
    tokens = 2 * ranks * stretch + extra % (2 * ranks)
    parts = context_parts("zigzag", tokens, ranks)
    found = [positions_pairs(part, [tokens], "causal") for part in parts]
    last = Run(first=tokens - stretch, count=stretch)
    assert max(found) - min(found) <= positions_pairs((last,), [tokens], "causal") + tokens
    if tokens % (2 * ranks) == 0:
        assert len(set(found)) == 1
        assert found[0] * ranks == prefill(tokens).pairs(None)


@given(st.integers(2, 6), st.integers(1, 8), SPANS)
def test_a_plan_that_calls_itself_even_has_ranks_that_score_alike(ranks, stretch, span):
    tokens = 2 * ranks * stretch
    whole, busiest = packed_pairs([tokens], "causal", span), busiest_pairs("zigzag", (tokens,), ranks, "causal", span)
    if ContextPlan().even(span):
        assert busiest * ranks == whole
    assert ContextPlan(exchange="ulysses").even(span)
    assert not any(ContextPlan(split=split).even(span) for split in ("contiguous", "striped"))


def test_zigzag_is_not_even_under_a_window():
    span = Span(window=3)
    assert not ContextPlan().even(span)
    assert 4 * busiest_pairs("zigzag", (32,), 4, "causal", span) > packed_pairs([32], "causal", span)


@given(st.integers(2, 64), st.integers(1, 64))
def test_neighbours_are_out_of_balance_and_stripes_differ_by_their_offsets_alone(ranks, share):
    tokens = ranks * share
    whole = prefill(tokens).pairs(None)
    contiguous, striped = (
        [positions_pairs(part, [tokens], "causal") for part in context_parts(split, tokens, ranks)]
        for split in ("contiguous", "striped")
    )
    assert max(contiguous) * ranks > whole
    assert contiguous == sorted(contiguous)
    assert max(striped) - min(striped) == (ranks - 1) * share


@pytest.mark.parametrize(
    ("documents", "mask", "window", "runs"),
    [
        ([], "causal", None, ()),
        ([4, 0], "causal", None, ()),
        ([4], "full", 2, ()),
        ([4], "causal", 0, ()),
        ([4], "causal", None, (Run(first=3, count=2),)),
    ],
)
def test_pairs_of_what_is_no_sequence_are_refused(documents, mask, window, runs):
    with pytest.raises(UserError, match="JOB130"):
        positions_pairs(runs, documents, mask, Span(window=window))


def test_more_ranks_than_positions_are_refused():
    with pytest.raises(UserError, match="JOB131"):
        context_parts("zigzag", 3, 4)


def softmax(scores, values):
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (weights[..., None] * values).sum(axis=1) / weights.sum(axis=-1)[:, None]


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 30), st.lists(st.integers(0, 30), max_size=6), st.sampled_from([1, 1e3])
)
def test_slices_in_any_cut_and_order_merge_to_the_softmax_over_all(seed, tokens, ends, spread):
    """Scores a thousand apart make exp underflow, and nothing else."""
    draw = np.random.default_rng(seed)
    scores, values = draw.normal(size=(2, tokens)) * spread, draw.normal(size=(2, tokens, 3))
    bounds = [0, *sorted(min(end, tokens) for end in ends), tokens]
    parts = [partial(scores[:, a:b], values[:, a:b]) for a, b in pairwise(bounds)]
    expected = softmax(scores, values)
    for order in (parts, parts[::-1], [parts[place] for place in draw.permutation(len(parts))]):
        np.testing.assert_allclose(mixed(order), expected, rtol=1e-12, atol=1e-12)


@given(st.integers(0, 2**32 - 1))
def test_merging_is_associative_and_commutative_and_nothing_merges_to_nothing(seed):
    draw = np.random.default_rng(seed)
    one, two, three = (partial(draw.normal(size=(1, 4)) * 50, draw.normal(size=(1, 4, 3))) for _ in range(3))
    ways = (
        merged(merged(one, two), three),
        merged(one, merged(two, three)),
        merged(three, merged(two, one)),
        reduce(merged, (EMPTY, two, EMPTY, three, one, EMPTY)),
    )
    for way in ways[1:]:
        for name in ("maxima", "sums", "vectors"):
            np.testing.assert_allclose(getattr(way, name), getattr(ways[0], name), rtol=1e-12, atol=1e-12)
    both = merged(EMPTY, EMPTY)
    assert (both.maxima[0], both.sums[0], both.vectors.any()) == (-np.inf, 0.0, False)


def test_no_position_at_all_has_no_attention():
    with pytest.raises(UserError, match="JOB132"):
        mixed([EMPTY, EMPTY])


def test_the_mean_of_outputs_is_no_merge():
    scores, values = np.array([[2.0, 2.0, 2.0, 1.0]]), np.array([[[2.0], [2.0], [2.0], [4.0]]])
    parts = [partial(scores[:, :3], values[:, :3]), partial(scores[:, 3:], values[:, 3:])]
    assert mixed(parts)[0, 0] == pytest.approx(2.2185, abs=1e-4)
    assert np.mean([mixed([part])[0, 0] for part in parts]) == 3.0


@given(SPLITS, st.integers(1, 48), SPANS, st.data())
def test_rounds_of_a_ring_hold_the_pairs_of_every_rank_once(split, tokens, span, data):
    """In round t rank r meets the positions of rank r - t; together they are all that it scores."""
    ranks = data.draw(st.integers(1, min(tokens, 7)))
    parts = context_parts(split, tokens, ranks)
    found = ring_pairs(split, tokens, ranks, span)
    whole = [positions_pairs(part, (tokens,), "causal", span) for part in parts]
    assert found.sum(axis=1).tolist() == pytest.approx(whole)
    if span.stride > 1 or span.top is not None:
        return
    places = [held(part) for part in parts]
    for rank, turn in np.ndindex(ranks, ranks):
        met = (sees(query, key, span) for query in places[rank] for key in places[rank - turn])
        assert found[rank, turn] == sum(met)


def sees(query, key, span):
    inside = span.window is None or query - key < span.window
    return key <= query and inside and (span.chunk is None or query // span.chunk == key // span.chunk)


@given(SPLITS, st.integers(2, 200), SPANS, st.data())
def test_rounds_take_no_less_than_the_busiest_rank_and_never_the_mean(split, tokens, span, data):
    ranks = data.draw(st.integers(2, min(tokens, 9)))
    rounds, found = ring_rounds(split, tokens, ranks, span), ring_pairs(split, tokens, ranks, span)
    assert rounds.excess >= 0
    assert sum(count for _, count in rounds.sending) == ranks - 1
    together = (1 + rounds.excess) * found.sum(axis=1).max()
    assert together == pytest.approx(found.max(axis=0).sum())
    assert together >= found.sum() / ranks - 1e-9


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_one_rank_is_the_busiest_of_every_round_where_full_attention_is_cut(ranks):
    """Of neighbours the last one; under zigzag all are alike, but for the pairs of a position with itself."""
    for split in ("contiguous", "zigzag"):
        assert ring_rounds(split, 4096, ranks, ALL).excess == 0
    shares = [share for share, _ in ring_rounds("zigzag", 4096, ranks, ALL).sending]
    assert shares == pytest.approx([1 / ranks] * len(shares), rel=2e-3)


def test_a_window_makes_ranks_of_zigzag_take_turns():
    """A stretch that begins where another rank's ends is met in two rounds, by other ranks than in round 0."""
    assert ring_rounds("zigzag", 4096, 8, Span(window=256)).excess > 0.1
    assert ring_rounds("contiguous", 4096, 8, Span(window=256)).excess == pytest.approx(0, abs=0.01)
