"""Families of latent attention against the classes of `transformers`: parameters by part, what stands apart, caches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from transformers import AutoModelForCausalLM, DynamicCache

from meshwright.model.model import parameter_bytes, parameter_counts
from meshwright.model.reader import read_config
from meshwright.scenarios.inspect import apart, kv_bytes_per_token
from tests.oracle.transformers_models import (
    buffer_elements,
    build,
    config_of,
    counts,
    predictor_parameters,
    seeded,
    stored_bytes,
)

if TYPE_CHECKING:
    from random import Random

FAMILIES = ("deepseek_v2", "deepseek_v3", "deepseek_v32", "deepseek_v4", "glm_moe_dsa")
LATENT = tuple(family for family in FAMILIES if family != "deepseek_v4")
WITH_PREDICTORS = {"deepseek_v3", "deepseek_v32", "glm_moe_dsa"}
SEEDS = range(3)


def random_config(family: str, rng: Random) -> dict[str, Any]:
    """A small config that its class builds and runs: heads of three widths, dense layers, groups, indexers."""
    heads, layers = rng.randint(1, 5), rng.randint(1, 5)
    config: dict[str, Any] = {
        "model_type": family,
        "vocab_size": rng.randint(8, 300),
        "hidden_size": heads * 8 * rng.randint(1, 6),
        "intermediate_size": rng.randint(1, 150),
        "moe_intermediate_size": rng.randint(1, 60),
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "q_lora_rank": 8 * rng.randint(1, 6),
        "kv_lora_rank": rng.randint(1, 60),
        "qk_nope_head_dim": 2 * rng.randint(1, 12),
        "qk_rope_head_dim": 2 * rng.randint(1, 6),
        "v_head_dim": 2 * rng.randint(1, 12),
        "attention_bias": rng.random() < 0.5,
        "n_routed_experts": 8,
        "n_shared_experts": rng.randint(1, 3),
        "num_experts_per_tok": rng.randint(1, 4),
        "n_group": 2,
        "topk_group": 1,
        "first_k_dense_replace": rng.randint(0, layers),
        "tie_word_embeddings": rng.random() < 0.5,
        "max_position_embeddings": 512,
        **_OWN[family](rng, layers),
    }
    if family in WITH_PREDICTORS:
        config["num_nextn_predict_layers"] = rng.randint(0, 2)
    return config


def _v2(rng: Random, layers: int) -> dict[str, Any]:
    del layers
    return {"q_lora_rank": rng.choice([None, 24]), "mlp_bias": rng.random() < 0.5}


def _v3(rng: Random, layers: int) -> dict[str, Any]:
    del layers
    return {"q_lora_rank": rng.choice([None, 24])}


def _v32(rng: Random, layers: int) -> dict[str, Any]:
    kinds = rng.choices(["dense", "sparse"], k=layers)
    listed = {"mlp_layer_types": kinds} if rng.random() < 0.5 else {}
    return {**listed, "index_n_heads": rng.randint(1, 4), "index_head_dim": 16, "index_topk": rng.randint(1, 9)}


def _glm(rng: Random, layers: int) -> dict[str, Any]:
    shared = rng.choice(
        [
            {},
            {"index_topk_freq": 2, "index_skip_topk_offset": rng.randint(1, 3)},
            {"indexer_types": ["full", *rng.choices(["full", "shared"], k=layers - 1)]},
        ]
    )
    return {**_v32(rng, layers), **shared}


def _v4(rng: Random, layers: int) -> dict[str, Any]:
    ratios = {"compress_ratios": rng.choices([0, 4, 128], k=layers + 1)}
    groups = rng.randint(1, 2)
    return {
        **(ratios if rng.random() < 0.7 else {}),
        "num_key_value_heads": 1,
        "n_shared_experts": 1,
        "num_attention_heads": groups * rng.randint(1, 3),
        "o_groups": groups,
        "o_lora_rank": rng.randint(1, 20),
        "head_dim": 16,
        "qk_rope_head_dim": 8,
        "sliding_window": rng.randint(2, 9),
        "num_hash_layers": rng.randint(0, layers),
        "hc_mult": rng.randint(2, 4),
        "index_n_heads": rng.randint(1, 4),
        "index_head_dim": 16,
        "index_topk": rng.randint(1, 9),
    }


_OWN = {"deepseek_v2": _v2, "deepseek_v3": _v3, "deepseek_v32": _v32, "deepseek_v4": _v4, "glm_moe_dsa": _glm}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_random_config_counts_as_its_class(family, seed):
    config = random_config(family, seeded("latent", family, seed))
    built = build(config)
    model = read_config(config, "model")
    assert parameter_counts(model) == counts(built)
    assert apart(model)["buffers"] == buffer_elements(built)
    extra = config.get("num_nextn_predict_layers", 0)
    if extra and family == "deepseek_v3":  # the only one of them whose class makes predictors
        assert apart(model)["mtp"] == predictor_parameters(built, extra)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_plain_model_stores_what_its_class_stores(family):
    config = {**random_config(family, seeded("stored", family)), "torch_dtype": "bfloat16"}
    assert parameter_bytes(read_config(config, "model"))["total"] == stored_bytes(build(config, dtype=torch.bfloat16))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_config_with_nothing_but_its_type_is_that_of_its_class(family):
    config = {"model_type": family, **({"num_experts_per_tok": 6} if family == "deepseek_v2" else {})}
    assert parameter_counts(read_config(config, "model")) == counts(build(config))


@pytest.mark.parametrize("family", LATENT)
def test_a_layer_keeps_its_latent_row_and_the_key_of_its_indexer(family):
    config = random_config(family, seeded("cache", family))
    tokens = 5
    model = AutoModelForCausalLM.from_config(config_of(config), experts_implementation="eager").eval()
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        model(torch.zeros(1, tokens, dtype=torch.long), cache=cache, use_cache=True)
    ours = read_config(config, "model")
    rows = [ours.kinds[kind].mixer.token_state() for kind in ours.kind_of_layer]
    for layer, states in zip(cache.layers, rows, strict=True):
        sizes = [tensor.numel() // tokens for tensor in (layer.keys, layer.values)]
        index = getattr(layer, "indexer_keys", None)
        assert sum(sizes) == states[0].tensor.elements
        assert (index is None) == (len(states) == 1)
        if index is not None:
            assert index.numel() // tokens == states[1].tensor.elements
    assert kv_bytes_per_token(ours) > 0


def test_a_compressed_layer_keeps_its_last_rows_one_for_a_stride_and_what_is_not_complete():
    """Beside a row less in the window, as the token that comes next takes its place."""
    config = random_config("deepseek_v4", seeded("cache", "deepseek_v4"))
    config |= {"num_hidden_layers": 3, "compress_ratios": [0, 4, 128], "sliding_window": 6, "num_hash_layers": 1}
    tokens = 131
    model = AutoModelForCausalLM.from_config(config_of(config), experts_implementation="eager").eval()
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        model(torch.zeros(1, tokens, dtype=torch.long), cache=cache, use_cache=True)
    ours = read_config(config, "model")
    for layer, kind in zip(cache.layers, ours.kind_of_layer, strict=True):
        local, *further = ours.kinds[kind].mixer.token_state()
        assert layer.keys.numel() == (local.span.kept(tokens) - 1) * local.tensor.elements
        made = getattr(layer, "compressed_kv", {})
        assert [item.numel() for item in made.values()] == [
            state.span.kept(tokens) * state.tensor.elements for state in further
        ]
        held = [getattr(layer, name, {}) for name in ("buffer_kv", "buffer_gate", "overlap_kv", "overlap_gate")]
        open_rows = sum(item.numel() for states in held for item in states.values())
        most = sum(item.tensor.elements for item in ours.kinds[kind].mixer.session_state())
        assert open_rows == most if tokens % 4 == 3 and len(made) != 1 else open_rows <= most
