"""A config goes in; what `transformers` makes of it comes out: parameters by part, windows and caches."""

from __future__ import annotations

import re
import tomllib
from copy import deepcopy
from random import Random
from typing import TYPE_CHECKING, Any, Final

import torch
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache
from transformers.modeling_layers import MtpModel
from transformers.utils import logging

from meshwright.model.reader import CATALOG
from meshwright.model.tensors import PARTS
from tests.oracle import hybrid_configs, older_configs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transformers import PreTrainedConfig, PreTrainedModel

logging.set_verbosity_error()

FAMILIES: Final = (
    "gemma2",
    "gemma3_text",
    "glm4_moe",
    "gpt_oss",
    "granite",
    "llama",
    "mistral",
    "mixtral",
    "olmo2",
    "phi3",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "qwen3_moe",
)
_WITHOUT_CLASS: Final = ("decoder", "nemotron-nas")
_PART_OF_NAME: Final = {
    r"model\.embed_tokens\.weight": "embedding",
    r"lm_head\.weight": "head",
    r"model\.norm\.weight": "norms",
    r"layers\.\d+\.(input|post_attention|pre_feedforward|post_feedforward)_layernorm\.weight": "norms",
    r"layers\.\d+\.self_attn\.[qk]_norm\.weight": "norms",
    r"layers\.\d+\.self_attn\.([qkvo]|qkv)_proj\.(weight|bias)": "attention",
    r"layers\.\d+\.self_attn\.(q_a|q_b|kv_b)_proj\.(weight|bias)": "attention",
    r"layers\.\d+\.self_attn\.kv_a_proj_with_mqa\.(weight|bias)": "attention",
    r"layers\.\d+\.self_attn\.(q_a|kv_a)_layernorm\.weight": "norms",
    r"layers\.\d+\.self_attn\.indexer\.(wq_b|wk|weights_proj)\.weight": "attention",
    r"layers\.\d+\.self_attn\.indexer\.k_norm\.(weight|bias)": "norms",
    r"layers\.\d+\.self_attn\.(kv|o_a|o_b)_proj\.weight": "attention",
    r"layers\.\d+\.self_attn\.(q_a|kv|compressor\.kv|compressor\.indexer\.kv)_norm\.weight": "norms",
    r"layers\.\d+\.self_attn\.compressor\.(indexer\.)?((kv|gate|q_b)_proj\.weight|position_bias)": "attention",
    r"layers\.\d+\.self_attn\.compressor\.indexer\.scorer\.weights_proj\.weight": "attention",
    r"(layers\.\d+\.(attn|ffn)_hc|model\.hc_head)\.(hc_)?(fn|base|scale)": "other",
    r"layers\.\d+\.self_attn\.sinks": "attention",
    r"layers\.\d+\.mlp\.(gate|up|down|gate_up)_proj\.(weight|bias)": "feed_forward",
    r"layers\.\d+\.mlp\.gate\.weight": "router",
    r"layers\.\d+\.mlp\.router\.(weight|bias)": "router",
    r"layers\.\d+\.mlp\.experts\.(gate_up|down)_proj(_bias)?": "experts",
    r"layers\.\d+\.mlp\.shared_experts\.(gate|up|down)_proj\.(weight|bias)": "experts",
    **older_configs.PART_OF_NAME,
    **hybrid_configs.PART_OF_NAME,
}

# Class defaults divide these sizes, so that each field can be left out in turn.
_SIZES: Final = {
    "vocab_size": 160,
    "hidden_size": 128,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 32,
    "num_key_value_heads": 16,
    "head_dim": 8,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}
