"""Wrong answers about long contexts that an easy shortcut gives, and the command does not."""

from __future__ import annotations

import pytest

from tests.ui.program import answer_of


def asked(study, **settings):
    words = (word for name, value in settings.items() for word in ("--set", f"{name}={value}"))
    return answer_of("study", "run", study, *words)["answer"]


@pytest.mark.parametrize(("vectors", "right"), [("6,4", 2.2185), ("6,2", 2.0), ("3,1", 1.0)])
def test_the_softmax_of_a_cut_context_is_no_mean_of_the_slices_own(vectors, right):
    """Chapter "Supernodes", section 6.2.4: with u = (6, 4) a mean says 3."""
    found = asked("softmax-merge", **{"slices.vectors": vectors})["output"]
    assert found == pytest.approx(right, abs=5e-5)
    one, other = (float(vector) / total for vector, total in zip(vectors.split(","), (3, 1), strict=True))
    assert (found == pytest.approx((one + other) / 2)) == (one == other)


def test_sp_multiplies_no_cards():
    """DP2 x PP2 x TP4 with sp over its tp group is 16 cards, not 64."""
    given = {"degrees.dp_replicate": 2, "degrees.pp": 2, "degrees.tp": 4}
    assert asked("world-size", **given) == 16
    with pytest.raises(AssertionError):
        asked("world-size", **given, sp=4)


@pytest.mark.parametrize("positions", [8, 4096, 131072])
def test_neighbouring_positions_are_no_balanced_split_of_causal_attention(positions):
    contiguous, zigzag = (
        asked("context-split", documents=positions, split=split) for split in ("contiguous", "zigzag")
    )
    assert contiguous["busiest_pairs"] > 2.5 * contiguous["least_pairs"]
    assert zigzag["busiest_pairs"] == zigzag["least_pairs"] == zigzag["pairs"] / 2
    half = positions // 2
    both_alone = half * (half + 1)
    for found in (contiguous, zigzag):
        assert sum(part["pairs"] for part in found["ranks"]) == found["pairs"] > 1.5 * both_alone
