"""Rules: what they keep is what plain arithmetic accepts, and what they propose keeps them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.layout.layout import Layout, read_fixed
from meshwright.layout.layouts import table
from meshwright.layout.rules import RULES, first_broken, keeps_all
from meshwright.model.feed_forwards import Dense, Experts
from meshwright.model.model import Block, Model
from tests.laws.strategies import models


@st.composite
def any_layouts(draw) -> Layout:
    """Degrees that keep some rules and break others."""
    degree = st.sampled_from([1, 2, 3, 4, 5, 6, 8, 12, 16])
    few = st.sampled_from([1, 2, 3])
    return draw(
        st.builds(
            Layout,
            tp=degree,
            ep=degree,
            etp=degree,
            pp=degree,
            cp=few,
            dp_shard=few,
            dp_replicate=few,
            zero=st.integers(0, 3),
            sp=st.booleans(),
        )
    )


def accepted(model: Model, layout: Layout) -> bool:
    """The rules in words, block by block."""
    layers = [block.feed_forward for block in model.kinds]
    blocks = all(block_accepted(block, layout) for block in model.kinds)
    covered = (
        experts_accepted(layout) if any(isinstance(item, Experts) for item in layers) else layout.ep * layout.etp == 1
    )
    return blocks and covered and layout.pp <= model.layers


def block_accepted(block: Block, layout: Layout) -> bool:
    """Heads, KV heads and widths of one block."""
    heads, kv_heads, layer = block.mixer.heads, block.mixer.kv_heads, block.feed_forward
    dense = layer if isinstance(layer, Dense) else layer.shared
    kept = heads % layout.tp == 0 and (kv_heads % layout.tp == 0 or layout.tp % kv_heads == 0)
    kept = kept and (dense is None or dense.intermediate % layout.tp == 0)
    return kept and (isinstance(layer, Dense) or layer.experts % layout.ep == 0 == layer.intermediate % layout.etp)


def experts_accepted(layout: Layout) -> bool:
    """Experts lie on a stage a whole number of times, and not across the pieces of dp_shard x cp."""
    spread, shards = layout.ep * layout.etp, layout.dp_shard * layout.cp
    stage = layout.tp * shards * layout.dp_replicate
    whole = stage % spread == 0 and (layout.sp or spread % layout.tp == 0)
    if layout.zero == 0 or shards == 1:
        return whole
    return whole and all(max(spread, ranks) % min(spread, ranks) == 0 for ranks in (layout.tp, layout.tp * shards))


@settings(max_examples=60)
@given(model=models(), rows=st.lists(any_layouts(), min_size=1, max_size=8))
def test_the_rules_keep_what_plain_arithmetic_accepts(model, rows):
    kept = keeps_all(model, table(rows)).tolist()
    assert kept == [accepted(model, layout) for layout in rows]
    assert kept == [broken is None for broken in first_broken(model, table(rows), 64)]


@settings(max_examples=60)
@given(model=models(), layout=any_layouts(), most=st.sampled_from([1, 8, 64, 100_000]))
def test_the_nearest_degree_keeps_the_rule_and_all_rules_where_it_can(model, layout, most):
    broken = first_broken(model, table([layout]), most)[0]
    if broken is None or broken.nearest is None:
        return
    change = read_fixed(broken.nearest)
    rule = next(item for item in RULES if item.code == broken.code)
    moved = replace(layout, **change)
    implied = replace(moved, etp=max(moved.tp // moved.ep, 1))
    both = [moved] if "etp" in change else [moved, implied]
    assert any(rule.keeps(model, table([item]))[0] for item in both)
    degree = getattr(moved, rule.axis)
    assert 1 <= degree <= max(most, 1) or degree == getattr(layout, rule.axis)
    closer = [
        other
        for other in range(1, most + 1)
        if abs(other - getattr(layout, rule.axis)) < abs(degree - getattr(layout, rule.axis))
    ]
    assert not any(keeps_all(model, table([replace(layout, **{rule.axis: other})]))[0] for other in closer[:64])


@settings(max_examples=40)
@given(model=models(), layout=any_layouts())
def test_the_sentence_names_a_number_that_the_degree_does_not_keep(model, layout):
    broken = first_broken(model, table([layout]), 64)[0]
    if broken is not None and broken.code in {"LAY003", "LAY005"}:
        numbers = [int(word) for word in broken.reason.replace("=", " ").split() if word.isdigit()]
        assert numbers[1] % numbers[0] != 0
