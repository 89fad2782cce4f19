"""Small configs to start from, and the code of the error that reading one raises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from meshwright.base.errors import ModelError
from meshwright.model.reader import FAMILIES, read_config, read_model

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meshwright.model.model import Model

LLAMA = {
    "model_type": "llama",
    "vocab_size": 10,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "attention_bias": False,
    "mlp_bias": False,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
QWEN3_MOE = {
    **LLAMA,
    "model_type": "qwen3_moe",
    "moe_intermediate_size": 6,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "use_sliding_window": False,
}

HYBRID_NAMES = (
    "bamba",
    "granitemoehybrid",
    "jamba",
    "kimi_linear",
    "llama4_text",
    "minimax",
    "minimax_m2",
    "nemotron_h",
    "nemotron_nas",
    "qwen3_5_moe_text",
    "qwen3_5_text",
    "qwen3_next",
)
"""Families with mixers or blocks of several kinds."""

LATENT_NAMES = ("deepseek_v2", "deepseek_v3", "deepseek_v32", "deepseek_v4", "glm_moe_dsa", "kimi_k2")
"""Families whose keys and values are one row for all heads."""

OWN_NAMES = ("bloom", "decoder", "falcon", "gpt2", "gpt_neox", "mpt", "opt", *HYBRID_NAMES, *LATENT_NAMES)
"""Families whose fields have names of their own, or whose layers are not read as llama's."""

USUAL_NAMES = tuple(name for name in FAMILIES.names() if name not in OWN_NAMES)


def read_entry(entry: str) -> Model:
    """A catalog entry by its file's name; in bf16 where the format it is stored in is not read."""
    name = entry.replace("--", "/")
    try:
        return read_model(name)
    except ModelError as error:
        if error.code != "MOD021":
            raise
        return read_model(name, weights="bf16")


def without(config: Mapping[str, Any], *fields: str) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in fields}


def refusal(config: Mapping[str, Any], weights: str | None = None) -> ModelError:
    """The error of a config that must be refused."""
    with pytest.raises(ModelError) as caught:
        read_config(config, "model", weights=weights)
    assert caught.value.cause
    assert caught.value.fix
    return caught.value