_EVEN_HEADS: Final = {"llama", "gemma2", "gemma3_text"}  # these want the heads to divide the hidden size
_YARN: Final = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
_QWEN_WINDOW: Final = {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1}
FULL_CONFIGS: Final[dict[str, dict[str, Any]]] = {
    "gemma2": {**_SIZES, "num_key_value_heads": 2, "sliding_window": 6, "attention_bias": True},
    "gemma3_text": {
        **_SIZES,
        "num_key_value_heads": 2,
        "sliding_window": 6,
        "sliding_window_pattern": 2,
        "attention_bias": True,
    },
    "glm4_moe": {
        **_SIZES,
        "attention_bias": True,
        "use_qk_norm": True,
        "moe_intermediate_size": 24,
        "n_routed_experts": 12,
        "n_shared_experts": 2,
        "num_experts_per_tok": 3,
        "first_k_dense_replace": 2,
        "num_nextn_predict_layers": 2,
    },
    "gpt_oss": {
        **_SIZES,
        "sliding_window": 6,
        "attention_bias": False,
        "num_local_experts": 12,
        "num_experts_per_tok": 3,
    },
    "granite": {**_SIZES, "attention_bias": True, "mlp_bias": True},
    "olmo2": {**_SIZES, "attention_bias": True},
    "phi3": {**_SIZES, "sliding_window": 6},
    "llama": {**_SIZES, "attention_bias": True, "mlp_bias": True},
    "mistral": {**_SIZES, "sliding_window": 6},
    "mixtral": {**_SIZES, "sliding_window": 6, "num_local_experts": 12, "num_experts_per_tok": 3},
    "qwen2": {**_SIZES, **_QWEN_WINDOW},
    "qwen2_moe": {
        **_SIZES,
        **_QWEN_WINDOW,
        "qkv_bias": False,
        "moe_intermediate_size": 24,
        "shared_expert_intermediate_size": 40,
        "num_experts": 12,
        "num_experts_per_tok": 3,
        "decoder_sparse_step": 2,
        "mlp_only_layers": [0],
    },
    "qwen3": {**_SIZES, **_QWEN_WINDOW, "attention_bias": True},
    "qwen3_moe": {
        **_SIZES,
        "use_sliding_window": True,
        "sliding_window": 6,
        "attention_bias": True,
        "moe_intermediate_size": 24,
        "num_experts": 12,
        "num_experts_per_tok": 3,
        "decoder_sparse_step": 2,
        "mlp_only_layers": [0],
    },
}


_CLASS_OF: Final = {"kimi_k2": "deepseek_v3"}
"""Model types that run as the class of another."""


def config_of(config: Mapping[str, Any]) -> PreTrainedConfig:
    """The configuration class of a `model_type`, made from the other fields as `from_pretrained` makes it."""
    fields = deepcopy({key: value for key, value in config.items() if key != "model_type"})  # they complete it in place
    fields.setdefault("pad_token_id", None)  # a class default lies beyond a small vocabulary
    return AutoConfig.for_model(_CLASS_OF.get(config["model_type"], config["model_type"]), **fields)


def entries_with_class() -> list[str]:
    """Entries of the catalog, but for columns of a published table and described shapes, which no class builds."""
    configs = {name: tomllib.loads(CATALOG.text(name)).get("config", {}) for name in CATALOG.names()}
    return [name for name, config in configs.items() if config.get("model_type") not in {None, *_WITHOUT_CLASS}]


def decoder_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config of the text decoder, in whatever it is wrapped, without its quantization."""
    inner = {key: value for key, value in config.get("text_config", config).items() if key != "quantization_config"}
    return {**inner, "q_lora_rank": None} if inner.get("q_lora_rank") == 0 else inner


def build(config: Mapping[str, Any], **options: Any) -> PreTrainedModel:
    """The causal language model of a config on the meta device, where its size costs nothing."""
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config_of(config), **options)


def counts(model: PreTrainedModel) -> dict[str, int]:
    """Parameters by part and `total`, each storage once."""
    found = dict.fromkeys(PARTS, 0)
    for name, parameter in model.named_parameters():
        found[_part(name)] += parameter.numel()
    if not found["router"]:  # what is called shared is a feed-forward where nothing is routed
        found["feed_forward"] += found.pop("experts")
        found["experts"] = 0
    return {"total": sum(found.values()), **found}


def stored_bytes(model: PreTrainedModel) -> int:
    """Bytes of all parameters, each in its own format."""
    return sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())


def buffer_elements(model: PreTrainedModel) -> int:
    """Elements in the state dict that are no parameters."""
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    return sum(tensor.numel() for name, tensor in model.state_dict().items() if name not in parameters)


def predictor_parameters(model: PreTrainedModel, count: int) -> int:
    """Parameters of the `count` layers that predict further tokens, beside the embedding and the head they share."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in MtpModel(model, count).layers.parameters())


