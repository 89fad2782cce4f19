"""Families with recurrent mixers, chunks or blocks of one part against their classes: counts, buffers, states."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

from meshwright.base.errors import ModelError
from meshwright.model.model import parameter_bytes, parameter_counts
from meshwright.model.reader import read_config
from meshwright.scenarios.inspect import apart
from tests.oracle.hybrid_configs import ALIASES, FAMILIES, FULL_CONFIGS, random_config
from tests.oracle.test_transformers_counts import assert_counts_without_fields, ours, theirs, without
from tests.oracle.transformers_models import buffer_elements, build, config_of, counts, seeded, stored_bytes

SEEDS = range(8)
EXAMPLES = 600  # a family, in the campaign
TOKENS = 9
FIELDS = [(family, field) for family in FAMILIES for field in FULL_CONFIGS[family]]
# What their class builds although no forward pass runs on it.
REFUSED_HERE = {"MOD007", "MOD008", "MOD010", "MOD013"}


# Some classes tie no head whatever the config says, and latent attention has no heads of keys.
UNREAD = {
    "kimi_linear": {"tie_word_embeddings", "num_key_value_heads", "mlp_layer_types"},
    "nemotron_h": {"tie_word_embeddings"},
}


def full_config(family: str, **changes: Any) -> dict[str, Any]:
    return {"model_type": family, **FULL_CONFIGS[family], **changes}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_random_config_counts_as_its_class(family, seed):
    config = random_config(family, seeded("hybrid", family, seed))
    built = build(config)
    assert ours(config) == counts(built), config
    assert apart(read_config(config, "model"))["buffers"] == buffer_elements(built)


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
    mine, other = ours(config), theirs(config)
    if isinstance(other, Exception):
        assert isinstance(mine, ModelError)
    else:
        assert mine == other
        assert field in UNREAD.get(family, set()) | {item.field for item in read_config(config, "model").defaulted}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_plain_model_stores_what_its_class_stores(family):
    config = full_config(family, torch_dtype="bfloat16")
    assert parameter_bytes(read_config(config, "model"))["total"] == stored_bytes(build(config, dtype=torch.bfloat16))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_config_with_nothing_but_its_type_is_that_of_its_class(family):
    assert ours({"model_type": family}) == counts(build({"model_type": family}))


@pytest.mark.parametrize(
    ("family", "name", "alias"), [(family, *pair) for family in ALIASES for pair in ALIASES[family].items()]
)
def test_an_alias_stands_for_the_name(family, name, alias):
    config = full_config(family)
    renamed = {alias if key == name else key: value for key, value in config.items()}
    assert ours(renamed) == ours(config) == theirs(renamed)


def states(config: dict[str, Any], tokens: int) -> list[dict[str, int]]:
    """Elements that each layer keeps after a real forward pass: of positions, of convolutions, of recurrences."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config_of(config), experts_implementation="eager").eval()
    with torch.no_grad():
        cache = model(torch.zeros(1, tokens, dtype=torch.long), use_cache=True).cache
    return [_kept(layer) for layer in cache.layers]


