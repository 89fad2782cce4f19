"""A random generator goes in; the bytes of a config.json that something happened to come out."""

from __future__ import annotations

import copy
import json
import math
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import meshwright
from meshwright.model.reader import FAMILIES

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

_DATA = Path(meshwright.__file__).parent / "model" / "data"
_FAMILIES = FAMILIES.names()
_OTHERS: tuple[dict[str, Any], ...] = (
    {
        "model_type": "mpt", "d_model": 64, "n_heads": 4, "n_layers": 2, "vocab_size": 100, "max_seq_len": 64,
        "expansion_ratio": 4, "no_bias": True, "attn_config": {"alibi": True, "attn_type": "multihead_attention"},
    },
    {
        "model_type": "falcon", "hidden_size": 96, "num_attention_heads": 12, "num_kv_heads": 4, "alibi": True,
        "new_decoder_architecture": True, "num_ln_in_parallel_attn": 1, "n_embed": None, "vocab_size": 100,
    },
    {
        "model_type": "decoder", "layers": 4, "hidden": 64, "ffn": 96, "heads": 8, "kv_heads": 2, "vocab": 1000,
        "gated": True, "tied": False, "bias": True, "norm": "layer", "positions": 512, "learned_positions": True,
        "experts": 4, "topk": 2, "moe_ffn": 24, "head_dim": None,
    },
)  # fmt: skip
_TREE_FIELDS = (
    "rope_scaling",
    "rope_parameters",
    "quantization_config",
    "compression_config",
    "text_config",
    "attn_config",
)
_ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 8, 100, 4096, 2**31, 2**53, 2**63, 2**64, 10**9, 10**12, 10**18, 10**30,
    10**400, -(10**12), 0.0, -0.0, 0.5, 1.5, 8.0, 1e9, 1e18, 1e308, -1e308, 5e-324, math.nan, math.inf, -math.inf,
    "", " ", "8", "8.0", "1e3", "null", "NaN", "eight", "bfloat16", "torch.float16", "float8_e4m3fn", "int4",
    "\U0001d7de", "हज़ार", "\u202e64", "\ud83d", "\x00", "a" * 5000, "[64]", "64 heads", [], [8], [8, 8], [[8]],
    [None], ["full_attention"], ["sliding_attention"] * 4, [0, 1, 2], [-1], [1e300], {}, {"a": 1}, {"value": 8},
    {"": {}}, {"hidden_size": 64},
)  # fmt: skip
_QUANTIZATIONS: tuple[Any, ...] = (
    {"quant_method": "fp8", "weight_block_size": [128, 128]},
    {"quant_method": "fp8", "weight_block_size": [1, 1]},
    {"quant_method": "fp8", "weight_block_size": [10**9, 1]},
    {"quant_method": "fp8", "weight_block_size": [0, 128]},
    {"quant_method": "fp8", "weight_block_size": [128]},
    {"quant_method": "fp8", "weight_block_size": [128.0, "128"]},
    {"quant_method": "fp8", "weight_block_size": None},
    {"quant_method": "gptq", "bits": 4, "group_size": -1, "dynamic": {"-:(": {}}},
    {"quant_method": "awq", "w_bit": 4, "q_group_size": 64, "modules_to_not_convert": ["[[", "*", "re:("]},
    {"quant_method": "bitsandbytes", "_load_in_4bit": True, "llm_int8_skip_modules": [], "bnb_4bit_quant_type": "nf4"},
    {"quant_method": "modelopt", "quantization": {"quant_algo": "NVFP4"}, "kv_cache_scheme": {"num_bits": 8}},
    {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": {"a": {"weights": {"num_bits": 4}}},
    },
    {"quant_method": "mxfp4", "modules_to_not_convert": "some"},
    {"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head"]},
    {"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": "lm_head"},
    {"quant_method": "fp8", "weight_block_size": [128, 128], "ignored_layers": [0, None]},
    {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "static"},
    {"quant_method": "fp8"},
    {"quant_method": "awq", "bits": 4, "group_size": 128},
    {"quant_method": "gptq", "bits": -4},
    {"quant_method": "compressed-tensors", "config_groups": {"group_0": {}}},
    {"quant_method": ["fp8"]},
    {"quant_method": None},
    {"quant_algo": "NVFP4"},
    {},
    [],
    "fp8",
    8,
)


def mutated(dice: random.Random) -> bytes:
    """A config of the catalog after one to four mishaps; every so often its text is damaged too."""
    config = copy.deepcopy(dice.choice(_catalog()))
    for _ in range(dice.choice((1, 1, 1, 1, 2, 2, 3))):
        mishap = dice.choice(_MISHAPS)
        config = mishap(config, dice)
    text = json.dumps(config, ensure_ascii=dice.random() < 0.9).encode("utf-8", "surrogatepass")
    return dice.choice(_DAMAGES)(text, dice) if dice.random() < 0.12 else text


@cache
def _catalog() -> list[dict[str, Any]]:
    entries = [tomllib.loads(file.read_text(encoding="utf-8")) for file in sorted(_DATA.glob("*.toml"))]
    shipped = [entry["config"] for entry in entries if "config" in entry]
    return [*shipped, *_OTHERS]


def _drop(config: Any, dice: random.Random) -> Any:
    place = _object(config, dice)
    if place:
        del place[dice.choice(sorted(place))]
    return config


