"""Which parts a quantization covers, from the lists of modules that real checkpoints hold."""

from __future__ import annotations

import pytest

from meshwright.model.model import block_weights, parameter_bytes
from meshwright.model.reader import read_config
from tests.unit.model.configs import LLAMA, QWEN3_MOE, refusal

MIXTRAL = {**LLAMA, "model_type": "mixtral", "num_local_experts": 3, "num_experts_per_tok": 1}
ROUTERS = [f"model.layers.{layer}.mlp.gate" for layer in range(2)]
EACH_EXPERT = [
    f"model.layers.{layer}.mlp.experts.{expert}.{name}_proj"
    for layer in range(2)
    for expert in range(4)
    for name in ("gate", "up", "down")
]


def settings(**lists):
    weights = {"num_bits": 8, "type": "int", "strategy": "channel"}
    scheme = {"targets": lists.pop("targets", ["Linear"]), "weights": weights}
    found = {"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {"group_0": scheme}}
    return {**found, **lists}


def parts(config, **lists):
    return set(read_config({**config, "quantization_config": settings(**lists)}, "model").quantized_parts)


@pytest.mark.parametrize(
    ("config", "ignored", "plain"),
    [
        (LLAMA, ["lm_head"], {"head"}),
        (LLAMA, [], set()),
        (LLAMA, None, {"head", "router"}),
        (LLAMA, ["lm_head", "re:.*self_attn.*"], {"head", "attention"}),
        (LLAMA, ["re:.*lm_head", "re:.*mlp\\..*"], {"head", "feed_forward", "router"}),
        (QWEN3_MOE, ["lm_head", "re:.*mlp.gate$"], {"head", "router"}),
        (QWEN3_MOE, ["lm_head", *ROUTERS], {"head", "router"}),
        (QWEN3_MOE, ["lm_head"], {"head"}),
        (QWEN3_MOE, ["lm_head", *ROUTERS, *EACH_EXPERT], {"head", "router", "experts"}),
        (QWEN3_MOE, ["*lm_head", "model.layers.*.self_attn*", "*mlp.gate"], {"head", "attention", "router"}),
        (QWEN3_MOE, ["lm_head", "mlp.gate", "model.layers.9.eh_proj", "mtp.fc"], {"head", "router"}),
        (MIXTRAL, ["lm_head", "re:.*block_sparse_moe.gate"], {"head", "router"}),
        (MIXTRAL, ["lm_head", "gate"], {"head", "router"}),
        (MIXTRAL, ["lm_head", "gate", "re:.*experts.*.w[123]$"], {"head", "router", "experts"}),
        (LLAMA, ["lm_head", "visual.blocks.0.attn.qkv", "vision_tower.encoder.layers.0.self_attn.q_proj"], {"head"}),
        (LLAMA, ["language_model.lm_head", "language_model.model.layers.0.self_attn.q_norm"], {"head"}),
    ],
)
def test_parts_that_a_list_keeps_plain_are_plain(config, ignored, plain):
    kinds = {"attention", "head", *(("feed_forward",) if config is LLAMA else ("experts", "router"))}
    assert parts(config, ignore=ignored) == kinds - plain


def test_a_list_of_targets_covers_them_alone():
    assert parts(QWEN3_MOE, targets=["re:.*mlp.experts.*"], ignore=["lm_head"]) == {"experts"}


def test_what_is_covered_is_stored_so_and_the_rest_is_plain():
    covered = read_config({**LLAMA, "quantization_config": settings(ignore=["re:.*self_attn.*"])}, "model")
    sizes = parameter_bytes(covered)
    assert sizes["attention"] == 2 * 2 * (16 * 16 + 8 * 16 * 2 + 16 * 16)
    assert sizes["feed_forward"] == 2 * (3 * 24 * 16 + 2 * (24 + 24 + 16))
    assert sizes["head"] == 10 * 16 + 2 * 10
    assert sizes["embedding"] == 2 * 10 * 16


def test_a_tied_head_is_stored_as_the_embedding():
    model = read_config({**LLAMA, "tie_word_embeddings": True, "quantization_config": settings(ignore=[])}, "model")
    assert "head" not in model.quantized_parts
    assert parameter_bytes(model)["head"] == 0


_HYBRID = {
    "model_type": "qwen3_next", "vocab_size": 16, "hidden_size": 16, "num_hidden_layers": 4, "head_dim": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "linear_key_head_dim": 4, "linear_value_head_dim": 4, "num_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 8, "shared_expert_intermediate_size": 8, "intermediate_size": 8,
}  # fmt: skip
_PLAIN_IN_FP8 = [
    *("lm_head", "mtp.fc", "mtp.layers.0.mlp.gate"),
    *(f"model.layers.{layer}.mlp.{name}" for layer in range(4) for name in ("gate", "shared_expert_gate")),
    *(f"model.layers.{layer}.linear_attn.{name}" for layer in range(3) for name in ("in_proj_ba", "conv1d", "A_log")),
]
"""As Qwen3-Next-80B-A3B-FP8 lists it, layer by layer."""


@pytest.mark.parametrize(
    ("config", "ignored", "modules"),
    [
        (LLAMA, ["lm_head", "self_attn.o_proj"], ("self_attn.o_proj",)),
        (LLAMA, ["lm_head", "mlp.down_proj", "re:.*k_proj"], ("self_attn.k_proj", "mlp.down_proj")),
        (_HYBRID, [*_PLAIN_IN_FP8, "re:.*linear_attn.*"], ("linear_attn",)),
        (_HYBRID, [*_PLAIN_IN_FP8, "re:.*shared_expert[.].*"], ("mlp.shared_expert",)),
        (_HYBRID, _PLAIN_IN_FP8, ()),
    ],
)
def test_modules_that_every_layer_keeps_plain_are_plain_and_the_rest_of_their_part_is_not(config, ignored, modules):
    model = read_config({**config, "quantization_config": settings(ignore=ignored)}, "model")
    assert model.plain_modules == modules
    assert set(model.quantized_parts) >= {"attention"}
    for kind in range(len(model.kinds)):
        for tensor in block_weights(model, kind):
            kept = any(tensor.name.startswith(f"{module}.") for module in modules)
            if tensor.quantized and tensor.part in model.quantized_parts:
                assert (model.format_of(tensor) == model.plain) is kept, tensor.name


@pytest.mark.parametrize(
    ("config", "ignored"),
    [
        (LLAMA, ["model.layers.0.self_attn"]),
        (LLAMA, ["re:.*layers.1.mlp.*"]),
        (LLAMA, ["model.layers.0.attention.wq"]),
        (LLAMA, ["LlamaAttention"]),
        (LLAMA, ["re:("]),
        (LLAMA, ["re:.*", "lm_head"]),
        (QWEN3_MOE, ["model.layers.0.mlp.experts.1"]),
        (QWEN3_MOE, ["re:.*experts.0.*"]),
        (QWEN3_MOE, [*ROUTERS, *EACH_EXPERT[:-1]]),
    ],
)
def test_lists_that_split_a_part_or_name_what_is_unknown_are_refused(config, ignored):
    error = refusal({**config, "quantization_config": settings(ignore=ignored)})
    assert error.code == "MOD022"
    assert "ignore" in error.cause
    assert "--weights bf16" in error.fix


def test_a_pattern_that_names_nothing_here_is_said():
    model = read_config(
        {**LLAMA, "quantization_config": settings(ignore=["lm_head", "re:.*indexer.*", "[[odd"])}, "model"
    )
    for entry in ("re:.*indexer.*", "[[odd"):
        assert f"quantization_config: {entry} names no matrix that is read here" in model.notes


def test_modules_that_gptq_skips_are_plain_and_others_of_their_own_bits_are_refused():
    gptq = {"quant_method": "gptq", "bits": 4, "group_size": 32, "dynamic": {"-:.*self_attn.*": {}}}
    model = read_config({**LLAMA, "quantization_config": gptq}, "model")
    assert model.quantized_parts == ("feed_forward",)
    other = {**gptq, "dynamic": {"+:.*down_proj.*": {"bits": 8}}}
    assert refusal({**LLAMA, "quantization_config": other}).code == "MOD022"
