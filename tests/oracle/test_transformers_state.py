"""Windows and cached keys and values, against the caches that `transformers` lays out and fills."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.model.mixers import Attention
from meshwright.model.reader import CATALOG, read_config, read_model
from meshwright.scenarios.inspect import kv_bytes_per_token
from tests.oracle.transformers_models import (
    FAMILIES,
    FULL_CONFIGS,
    cached,
    config_of,
    decoder_config,
    entries_with_class,
    random_config,
    seeded,
    windows,
)

TOKENS = 9
EXAMPLES = 300  # a family, in the campaign


def mixers(config):
    model = read_config(config, "model")
    return [model.kinds[kind].mixer for kind in model.kind_of_layer]


def assert_caches_agree(config, tokens=TOKENS):
    mine, theirs = mixers(config), cached(config, tokens)
    assert len(mine) == len(theirs)
    for mixer, (elements, positions) in zip(mine, theirs, strict=True):
        assert elements == positions * sum(item.tensor.elements for item in mixer.token_state()), config
        # Theirs keeps what the next token looks back at, without itself.
        assert positions == (tokens if mixer.window is None else min(tokens, mixer.window - 1)), config


def grouped_entries():
    """Entries whose layers all keep keys and values of heads; what others keep has tests of its own."""
    found = {entry: read_model(entry.replace("--", "/"), weights="bf16") for entry in entries_with_class()}
    return [name for name, model in found.items() if all(isinstance(block.mixer, Attention) for block in model.kinds)]


@pytest.mark.parametrize("entry", grouped_entries())
def test_windows_of_every_catalog_entry_are_those_of_its_cache(entry):
    config = decoder_config(tomllib.loads(CATALOG.text(entry))["config"])
    assert [mixer.window for mixer in mixers(config)] == windows(config)


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("family", FAMILIES)
def test_windows_of_a_random_config_are_those_of_its_cache(family, seed):
    config = random_config(family, seeded("windows", family, seed))
    assert [mixer.window for mixer in mixers(config)] == windows(config)


@pytest.mark.campaign
@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 2**64))
def test_windows_of_any_random_config_are_those_of_its_cache(family, seed):
    config = random_config(family, seeded(seed))
    assert [mixer.window for mixer in mixers(config)] == windows(config)


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
def test_layers_slide_from_max_window_layers_on(family):
    config = {"model_type": family, **FULL_CONFIGS[family]}
    kinds = [mixer.kind for mixer in mixers(config)]
    assert kinds == ["full_attention", "sliding_attention", "sliding_attention"]
    assert kinds == config_of(config).layer_types


@pytest.mark.parametrize("family", FAMILIES)
def test_layer_types_decide_which_layers_slide_in_every_family(family):
    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    config = {"model_type": family, **FULL_CONFIGS[family], "sliding_window": 6, "layer_types": kinds}
    assert [mixer.kind for mixer in mixers(config)] == kinds
    assert_caches_agree(config)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_forward_pass_caches_what_the_config_says(family):
    assert_caches_agree({"model_type": family, **FULL_CONFIGS[family]})
    for seed in range(4):
        assert_caches_agree(random_config(family, seeded("cache", family, seed)))


@pytest.mark.campaign
@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 2**64))
def test_any_forward_pass_caches_what_the_config_says(family, seed):
    rng = seeded(seed)
    assert_caches_agree(random_config(family, rng), rng.randint(1, 40))


@pytest.mark.parametrize("family", FAMILIES)
def test_kv_bytes_of_a_token_are_those_of_a_forward_pass_inside_the_windows(family):
    config = {"model_type": family, **FULL_CONFIGS[family], "torch_dtype": "float16"}
    tokens = 4
    elements = sum(layer for layer, _ in cached(config, tokens))
    assert kv_bytes_per_token(read_config(config, "model")) * tokens == 2 * elements
