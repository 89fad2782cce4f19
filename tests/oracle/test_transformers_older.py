"""Families with field names of their own against their classes: counts by part, stored bytes, caches, refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.base.errors import ModelError
from meshwright.model.model import parameter_bytes, parameter_counts
from meshwright.model.reader import read_config
from tests.oracle.older_configs import ALIASES, FAMILIES, FULL_CONFIGS, random_config
from tests.oracle.test_transformers_counts import assert_counts_without_fields, ours, theirs, without
from tests.oracle.transformers_models import buffer_elements, build, cached, counts, seeded, stored_bytes

SEEDS = range(40)
EXAMPLES = 600  # a family, in the campaign
TOKENS = 9
FIELDS = [(family, field) for family in FAMILIES for field in FULL_CONFIGS[family]]
# What their class builds although no forward pass runs on it: heads, or KV heads, that do not go together.
REFUSED_HERE = {"MOD007", "MOD008", "MOD013"}


def full_config(family: str, **changes: Any) -> dict[str, Any]:
    return {"model_type": family, **FULL_CONFIGS[family], **changes}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_random_config_counts_as_its_class(family, seed):
    config = random_config(family, seeded("older", family, seed))
    built = build(config)
    assert ours(config) == counts(built)
    assert buffer_elements(built) == 0


@pytest.mark.campaign
@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 2**64))
def test_any_random_config_with_fields_left_out_counts_as_its_class(family, seed):
    rng = seeded(seed)
    assert_counts_without_fields(random_config(family, rng), rng, REFUSED_HERE)


@pytest.mark.parametrize(("family", "field"), FIELDS)
def test_a_field_left_out_takes_the_default_of_its_class(family, field):
    config = without(full_config(family), field)
    model = read_config(config, "model")
    assert parameter_counts(model) == counts(build(config))
    unread = {"num_ln_in_parallel_attn", "multi_query"}  # of a newer falcon whose halves follow each other
    assert field in {item.field for item in model.defaulted} | unread


@pytest.mark.parametrize("family", FAMILIES)
def test_a_config_with_nothing_but_its_type_is_that_of_its_class(family):
    assert ours({"model_type": family}) == counts(build({"model_type": family}))


@pytest.mark.parametrize(("family", "field"), FIELDS)
def test_a_null_field_counts_as_its_class_or_is_refused_by_both(family, field):
    config = full_config(family, **{field: None})
    mine, other = ours(config), theirs(config)
    if isinstance(other, Exception):
        assert isinstance(mine, ModelError)
        assert mine.code == "MOD006"
        assert field in mine.cause
    else:
        assert mine == other


@pytest.mark.parametrize(
    ("family", "name", "alias"), [(family, *pair) for family in ALIASES for pair in ALIASES[family].items()]
)
def test_an_alias_counts_and_comes_before_the_name(family, name, alias):
    both = full_config(family, **{alias: 2 * FULL_CONFIGS[family][name]})
    assert ours(both) == theirs(both) == ours(without(both, name))
    assert ours(both) != ours(full_config(family)) or name in {"n_head", "n_heads"}


@pytest.mark.parametrize("family", ["bloom", "falcon"])
def test_the_older_name_of_the_hidden_size_comes_first_unless_it_is_null(family):
    twice = 2 * FULL_CONFIGS[family]["hidden_size"]
    assert ours(full_config(family, n_embed=twice)) == theirs(full_config(family, n_embed=twice))
    assert ours(full_config(family, n_embed=twice)) == ours(full_config(family, hidden_size=twice))
    assert ours(full_config(family, n_embed=None)) == ours(full_config(family))


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_plain_model_stores_what_its_class_stores(family, dtype):
    expected = stored_bytes(build(full_config(family), dtype=getattr(torch, dtype)))
    assert parameter_bytes(read_config(full_config(family, torch_dtype=dtype), "model"))["total"] == expected


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("family", FAMILIES)
def test_a_forward_pass_caches_what_the_config_says(family, seed):
    """Except in the newer falcon: this class caches a copy of a key for every query head, engines one a KV head."""
    config = random_config(family, seeded("older cache", family, seed))
    model = read_config(config, "model")
    mixer = model.kinds[0].mixer
    if config.get("new_decoder_architecture"):
        mixer = replace(mixer, kv_heads=mixer.heads)
    elements = TOKENS * sum(item.tensor.elements for item in mixer.token_state())
    assert cached(config, TOKENS) == [(elements, TOKENS)] * model.layers


NEWER = {"num_attention_heads": 12, "hidden_size": 96, "new_decoder_architecture": True, "parallel_attn": True}


@pytest.mark.parametrize(
    ("config", "code"),
    [
        pytest.param(full_config("falcon", **NEWER, num_kv_heads=5), "MOD007", id="KV heads that divide nothing"),
        pytest.param(
            full_config("falcon", **{**NEWER, "new_decoder_architecture": False}, multi_query=False, num_kv_heads=3),
            "MOD007",
            id="fewer KV heads in an older decoder",
        ),
        pytest.param(
            full_config("falcon", **{**NEWER, "hidden_size": 36}, alibi=False, num_kv_heads=3), "MOD008", id="odd"
        ),
        pytest.param(full_config("gpt_neox", hidden_size=54, rotary_pct=1.0), "MOD008", id="all columns of odd heads"),
        pytest.param(full_config("mpt", d_model=130), "MOD008", id="heads that do not divide"),
    ],
)
def test_what_is_refused_although_its_class_is_built_cannot_run_there(config, code):
    build(config)
    assert ours(config).code == code
    with pytest.raises((RuntimeError, ValueError)):
        cached(config, 4)


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(full_config("falcon", hidden_size=570), id="falcon"),
        pytest.param(full_config("falcon", **{**NEWER, "hidden_size": 108}, alibi=False, num_kv_heads=3), id="odd"),
        pytest.param(full_config("gpt2", n_embd=97), id="gpt2"),
        pytest.param(full_config("gpt_neox", hidden_size=194), id="gpt_neox"),
        pytest.param(full_config("bloom", hidden_size=97), id="bloom"),
        pytest.param(full_config("opt", hidden_size=97), id="opt"),
        pytest.param(full_config("opt", enable_bias=None), id="null for a flag"),
        pytest.param(full_config("gpt2", n_embd="96"), id="text for a number"),
    ],
)
def test_what_its_class_refuses_is_refused_here(config):
    assert isinstance(theirs(config), Exception)
    assert isinstance(ours(config), ModelError)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("family", ["llama", "mixtral", "gpt2"])
def test_columns_of_shapes_count_as_the_class_of_the_same_shapes(family, seed):
    rng = seeded("columns", family, seed)
    kv_heads, layers, vocab, positions = rng.randint(1, 4), rng.randint(1, 5), rng.randint(8, 300), rng.randint(16, 99)
    heads = kv_heads if family == "gpt2" else kv_heads * rng.randint(1, 6)
    hidden, ffn, tied = heads * 2 * rng.randint(1, 6), rng.randint(1, 150), rng.random() < 0.5
    columns = {"layers": layers, "hidden": hidden, "heads": heads, "kv_heads": kv_heads, "vocab": vocab, "tied": tied}
    names = {"layers": "num_hidden_layers", "hidden": "hidden_size", "heads": "num_attention_heads"}
    names |= {"kv_heads": "num_key_value_heads", "vocab": "vocab_size", "tied": "tie_word_embeddings"}
    config = {names[column]: value for column, value in columns.items()}
    if family == "gpt2":
        columns |= {"gated": False, "bias": True, "norm": "layer", "learned_positions": True}
        config = {**without(config, "num_key_value_heads"), "n_inner": ffn}
    elif family == "mixtral":
        columns |= {"experts": 5, "topk": 2, "moe_ffn": ffn}
        config |= {"num_local_experts": 5, "num_experts_per_tok": 2, "intermediate_size": ffn}
    else:
        config["intermediate_size"] = ffn
    built = build({"model_type": family, **config, "max_position_embeddings": positions})
    assert ours({"model_type": "decoder", **columns, "ffn": ffn, "positions": positions}) == counts(built)
