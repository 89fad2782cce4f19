"""Families with field names of their own: full configs, random ones, and the part that each parameter belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

Config = dict[str, Any]

PART_OF_NAME: Final = {
    r"transformer\.(wte|wpe|word_embeddings)\.weight": "embedding",
    r"gpt_neox\.embed_in\.weight": "embedding",
    r"(model\.)?decoder\.embed_(tokens|positions)\.weight": "embedding",
    r"(model\.)?decoder\.project_(in|out)\.weight": "other",
    r"transformer\.(ln_f|norm_f|word_embeddings_layernorm)\.(weight|bias)": "norms",
    r"gpt_neox\.final_layer_norm\.(weight|bias)": "norms",
    r"(model\.)?decoder\.final_layer_norm\.(weight|bias)": "norms",
    r"transformer\.(h|blocks)\.\d+\.(ln_1|ln_2|norm_1|norm_2|ln_attn|ln_mlp)\.(weight|bias)": "norms",
    r"(transformer\.h|gpt_neox\.layers)\.\d+\.(input|post_attention)_layernorm\.(weight|bias)": "norms",
    r"(model\.)?decoder\.layers\.\d+\.(self_attn|final)_layer_norm\.(weight|bias)": "norms",
    r"transformer\.(h|blocks)\.\d+\.attn\.(c_attn|c_proj|Wqkv|out_proj)\.(weight|bias)": "attention",
    r"transformer\.h\.\d+\.self_attention\.(query_key_value|dense)\.(weight|bias)": "attention",
    r"gpt_neox\.layers\.\d+\.attention\.(query_key_value|dense)\.(weight|bias)": "attention",
    r"(model\.)?decoder\.layers\.\d+\.self_attn\.(q|k|v|out)_proj\.(weight|bias)": "attention",
    r"transformer\.(h|blocks)\.\d+\.ffn\.(up_proj|down_proj)\.weight": "feed_forward",
    r"transformer\.h\.\d+\.mlp\.(c_fc|c_proj|dense_h_to_4h|dense_4h_to_h)\.(weight|bias)": "feed_forward",
    r"gpt_neox\.layers\.\d+\.mlp\.(dense_h_to_4h|dense_4h_to_h)\.(weight|bias)": "feed_forward",
    r"(model\.)?decoder\.layers\.\d+\.fc[12]\.(weight|bias)": "feed_forward",
}

# Sizes that the class defaults of the other fields go with, so that each field can be left out in turn.
FULL_CONFIGS: Final[dict[str, Config]] = {
    "bloom": {"vocab_size": 160, "hidden_size": 96, "n_layer": 3, "n_head": 16, "tie_word_embeddings": False},
    "falcon": {
        "vocab_size": 160,
        "hidden_size": 568,
        "num_hidden_layers": 3,
        "num_attention_heads": 142,
        "num_kv_heads": 71,
        "new_decoder_architecture": True,
        "multi_query": True,
        "parallel_attn": False,
        "num_ln_in_parallel_attn": 1,
        "alibi": True,
        "bias": True,
        "ffn_hidden_size": 100,
        "max_position_embeddings": 512,
        "tie_word_embeddings": False,
    },
    "gpt2": {
        "vocab_size": 160,
        "n_embd": 96,
        "n_layer": 3,
        "n_head": 6,
        "n_inner": 100,
        "n_positions": 512,
        "add_cross_attention": False,
        "tie_word_embeddings": False,
    },
    "gpt_neox": {
        "vocab_size": 160,
        "hidden_size": 192,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "intermediate_size": 100,
        "attention_bias": False,
        "max_position_embeddings": 512,
        "tie_word_embeddings": True,
    },
    "mpt": {
        "vocab_size": 160,
        "d_model": 128,
        "n_layers": 3,
        "n_heads": 8,
        "max_seq_len": 512,
        "tie_word_embeddings": False,
    },
    "opt": {
        "vocab_size": 160,
        "hidden_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "ffn_dim": 100,
        "max_position_embeddings": 512,
        "do_layer_norm_before": False,
        "word_embed_proj_dim": 40,
        "enable_bias": False,
        "layer_norm_elementwise_affine": False,
        "tie_word_embeddings": False,
    },
}
FAMILIES: Final = tuple(FULL_CONFIGS)


def random_config(family: str, rng: Random) -> Config:
    """A small config that `transformers` builds and runs, under its own names of fields or their aliases."""
    config = {
        "model_type": family,
        "architectures": ["ForCausalLM"],
        "vocab_size": rng.randint(8, 300),
        "tie_word_embeddings": rng.random() < 0.5,
        **_FAMILY_FIELDS[family](rng),
    }
    return {_alias(family, name, rng): value for name, value in config.items()}


def _falcon(rng: Random) -> Config:
    newer, parallel = rng.random() < 0.5, rng.random() < 0.7
    kv_heads = rng.randint(1, 6)
    heads = kv_heads * rng.choice([1, 2, 3, 7]) if newer else rng.choice([kv_heads, 71])
    alibi = rng.random() < 0.4
    # An odd width is for ALiBi alone, and above 4 this class refuses it there too.
    hidden = heads * rng.choice([1, 3, 2, 4, 8] if alibi else [2, 4, 6, 8, 10])
    config: Config = {
        "hidden_size": hidden,
        "num_hidden_layers": rng.randint(1, 5),
        "num_attention_heads": heads,
        "new_decoder_architecture": newer,
        "multi_query": rng.random() < 0.6,
        "parallel_attn": newer or parallel,  # the newer decoder runs in no other way
        "alibi": alibi,
        "bias": rng.random() < 0.5,
        "ffn_hidden_size": rng.choice([None, rng.randint(1, 150)]),
        "max_position_embeddings": rng.randint(16, 4096),
    }
    if newer:
        config["num_kv_heads"] = rng.choice([kv_heads, kv_heads, None])
        config["num_ln_in_parallel_attn"] = rng.choice([None, 1, 2])
    if rng.random() < 0.2:
        config |= {"hidden_size": 4544, "n_embed": hidden}
    return config


def _gpt2(rng: Random) -> Config:
    heads = rng.randint(1, 25)
    return {
        "n_embd": heads * rng.randint(1, 12),
        "n_layer": rng.randint(1, 5),
        "n_head": heads,
        "n_inner": rng.choice([None, rng.randint(1, 150)]),
        "n_positions": rng.randint(16, 4096),
    }


def _gpt_neox(rng: Random) -> Config:
    heads = rng.randint(1, 13)
    config: Config = {
        "hidden_size": heads * rng.randint(3, 16),
        "num_hidden_layers": rng.randint(1, 5),
        "num_attention_heads": heads,
        "intermediate_size": rng.randint(1, 150),
        "attention_bias": rng.random() < 0.5,
        "use_parallel_residual": rng.random() < 0.5,
        "max_position_embeddings": rng.randint(16, 4096),
    }
    return config | rng.choice([{}, {"rotary_pct": 0.5}, {"rope_parameters": {"partial_rotary_factor": 0.4}}])


def _mpt(rng: Random) -> Config:
    heads = rng.randint(1, 13)
    config: Config = {
        "d_model": heads * rng.randint(1, 12),
        "n_heads": heads,
        "n_layers": rng.randint(1, 5),
        "max_seq_len": rng.randint(64, 4096),
        "no_bias": rng.random() < 0.5,
        "learned_pos_emb": rng.random() < 0.5,
        "expansion_ratio": rng.choice([4, 4, 2, 8]),
    }
    attention = {"alibi": rng.random() < 0.5, "qk_ln": rng.random() < 0.5, "attn_type": "multiquery_attention"}
    return config | rng.choice([{}, {"attn_config": None}, {"attn_config": attention}])


def _bloom(rng: Random) -> Config:
    heads = rng.randint(1, 13)
    hidden = heads * rng.randint(1, 12)
    config: Config = {"hidden_size": hidden, "n_layer": rng.randint(1, 5), "n_head": heads}
    if rng.random() < 0.3:
        config["seq_length"] = rng.randint(16, 4096)
    return config | rng.choice([{}, {"n_embed": None}, {"n_embed": hidden, "hidden_size": 77}])


def _opt(rng: Random) -> Config:
    heads = rng.randint(1, 13)
    hidden = heads * rng.randint(1, 12)
    config: Config = {
        "hidden_size": hidden,
        "num_hidden_layers": rng.randint(1, 5),
        "num_attention_heads": heads,
        "ffn_dim": rng.randint(1, 150),
        "max_position_embeddings": rng.randint(16, 4096),
        "do_layer_norm_before": rng.random() < 0.6,
        "word_embed_proj_dim": rng.choice([None, hidden, rng.randint(1, 90)]),
        "enable_bias": rng.random() < 0.5,
        "layer_norm_elementwise_affine": rng.random() < 0.6,
    }
    return config | rng.choice([{}, {}, {"_remove_final_layer_norm": True}])


_FAMILY_FIELDS: Final[dict[str, Callable[[Random], Config]]] = {
    "bloom": _bloom,
    "falcon": _falcon,
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "mpt": _mpt,
    "opt": _opt,
}
ALIASES: Final = {
    "bloom": {"n_layer": "num_hidden_layers", "n_head": "num_attention_heads"},
    "gpt2": {
        "n_embd": "hidden_size",
        "n_layer": "num_hidden_layers",
        "n_head": "num_attention_heads",
        "n_positions": "max_position_embeddings",
    },
    "mpt": {"d_model": "hidden_size", "n_layers": "num_hidden_layers", "n_heads": "num_attention_heads"},
}


def _alias(family: str, name: str, rng: Random) -> str:
    alias = ALIASES.get(family, {}).get(name)
    return alias if alias is not None and rng.random() < 0.3 else name
