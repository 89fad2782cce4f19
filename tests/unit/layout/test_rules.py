"""The sentences and proposals a user reads; the laws check the rules themselves."""

from __future__ import annotations

import pytest

from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.layout.rules import RULES, first_broken
from meshwright.model.reader import read_model

DENSE, SPARSE = read_model("Qwen/Qwen3-32B"), read_model("Qwen/Qwen3-235B-A22B")

COMPRESSED, GATED = read_model("deepseek-ai/DeepSeek-V4-Flash"), read_model("Qwen/Qwen3.5-9B")
PRIME = read_model("tiiuae/falcon-7b")  # 71 heads, one KV head, a feed-forward of 18176 = 71 x 256


@pytest.mark.parametrize(
    ("model", "layout", "code", "reason", "nearest"),
    [
        (DENSE, Layout(tp=12), "LAY003", "tp=12 does not divide 64 attention heads", "tp=8"),
        (COMPRESSED, Layout(tp=16, etp=16), "LAY003", "tp=16 does not divide 8 output groups", "tp=8"),
        (GATED, Layout(tp=64), "LAY003", "tp=64 does not divide 16 key heads", "tp=16"),
        (DENSE, Layout(tp=100_000), "LAY003", "tp=100000 does not divide 64 attention heads", "tp=64"),
        (SPARSE, Layout(tp=12, etp=12), "LAY003", "tp=12 does not divide 64 attention heads", "tp=8"),
        (SPARSE, Layout(tp=8, ep=3, etp=2), "LAY007", "ep=3 does not divide 128 experts", "ep=2"),
        (SPARSE, Layout(tp=8, ep=2, etp=1), "LAY008", "ep=2 x etp=1 is not tp=8", "etp=4"),
        (SPARSE, Layout(tp=8, ep=1, etp=5), "LAY006", "etp=5 does not divide the expert width 1536", "ep=2"),
        (
            SPARSE,
            Layout(tp=2, dp_replicate=4, ep=16, etp=1),
            "LAY008",
            "ep=16 x etp=1 does not divide the 8 ranks of a stage",
            "ep=8",
        ),
        (
            SPARSE,
            Layout(tp=4, dp_replicate=2, ep=2),
            "LAY008",
            "ep=2 x etp=1 is not a multiple of tp=4, and without sp its ranks would repeat each other's work",
            "etp=2",
        ),
        (
            DENSE,
            Layout(tp=8, ep=2, etp=4),
            "LAY008",
            "ep=2, etp=4: expert parallelism needs experts, and the model is dense",
            None,
        ),
        (PRIME, Layout(tp=8), "LAY003", "tp=8 does not divide 71 attention heads", "tp=1"),
        (PRIME, Layout(tp=37), "LAY003", "tp=37 does not divide 71 attention heads", "tp=71"),
        (PRIME, Layout(tp=36), "LAY003", "tp=36 does not divide 71 attention heads", "tp=1"),
        (PRIME, Layout(tp=142), "LAY003", "tp=142 does not divide 71 attention heads", "tp=71"),
        (DENSE, Layout(pp=65), "LAY010", "pp=65 is more stages than 64 layers", "pp=64"),
    ],
)
def test_a_broken_rule_says_why_and_what_to_type(model, layout, code, reason, nearest):
    broken = first_broken(model, table([layout]), 1_000_000)[0]
    assert (broken.code, broken.reason, broken.nearest) == (code, reason, nearest)


def test_kv_heads_may_be_replicated_but_not_parted():
    keeping = [Layout(tp=tp) for tp in (1, 2, 4, 8, 16, 32, 64)]
    assert first_broken(DENSE, table(keeping), 64) == [None] * 7


def test_a_prime_number_of_heads_leaves_one_way_to_cut_them():
    kept = [tp for tp in range(1, 200) if first_broken(PRIME, table([Layout(tp=tp)]), 1)[0] is None]
    assert kept == [1, 71]
    assert first_broken(PRIME, table([Layout(tp=2)]), 8)[0].nearest == "tp=1"


def test_codes_are_unique():
    assert len({rule.code for rule in RULES}) == len(RULES)