def windows(config: Mapping[str, Any]) -> list[int | None]:
    """The window of each layer, as the cache of that config is laid out."""
    layers = DynamicCache(config=config_of(config)).layers
    return [layer.sliding_window if layer.is_sliding else None for layer in layers]


def cached(config: Mapping[str, Any], tokens: int) -> list[tuple[int, int]]:
    """Elements and positions that each layer keeps after a real forward pass over `tokens` tokens."""
    # The default experts run only on sizes that are multiples of 16 bytes.
    model = AutoModelForCausalLM.from_config(config_of(config), experts_implementation="eager").eval()
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        model(torch.zeros(1, tokens, dtype=torch.long), cache=cache, use_cache=True)
    return [(layer.keys.numel() + layer.values.numel(), layer.keys.shape[-2]) for layer in cache.layers]


def seeded(*seed: object) -> Random:
    """A generator that draws the same everywhere for the same seed."""
    return Random(repr(seed))  # noqa: S311 - a sample, no secret


def random_config(family: str, rng: Random) -> dict[str, Any]:
    """A small config that `transformers` builds and runs: grouped heads, odd sizes, ties, biases, windows, mixtures.

    The hidden size is even times the heads, or the width of a head is given: a rotary embedding wants it even.
    """
    kv_heads = rng.randint(1, 4)
    heads = kv_heads * rng.randint(1, 6)
    hidden = heads * 2 * rng.randint(1, 6)
    own_width = rng.random() < 0.7
    if own_width and family not in _EVEN_HEADS:
        hidden += rng.randint(0, 9)
    layers = rng.randint(1, 6)
    config: dict[str, Any] = {
        "model_type": family,
        "architectures": ["ForCausalLM"],
        "vocab_size": rng.randint(8, 300),
        "hidden_size": hidden,
        "intermediate_size": rng.randint(1, 150),
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": rng.randint(16, 4096),
        "tie_word_embeddings": rng.random() < 0.5,
        "eos_token_id": rng.choice([1, [1, 2]]),
    }
    if own_width or family == "qwen3":
        config["head_dim"] = 2 * rng.randint(1, 12)
        config["rope_scaling"] = rng.choice([None, dict(_YARN)])  # yarn fails in MixtralConfig without a head_dim
    return {**config, **_FAMILY_FIELDS[family](rng, layers)}


def _gemma2(rng: Random, layers: int) -> dict[str, Any]:
    found: dict[str, Any] = {"attention_bias": rng.random() < 0.5, "sliding_window": rng.randint(2, 64)}
    if rng.random() < 0.4:
        found["layer_types"] = rng.choices(["full_attention", "sliding_attention"], k=layers)
    return found


def _gemma3_text(rng: Random, layers: int) -> dict[str, Any]:
    return {**_gemma2(rng, layers), "sliding_window_pattern": rng.randint(1, 7)}


def _glm4_moe(rng: Random, layers: int) -> dict[str, Any]:
    experts = rng.randint(2, 9)  # its router ranks the best two of a group
    return {
        "head_dim": 4 * rng.randint(1, 6),  # half of it is turned, in pairs
        "attention_bias": rng.random() < 0.5,
        "use_qk_norm": rng.random() < 0.5,
        "moe_intermediate_size": rng.randint(1, 60),
        rng.choice(["n_routed_experts", "num_local_experts"]): experts,
        "n_shared_experts": rng.randint(1, 3),
        "num_experts_per_tok": rng.randint(1, experts),
        "first_k_dense_replace": rng.randint(0, layers + 1),
        rng.choice(["num_nextn_predict_layers", "num_mtp_layers"]): rng.randint(0, 3),
    }