def _kept(layer: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    if getattr(layer, "keys", None) is not None:
        found["positions"] = layer.keys.numel() + layer.values.numel()
    for name in ("conv", "recurrent"):
        kept = getattr(layer, f"{name}_states", {})
        if kept and kept[0] is not None:
            found[name] = kept[0].numel()
    return found


def expected_states(config: dict[str, Any], tokens: int) -> list[dict[str, int]]:
    model = read_config(config, "model")
    found: list[dict[str, int]] = []
    for kind in model.kind_of_layer:
        mixer, layer = model.kinds[kind].mixer, {}
        for state in mixer.token_state():
            kept = tokens if state.span.chunk is None else min(tokens, state.span.chunk - 1)
            layer["positions"] = layer.get("positions", 0) + kept * state.tensor.elements
        for state in mixer.session_state():
            name = "recurrent" if state.tensor.name == "recurrent_state" else "conv"
            layer[name] = layer.get(name, 0) + state.tensor.elements
        found.append(layer)
    return found


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "minimax"])
def test_a_forward_pass_keeps_the_states_that_the_config_says(family):
    drawn = [random_config(family, seeded("hybrid state", family, seed)) for seed in range(6)]
    for config in (full_config(family), *drawn):
        expected = expected_states(config, TOKENS)
        if any("positions" in layer for layer in expected):  # some classes want a layer that counts positions
            assert states(config, TOKENS) == expected, config


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tokens", [1, TOKENS, 3 * TOKENS])
def test_lightning_attention_keeps_the_state_that_the_config_says_whatever_the_length(seed, tokens):
    """Its class has a cache of its own: a list of states beside the layers that keep positions."""
    config = random_config("minimax", seeded("lightning", seed)) if seed else full_config("minimax")
    model = AutoModelForCausalLM.from_config(config_of(config), experts_implementation="eager").eval()
    with torch.no_grad():
        cache = model(torch.zeros(1, tokens, dtype=torch.long), use_cache=True).past_key_values
    expected = expected_states(config, tokens)
    kinds = [read_config(config, "model").kinds[kind].mixer for kind in read_config(config, "model").kind_of_layer]
    for layer, (mixer, kept) in enumerate(zip(kinds, expected, strict=True)):
        if mixer.session_state():
            state = cache.linear_cache[layer]
            assert {"recurrent": state.numel()} == kept
            assert state.shape[1:] == (mixer.heads, mixer.head_dim, mixer.head_dim)
        elif mixer.kind == "full_attention":
            assert {"positions": cache.layers[layer].keys.numel() + cache.layers[layer].values.numel()} == kept


def test_a_recurrent_state_is_kept_in_fp32_and_inputs_of_a_convolution_in_the_models_format():
    made = config_of(full_config("qwen3_5_text"))
    model = AutoModelForCausalLM.from_config(made).to(torch.bfloat16).eval()
    with torch.no_grad():
        layer = model(torch.zeros(1, 3, dtype=torch.long), use_cache=True).cache.layers[0]
    assert (layer.recurrent_states[0].dtype, layer.conv_states[0].dtype) == (torch.float32, torch.bfloat16)
    kept = read_config(full_config("qwen3_5_text"), "model").kinds[0].mixer.session_state()
    assert {item.tensor.name: item.format and item.format.name for item in kept} == {
        "convolution_state": None,
        "recurrent_state": "fp32",
    }


@pytest.mark.parametrize("family", ["qwen3_5", "qwen3_5_moe"])
@pytest.mark.parametrize("seed", range(3))
def test_a_vision_tower_counts_as_its_class(family, seed):
    rng = seeded("vision", family, seed)
    heads = rng.randint(1, 4)
    vision = {
        "model_type": f"{family}_vision",
        "depth": rng.randint(1, 3),
        "hidden_size": 4 * heads * rng.randint(1, 4),
        "num_heads": heads,
        "intermediate_size": rng.randint(1, 50),
        "patch_size": rng.randint(1, 5),
        "temporal_patch_size": rng.randint(1, 3),
        "spatial_merge_size": rng.randint(1, 3),
        "in_channels": rng.randint(1, 4),
        "out_hidden_size": rng.randint(1, 60),
        "num_position_embeddings": rng.randint(1, 60),
    }
    text = full_config(f"{family}_text")
    config = {"model_type": family, "text_config": text, "vision_config": vision}
    with torch.device("meta"):
        built = AutoModel.from_config(AutoConfig.for_model(family, text_config=dict(text), vision_config=dict(vision)))
    assert apart(read_config(config, "model"))["vision"] == sum(item.numel() for item in built.visual.parameters())
    assert parameter_counts(read_config(config, "model")) == ours(text)
