"""Families with recurrent mixers, chunks or blocks of one part: full configs, random ones, and parts of parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

Config = dict[str, Any]
FULL, LINEAR = "full_attention", "linear_attention"

PART_OF_NAME: Final = {
    r"model\.embeddings\.weight": "embedding",
    r"model\.(norm_f|final_layernorm)\.weight": "norms",
    r"layers\.\d+\.(pre_ff_layernorm|norm)\.weight": "norms",
    r"layers\.\d+\.linear_attn\.norm\.weight": "norms",
    r"layers\.\d+\.linear_attn\.(in_proj_\w+|out_proj|conv1d)\.weight": "attention",
    r"layers\.\d+\.linear_attn\.(dt_bias|A_log)": "attention",
    r"layers\.\d+\.mlp\.shared_expert\.(gate|up|down)_proj\.weight": "experts",
    r"layers\.\d+\.mlp\.shared_expert_gate\.weight": "router",
    r"layers\.\d+\.self_attn\.o_norm\.weight": "norms",
    r"layers\.\d+\.self_attn\.(conv1d|(b|g_a|g_b)_proj|forget_gate\.(f_a|f_b)_proj)\.weight": "attention",
    r"layers\.\d+\.self_attn\.forget_gate\.(dt_bias|A_log)": "attention",
    r"layers\.\d+\.self_attn\.norm\.weight": "norms",
    r"layers\.\d+\.self_attn\.(output_gate|out_proj)\.weight": "attention",
    r"layers\.\d+\.(mamba|mixer)\.(norm|(dt|b|c)_layernorm)\.weight": "norms",
    r"layers\.\d+\.(mamba|mixer)\.(in_proj|conv1d|x_proj|dt_proj|out_proj)\.(weight|bias)": "attention",
    r"layers\.\d+\.(mamba|mixer)\.(dt_bias|A_log|D)": "attention",
    r"layers\.\d+\.mixer\.[qkvo]_proj\.weight": "attention",
    r"layers\.\d+\.mixer\.(up|down)_proj\.(weight|bias)": "feed_forward",
    r"layers\.\d+\.mixer\.gate\.weight": "router",
    r"layers\.\d+\.mixer\.experts\.(up|down)_proj": "experts",
    r"layers\.\d+\.mixer\.shared_experts\.(up|down)_proj\.(weight|bias)": "experts",
    r"layers\.\d+\.mixer\.fc[12]_latent_proj\.(weight|bias)": "experts",
    r"layers\.\d+\.feed_forward\.(gate|up|down)_proj\.(weight|bias)": "feed_forward",
    r"layers\.\d+\.feed_forward\.router\.weight": "router",
    r"layers\.\d+\.feed_forward\.experts\.(gate_up|down)_proj": "experts",
    r"layers\.\d+\.feed_forward\.shared_expert\.(gate|up|down)_proj\.weight": "experts",
    r"layers\.\d+\.shared_mlp\.(input|output)_linear\.weight": "experts",
    r"layers\.\d+\.block_sparse_moe\.router\.weight": "router",
    r"layers\.\d+\.block_sparse_moe\.experts\.(gate_up|down)_proj": "experts",
}

_SIZES: Final[Config] = {
    "vocab_size": 160,
    "hidden_size": 128,
    "num_attention_heads": 32,
    "num_key_value_heads": 16,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}
_DELTA: Final[Config] = {
    "head_dim": 8,
    "attention_bias": True,
    "full_attention_interval": 2,
    "linear_conv_kernel_dim": 3,
    "linear_key_head_dim": 6,
    "linear_value_head_dim": 10,
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 32,
}
_SHARED: Final[Config] = {
    "moe_intermediate_size": 24,
    "shared_expert_intermediate_size": 20,
    "num_experts": 12,
    "num_experts_per_tok": 3,
}
_MAMBA2: Final[Config] = {
    "mamba_n_heads": 64,
    "mamba_n_groups": 2,
    "mamba_d_state": 12,
    "mamba_d_head": 4,
    "mamba_d_conv": 3,
    "mamba_expand": 2,
    "mamba_chunk_size": 16,
    "mamba_conv_bias": False,
    "mamba_proj_bias": True,
}

# Class defaults go with these sizes, so that each field can be left out in turn.
FULL_CONFIGS: Final[dict[str, Config]] = {
    "bamba": {
        **_SIZES,
        **_MAMBA2,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "attn_layer_indices": [1],
        "attention_bias": True,
        "mlp_bias": True,
    },
    "granitemoehybrid": {
        **_SIZES,
        **_MAMBA2,
        "intermediate_size": 48,
        "shared_intermediate_size": 40,
        "num_hidden_layers": 3,
        "layer_types": [LINEAR, FULL, LINEAR],
        "num_local_experts": 12,
        "num_experts_per_tok": 3,
        "attention_bias": True,
    },
    "jamba": {
        **_SIZES,
        "intermediate_size": 48,
        "num_hidden_layers": 5,
        "num_experts": 12,
        "num_experts_per_tok": 3,
        "expert_layer_period": 3,
        "expert_layer_offset": 1,
        "attn_layer_period": 5,
        "attn_layer_offset": 3,
        "mamba_d_state": 12,
        "mamba_d_conv": 3,
        "mamba_expand": 3,
        "mamba_dt_rank": 9,
        "mamba_conv_bias": False,
        "mamba_proj_bias": True,
    },
    "kimi_linear": {
        **_SIZES,
        "num_key_value_heads": 32,
        "intermediate_size": 48,
        "moe_intermediate_size": 24,
        "num_hidden_layers": 6,
        "n_shared_experts": 2,
        "kv_lora_rank": 20,
        "q_lora_rank": 18,
        "qk_nope_head_dim": 6,
        "qk_rope_head_dim": 4,
        "v_head_dim": 10,
        "attention_bias": True,
        "num_local_experts": 12,
        "num_experts_per_tok": 3,
        "mlp_layer_types": ["dense", "dense", "sparse", "sparse", "sparse", "sparse"],
        "layer_types": [LINEAR, FULL, LINEAR, LINEAR, FULL, LINEAR],
        "linear_head_dim": 6,
        "linear_num_heads": 8,
        "linear_conv_kernel_dim": 3,
    },
    "llama4_text": {
        **_SIZES,
        "num_key_value_heads": 8,
        "head_dim": 8,
        "intermediate_size": 48,
        "intermediate_size_mlp": 56,
        "num_hidden_layers": 5,
        "num_local_experts": 12,
        "num_experts_per_tok": 1,
        "interleave_moe_layer_step": 2,
        "no_rope_layer_interval": 3,
        "attention_chunk_size": 6,
        "attention_bias": True,
    },
    "minimax": {
        **_SIZES,
        "head_dim": 8,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "layer_types": [LINEAR, FULL, LINEAR],
        "block_size": 16,
        "num_local_experts": 12,
        "num_experts_per_tok": 3,
    },
    "minimax_m2": {
        **_SIZES,
        "head_dim": 8,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_local_experts": 12,
        "num_experts_per_tok": 3,
    },
    "nemotron_h": {
        **_SIZES,
        "head_dim": 6,
        "intermediate_size": 48,
        "layers_block_type": [LINEAR, "mlp", FULL, "moe", LINEAR],
        "mlp_bias": True,
        "use_bias": True,
        "use_conv_bias": False,
        "ssm_state_size": 12,
        "mamba_num_heads": 16,
        "mamba_head_dim": 5,
        "n_groups": 4,
        "conv_kernel": 3,
        "chunk_size": 16,
        "n_routed_experts": 12,
        "moe_intermediate_size": 24,
        "moe_shared_expert_intermediate_size": 20,
        "moe_latent_size": 28,
        "num_experts_per_tok": 3,
    },
    "qwen3_5_moe_text": {**_SIZES, **_DELTA, **_SHARED, "num_hidden_layers": 5},
    "qwen3_5_text": {**_SIZES, **_DELTA, "intermediate_size": 48, "num_hidden_layers": 5},
    "qwen3_next": {
        **_SIZES,
        **_DELTA,
        **_SHARED,
        "intermediate_size": 48,
        "num_hidden_layers": 5,
        "decoder_sparse_step": 2,
        "mlp_only_layers": [1],
    },
}
FAMILIES: Final = tuple(FULL_CONFIGS)
ALIASES: Final[dict[str, dict[str, str]]] = {
    "granitemoehybrid": {"layer_types": "layers_block_type"},
    "jamba": {"num_experts": "num_local_experts"},
    "kimi_linear": {
        "max_position_embeddings": "model_max_length",
        "n_shared_experts": "num_shared_experts",
        "num_experts_per_tok": "num_experts_per_token",
        "num_local_experts": "num_experts",
    },
    "minimax": {"num_local_experts": "num_experts"},
    "minimax_m2": {"num_local_experts": "num_experts"},
    "nemotron_h": {
        "n_routed_experts": "num_local_experts",
        "n_groups": "mamba_n_groups",
        "conv_kernel": "mamba_d_conv",
        "use_conv_bias": "mamba_conv_bias",
    },
}


def random_config(family: str, rng: Random) -> Config:
    """A small config that `transformers` builds and runs."""
    kv_heads = rng.randint(1, 4)
    heads = kv_heads * rng.randint(1, 5)
    config: Config = {
        "model_type": family,
        "architectures": ["ForCausalLM"],
        "vocab_size": rng.randint(8, 300),
        "hidden_size": heads * 2 * rng.randint(1, 6),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": rng.randint(16, 4096),
        "tie_word_embeddings": rng.random() < 0.5,
    }
    config |= _FAMILY_FIELDS[family](rng, config)
    said = {name: alias for name, alias in ALIASES.get(family, {}).items() if config.get(name) is not None}
    renamed = {name: alias for name, alias in said.items() if rng.random() < 0.3}  # its class wants no null there
    return {renamed.get(name, name): value for name, value in config.items()}


def _flag(rng: Random) -> bool:
    return rng.random() < 0.5


def _kinds(rng: Random, layers: int) -> list[str]:
    return rng.choices([LINEAR, FULL], k=layers)


def _experts(rng: Random, name: str, *, least: int = 1) -> Config:
    count = rng.randint(least, 9)
    return {name: count, "num_experts_per_tok": rng.randint(1, max(count, 1))}


def _delta(rng: Random, layers: int) -> Config:
    key_heads = rng.randint(1, 4)
    found: Config = {
        "num_hidden_layers": layers,
        "head_dim": 8 * rng.randint(1, 3),
        "attention_bias": _flag(rng),
        "linear_conv_kernel_dim": rng.randint(2, 5),
        "linear_key_head_dim": rng.randint(1, 12),
        "linear_value_head_dim": rng.randint(1, 12),
        "linear_num_key_heads": key_heads,
        "linear_num_value_heads": key_heads * rng.randint(1, 4),
    }
    if _flag(rng):
        return {**found, "layer_types": _kinds(rng, layers)}
    return {**found, "full_attention_interval": rng.randint(1, 5)}


def _shared(rng: Random, *, least: int = 1) -> Config:
    return {
        **_experts(rng, "num_experts", least=least),
        "moe_intermediate_size": rng.randint(1, 60),
        "shared_expert_intermediate_size": rng.randint(1, 60),
    }


def _qwen3_5_text(rng: Random, config: Config) -> Config:
    del config
    return {**_delta(rng, rng.randint(1, 6)), "intermediate_size": rng.randint(1, 150)}


def _qwen3_5_moe_text(rng: Random, config: Config) -> Config:
    del config
    return {**_delta(rng, rng.randint(1, 6)), **_shared(rng)}


def _qwen3_next(rng: Random, config: Config) -> Config:
    del config
    layers = rng.randint(1, 6)
    return {
        **_delta(rng, layers),
        **_shared(rng, least=0),
        "intermediate_size": rng.randint(1, 150),
        "decoder_sparse_step": rng.randint(1, 4),
        "mlp_only_layers": rng.sample(range(layers), k=rng.randint(0, layers)),
    }


def _mamba2(rng: Random, config: Config) -> Config:
    """The hidden size grows until whole heads make up the inner width."""
    groups, expand, width = rng.randint(1, 3), rng.randint(1, 3), rng.randint(1, 5)
    count = groups * rng.randint(1, 4)
    hidden = config["hidden_size"] * count * width
    found: Config = {
        "hidden_size": hidden,
        "mamba_n_groups": groups,
        "mamba_n_heads": count,
        "mamba_d_state": rng.randint(1, 12),
        "mamba_d_conv": rng.randint(2, 5),
        "mamba_expand": expand,
        "mamba_conv_bias": _flag(rng),
        "mamba_proj_bias": _flag(rng),
        "attention_bias": _flag(rng),
        "intermediate_size": rng.randint(1, 60),
    }
    return found | rng.choice([{}, {"mamba_d_head": "auto"}, {"mamba_d_head": expand * hidden // count}])


def _bamba(rng: Random, config: Config) -> Config:
    layers = rng.randint(1, 5)
    listed = rng.choice([None, [], rng.sample(range(layers), k=rng.randint(0, layers))])
    return {
        **_mamba2(rng, config),
        "num_hidden_layers": layers,
        "attn_layer_indices": listed,
        "mlp_bias": _flag(rng),
    }


def _granitemoehybrid(rng: Random, config: Config) -> Config:
    layers = rng.randint(1, 5)
    return {
        **_mamba2(rng, config),
        **_experts(rng, "num_local_experts", least=0),
        "num_hidden_layers": layers,
        "layer_types": rng.choice([None, _kinds(rng, layers), rng.choices(["mamba", "attention"], k=layers)]),
        "shared_intermediate_size": rng.randint(1, 60),
    }


def _jamba(rng: Random, config: Config) -> Config:
    del config
    attention, experts = rng.randint(1, 5), rng.randint(1, 4)
    return {
        **_experts(rng, "num_experts"),
        "num_hidden_layers": rng.randint(1, 7),
        "intermediate_size": rng.randint(1, 60),
        "attn_layer_period": attention,
        "attn_layer_offset": rng.randrange(attention),
        "expert_layer_period": experts,
        "expert_layer_offset": rng.randrange(experts),
        "mamba_d_state": rng.randint(1, 12),
        "mamba_d_conv": rng.randint(2, 5),
        "mamba_expand": rng.randint(1, 3),
        "mamba_dt_rank": rng.choice(["auto", rng.randint(1, 9)]),
        "mamba_conv_bias": _flag(rng),
        "mamba_proj_bias": _flag(rng),
    }


def _kimi_linear(rng: Random, config: Config) -> Config:
    layers, experts = rng.randint(1, 6), rng.randint(2, 9)  # its router ranks the best two of a group
    found: Config = {
        "num_key_value_heads": config["num_attention_heads"],
        "num_local_experts": experts,
        "num_experts_per_tok": rng.randint(1, experts),
        "num_hidden_layers": layers,
        "n_shared_experts": rng.randint(1, 3),
        "intermediate_size": rng.randint(1, 60),
        "moe_intermediate_size": rng.randint(1, 60),
        "kv_lora_rank": rng.randint(1, 20),
        "q_lora_rank": rng.choice([None, rng.randint(1, 20)]),
        "qk_nope_head_dim": rng.randint(1, 12),
        "qk_rope_head_dim": 2 * rng.randint(1, 6),
        "v_head_dim": rng.randint(1, 12),
        "attention_bias": _flag(rng),
    }
    if _flag(rng):
        found["mlp_layer_types"] = rng.choices(["dense", "sparse"], k=layers)
    else:
        found["first_k_dense_replace"] = rng.randint(0, layers)
    kinds = _kinds(rng, layers)
    sizes = {"head_dim": rng.randint(1, 8), "num_heads": rng.randint(1, 6), "short_conv_kernel_size": rng.randint(2, 5)}
    if _flag(rng):
        return {**found, "layer_types": kinds, "linear_attn_config": sizes}
    full = [layer + 1 for layer, kind in enumerate(kinds) if kind == FULL]
    linear = [layer + 1 for layer, kind in enumerate(kinds) if kind == LINEAR]
    return {**found, "linear_attn_config": {**sizes, "full_attn_layers": full, "kda_layers": linear}}


def _llama4_text(rng: Random, config: Config) -> Config:
    del config
    layers = rng.randint(1, 6)
    found: Config = {
        **_experts(rng, "num_local_experts"),
        "num_hidden_layers": layers,
        "head_dim": 2 * rng.randint(1, 12),
        "intermediate_size": rng.randint(1, 60),
        "intermediate_size_mlp": rng.randint(1, 60),
        "attention_bias": _flag(rng),
        "attention_chunk_size": rng.choice([None, rng.randint(2, 64)]),
        "no_rope_layer_interval": rng.randint(1, 5),
    }
    if _flag(rng):
        found["no_rope_layers"] = rng.choice([[], rng.choices([0, 1], k=layers)])
    if _flag(rng):
        return found | {"moe_layers": rng.sample(range(layers), k=rng.randint(0, layers))}
    return found | {"interleave_moe_layer_step": rng.randint(1, 4)}


def _minimax(rng: Random, config: Config) -> Config:
    del config
    layers = rng.randint(1, 6)
    return {
        **_experts(rng, "num_local_experts"),
        "num_hidden_layers": layers,
        "layer_types": rng.choice([None, _kinds(rng, layers)]),
        "head_dim": rng.choice([None, 2 * rng.randint(1, 12)]),
        "intermediate_size": rng.randint(1, 60),
        "block_size": rng.randint(1, 20),
    }


def _minimax_m2(rng: Random, config: Config) -> Config:
    del config
    return {
        **_experts(rng, "num_local_experts"),
        "num_hidden_layers": rng.randint(1, 5),
        "head_dim": 2 * rng.randint(1, 12),
        "intermediate_size": rng.randint(1, 60),
    }


def _nemotron_h(rng: Random, config: Config) -> Config:
    del config
    groups, layers = rng.randint(1, 3), rng.randint(1, 6)
    found: Config = {
        "n_routed_experts": rng.randint(2, 9),  # its router ranks the best two of a group
        "num_experts_per_tok": rng.randint(1, 2),
        "head_dim": 2 * rng.randint(1, 12),
        "mlp_bias": _flag(rng),
        "use_bias": _flag(rng),
        "use_conv_bias": _flag(rng),
        "ssm_state_size": rng.randint(1, 12),
        "mamba_num_heads": groups * rng.randint(1, 4),
        "mamba_head_dim": rng.randint(1, 6),
        "n_groups": groups,
        "conv_kernel": rng.randint(2, 5),
        "chunk_size": rng.randint(2, 20),
        "intermediate_size": rng.randint(1, 60),
        "moe_intermediate_size": rng.randint(1, 60),
        "moe_shared_expert_intermediate_size": rng.randint(1, 60),
        "moe_latent_size": rng.choice([None, rng.randint(1, 30)]),
    }
    if _flag(rng):
        return found | {"hybrid_override_pattern": "".join(rng.choices("ME*-", k=layers)), "num_hidden_layers": layers}
    return found | {"layers_block_type": rng.choices([LINEAR, FULL, "mlp", "moe", "mamba"], k=layers)}


_FAMILY_FIELDS: Final[dict[str, Callable[[Random, Config], Config]]] = {
    "bamba": _bamba,
    "granitemoehybrid": _granitemoehybrid,
    "jamba": _jamba,
    "kimi_linear": _kimi_linear,
    "llama4_text": _llama4_text,
    "minimax": _minimax,
    "minimax_m2": _minimax_m2,
    "nemotron_h": _nemotron_h,
    "qwen3_5_moe_text": _qwen3_5_moe_text,
    "qwen3_5_text": _qwen3_5_text,
    "qwen3_next": _qwen3_next,
}