def _gpt_oss(rng: Random, layers: int) -> dict[str, Any]:
    experts = rng.randint(1, 9)
    name = rng.choice(["num_local_experts", "num_experts"])
    return {**_gemma2(rng, layers), name: experts, "num_experts_per_tok": rng.randint(1, experts)}


def _olmo2(rng: Random, layers: int) -> dict[str, Any]:
    del layers
    return {"attention_bias": rng.random() < 0.5}


def _phi3(rng: Random, layers: int) -> dict[str, Any]:
    return {**_mistral(rng, layers), "rope_scaling": None}  # its longrope wants a factor a pair


def _llama(rng: Random, layers: int) -> dict[str, Any]:
    del layers
    return {"attention_bias": rng.random() < 0.5, "mlp_bias": rng.random() < 0.5}


def _mistral(rng: Random, layers: int) -> dict[str, Any]:
    del layers
    return {"sliding_window": rng.choice([None, rng.randint(2, 64)])}


def _mixtral(rng: Random, layers: int) -> dict[str, Any]:
    experts = rng.randint(1, 9)
    name = rng.choice(["num_local_experts", "num_experts"])
    return {**_mistral(rng, layers), name: experts, "num_experts_per_tok": rng.randint(1, experts)}


def _qwen2(rng: Random, layers: int) -> dict[str, Any]:
    windowed = rng.random() < 0.6
    found = {"use_sliding_window": windowed, "sliding_window": rng.randint(2, 64)}
    found["max_window_layers"] = rng.randint(0, layers + 1)
    if rng.random() < 0.4:
        kinds = ["full_attention", "sliding_attention"] if windowed else ["full_attention"]
        found["layer_types"] = rng.choices(kinds, k=layers)
    return found


def _qwen3(rng: Random, layers: int) -> dict[str, Any]:
    return {**_qwen2(rng, layers), "attention_bias": rng.random() < 0.5}


def _qwen3_moe(rng: Random, layers: int) -> dict[str, Any]:
    experts = rng.choice([0, *range(1, 10)])
    return {
        "use_sliding_window": rng.random() < 0.5,
        "sliding_window": rng.choice([None, rng.randint(2, 64)]),
        "attention_bias": rng.random() < 0.5,
        "moe_intermediate_size": rng.randint(1, 60),
        rng.choice(["num_experts", "num_local_experts"]): experts,
        "num_experts_per_tok": rng.randint(1, max(experts, 1)),
        "decoder_sparse_step": rng.randint(1, 4),
        "mlp_only_layers": rng.sample(range(-1, layers + 2), k=rng.randint(0, layers)),
    }


def _qwen2_moe(rng: Random, layers: int) -> dict[str, Any]:
    mixture = _qwen3_moe(rng, layers)
    experts = mixture.pop("num_local_experts", mixture.pop("num_experts", 0))
    more = {"num_experts": experts, "shared_expert_intermediate_size": rng.randint(1, 60)}
    return {**mixture, **_qwen2(rng, layers), **more, "qkv_bias": rng.random() < 0.5}


_FAMILY_FIELDS: Final = {
    "gemma2": _gemma2,
    "gemma3_text": _gemma3_text,
    "glm4_moe": _glm4_moe,
    "gpt_oss": _gpt_oss,
    "granite": _llama,
    "olmo2": _olmo2,
    "phi3": _phi3,
    "llama": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "qwen2": _qwen2,
    "qwen2_moe": _qwen2_moe,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
}


def _part(name: str) -> str:
    below = name.removeprefix("model.") if ".layers." in name else name
    parts = [part for pattern, part in _PART_OF_NAME.items() if re.fullmatch(pattern, below)]
    assert len(parts) == 1, f"{name} belongs to {parts}"
    return parts[0]