def _rename(config: Any, dice: random.Random) -> Any:
    place = _object(config, dice)
    if place:
        key = dice.choice(sorted(place))
        new = dice.choice(
            (key.upper(), key + "s", key.replace("num_", "n_"), "", key[::-1], dice.choice(sorted(place)))
        )
        place[new] = place.pop(key)
    return config


def _replace(config: Any, dice: random.Random) -> Any:
    place = _object(config, dice)
    if place:
        place[dice.choice(sorted(place))] = copy.deepcopy(dice.choice(_ODD))
    return config


def _scale(config: Any, dice: random.Random) -> Any:
    """A number made somewhat, or absurdly, larger or smaller: still a number, so that it passes the first check."""
    place = _object(config, dice)
    numbers = [key for key, value in sorted(place.items()) if type(value) is int and value.bit_length() < 1000]
    if numbers:
        key = dice.choice(numbers)
        by = dice.choice((2, 3, 10, 1000, 10**6))
        place[key] = dice.choice((place[key] * by, place[key] // by, -place[key], place[key] + 1, float(place[key]), 0))
    return config


def _borrow(config: Any, dice: random.Random) -> Any:
    """Fields of another model, or another family's name over the same fields."""
    if dice.random() < 0.5:
        config["model_type"] = dice.choice((*_FAMILIES, "qwen3_text", "deepseek_v3", "../qwen3", "_common", ""))
        return config
    other = dice.choice(_catalog())
    key = dice.choice(sorted(other))
    return {**config, key: copy.deepcopy(other[key])}


def _quantize(config: Any, dice: random.Random) -> Any:
    name = dice.choice(("quantization_config", "quantization_config", "compression_config"))
    return {**config, name: copy.deepcopy(dice.choice(_QUANTIZATIONS))}


def _wrap(config: Any, dice: random.Random) -> Any:
    """As the text decoder of a larger model, rightly or not."""
    outer: dict[str, Any] = {"text_config": config}
    if dice.random() < 0.7:
        outer["model_type"] = dice.choice(("some_vl", "qwen3", None, 3, ["qwen3"]))
    if dice.random() < 0.5:
        outer["vision_config"] = dice.choice(({}, {"hidden_size": 1024}, None, 5))
    if dice.random() < 0.3:
        outer["tie_word_embeddings"] = dice.choice((True, "yes"))
    return outer


def _nest(config: Any, dice: random.Random) -> Any:
    """A value buried in lists or objects."""
    place = _object(config, dice)
    if place:
        key = dice.choice(sorted(place))
        for _ in range(dice.choice((1, 5, 60, 70, 300))):
            place[key] = {key: place[key]} if dice.random() < 0.5 else [place[key]]
    return config


def _describe_layers(config: Any, dice: random.Random) -> Any:
    kinds = ("full_attention", "sliding_attention", "linear_attention", "", None)
    layers = config.get("num_hidden_layers")
    count = layers if type(layers) is int and 0 < layers < 200 and dice.random() < 0.7 else dice.randrange(40)
    config["layer_types"] = [dice.choice(kinds[: dice.choice((1, 2, 2, 2, 5))]) for _ in range(count)]
    config["sliding_window"] = dice.choice((None, 0, 1, 128, 4096, 2**40, -1))
    config["use_sliding_window"] = dice.choice((True, False, "true"))
    return config


def _replace_all(config: Any, dice: random.Random) -> Any:
    """No object of fields at all."""
    return dice.choice(([], [config], "config", 3, None, {}, {"text_config": {}}, {"text_config": []}))


def _object(config: Any, dice: random.Random) -> dict[str, Any]:
    """The config, or at times an object inside it; empty when there is none."""
    if not isinstance(config, dict):
        return {}
    inner = [config[key] for key in _TREE_FIELDS if isinstance(config.get(key), dict)]
    return dice.choice(inner) if inner and dice.random() < 0.5 else config


def _on_objects(mishap: Callable[[Any, random.Random], Any]) -> Callable[[Any, random.Random], Any]:
    return lambda config, dice: mishap(config, dice) if isinstance(config, dict) else config


_MISHAPS = tuple(
    _on_objects(mishap)
    for mishap, weight in (
        (_drop, 4), (_rename, 2), (_replace, 8), (_scale, 6), (_borrow, 3), (_quantize, 3), (_wrap, 2), (_nest, 1),
        (_describe_layers, 2), (_replace_all, 1),
    )
    for _ in range(weight)
)  # fmt: skip

_DAMAGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    lambda text, dice: text[: dice.randrange(len(text))],
    lambda text, dice: text + dice.choice((b"}", b"{}", b"\n\n", b"\x00", b",", b"// end")),
    lambda text, dice: dice.randbytes(dice.randrange(2000)),
    lambda text, dice: text.replace(b":", b"=", 1),
    lambda text, dice: text.replace(b'"', b"'"),
    lambda text, dice: b"\xef\xbb\xbf" + text,
    lambda text, dice: text.decode("utf-8", "replace").encode("utf-16"),
    lambda text, dice: b"[" * 100_000,
    lambda text, dice: b'{"a":' * 5000 + b"1" + b"}" * 5000,
    lambda text, dice: text.replace(b"{", b'{"hidden_size": 64, ', 1),
    lambda text, dice: text[: (cut := dice.randrange(len(text)))] + dice.randbytes(3) + text[cut:],
    lambda text, dice: b'{"model_type": "qwen3", "hidden_size": ' + b"9" * 5000 + b"}",
    lambda text, dice: b"",
)
