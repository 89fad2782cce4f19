"""Stored bytes: plain formats, FP8 in blocks, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.base.errors import ModelError
from meshwright.model.formats import BF16, FP32, GGUF, fp8_block, plain_format, weight_format
from meshwright.model.model import format_bytes, last_weights, parameter_bytes
from meshwright.model.reader import read_config, read_model
from tests.unit.model.configs import LLAMA, QWEN3_MOE, refusal, without

FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [128, 128]}


def with_fp8(config, **changes):
    return {**config, "quantization_config": {**FP8, **changes}}


def test_a_started_block_has_a_whole_scale():
    stored = fp8_block(128, 128)
    assert stored.stored_bytes((128, 128)) == 128 * 128 + 4
    assert stored.stored_bytes((129, 128)) == 129 * 128 + 2 * 4
    assert stored.stored_bytes((200, 130)) == 200 * 130 + 4 * 4
    assert stored.stored_bytes((3, 129, 5)) == 3 * 129 * 5 + 3 * 2 * 4
    assert fp8_block(128, 128, scale_bytes=1).stored_bytes((200, 130)) == 200 * 130 + 4


def test_a_vector_has_no_scales():
    assert fp8_block(128, 128).stored_bytes((300,)) == 300


def test_bytes_of_columns_are_those_of_each_row():
    rows = np.array([1, 128, 129, 1000])
    for stored in (BF16, FP32, fp8_block(128, 64)):
        columns = stored.stored_bytes((3, rows, 130))
        assert columns.tolist() == [stored.stored_bytes((3, int(row), 130)) for row in rows]


def test_bytes_of_a_quantized_model_follow_by_hand():
    config = {**LLAMA, "hidden_size": 130, "intermediate_size": 200, "num_hidden_layers": 1, "num_attention_heads": 1}
    config |= {"num_key_value_heads": 1, "head_dim": 130}
    model = read_config(with_fp8(config), "model")
    attention, feed_forward = 4 * (130 * 130 + 4 * 4), 3 * (200 * 130 + 4 * 4)
    sizes = parameter_bytes(model)
    assert sizes["attention"] == attention
    assert sizes["feed_forward"] == feed_forward
    assert sizes["norms"] == 3 * 130 * 2
    assert sizes["embedding"] == sizes["head"] == 10 * 130 * 2
    assert format_bytes(model) == {"bf16": 2 * 2600 + 780, "fp8[128x128]": attention + feed_forward}
    assert sizes["total"] == sum(format_bytes(model).values())


def test_biases_and_the_router_of_a_quantized_model_stay_plain():
    model = read_config(with_fp8({**QWEN3_MOE, "attention_bias": True}), "model")
    sizes = parameter_bytes(model)
    assert sizes["router"] == 2 * 4 * 16 * 2
    biases = 16 + 8 + 8 + 16
    assert sizes["attention"] == 2 * (768 + 4 * 4 + 2 * biases)
    assert sizes["experts"] == 2 * 4 * 3 * (6 * 16 + 4)


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("bfloat16", "bf16"),
        ("torch.float16", "fp16"),
        ("float32", "fp32"),
        ("bf16", "bf16"),
        ("torch.bfloat16", "bf16"),
    ],
)
def test_a_dtype_is_known_by_its_names(word, name):
    assert plain_format(word).name == name
    assert read_config({**LLAMA, "torch_dtype": word}, "model").plain.name == name
    assert read_config({**without(LLAMA, "torch_dtype"), "dtype": word}, "model").kv.name == name


@pytest.mark.parametrize("word", ["", "auto", "float8_e4m3fn", "int8", "Bfloat16", "torch."])
def test_another_dtype_is_refused(word):
    assert refusal({**LLAMA, "torch_dtype": word}).code == "MOD020"


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"quant_method": "gptq", "bits": 4},
        {"quant_method": "quark"},
        {"quant_method": ["fp8"], "weight_block_size": [128, 128]},
        {"quant_method": "fp8"},
        {"quant_method": "fp8", "weight_block_size": [128]},
        {"quant_method": "fp8", "weight_block_size": [128, 0]},
        {"quant_method": "fp8", "weight_block_size": [128, True]},
        {"quant_method": "fp8", "weight_block_size": [10**30, 128]},
        {"quant_method": "fp8", "weight_block_size": "128x128"},
        {**FP8, "activation_scheme": "static"},
        {**FP8, "scale_fmt": "int8"},
        {**FP8, "expert_dtype": "fp4"},
        {**FP8, "modules_to_convert": ["embed_tokens"]},
        {**FP8, "dequantize": True},
    ],
)
@pytest.mark.parametrize("section", ["quantization_config", "compression_config"])
def test_a_quantization_that_is_not_known_is_refused_and_read_with_plain_weights(section, settings):
    config = {**LLAMA, section: settings}
    error = refusal(config)
    assert error.code == "MOD021"
    assert section in error.cause
    assert "--weights bf16" in error.fix
    assert read_config(config, "model", weights="bf16").weights == BF16


@pytest.mark.parametrize("name", ["modules_to_not_convert", "ignored_layers"])
def test_modules_that_are_plain_anyway_may_be_listed_as_such(name):
    listed = [
        "lm_head",
        "model.embed_tokens",
        "model.norm",
        "model.layers.0.input_layernorm",
        "model.layers.0.mlp.gate",
    ]
    listed += [
        "model.layers.1.self_attn.q_norm",
        "mlp.shared_expert_gate",
        "visual",
        "model.vision_tower.blocks.0.attn",
    ]
    model = read_config(with_fp8(LLAMA, **{name: listed}), "model")
    assert model.weights == fp8_block(128, 128)
    assert read_config(with_fp8(LLAMA, **{name: None}), "model") == model
    assert read_config(with_fp8(LLAMA, **{name: []}), "model") == model


@pytest.mark.parametrize("name", ["modules_to_not_convert", "ignored_layers"])
@pytest.mark.parametrize(
    "module",
    ["model.layers.0.self_attn.q_proj", "model.layers.1", "model.layers.0.mlp.experts.1", "", "re:.*"],
)
def test_a_matrix_that_some_layers_keep_plain_is_refused(name, module):
    error = refusal(with_fp8(LLAMA, **{name: ["lm_head", module]}))
    assert error.code == "MOD022"
    assert name in error.cause
    assert read_config(with_fp8(LLAMA, **{name: [module]}), "model", weights="bf16").weights == BF16


def test_modules_that_are_not_listed_but_described_get_a_note():
    model = read_config(with_fp8(LLAMA, modules_to_not_convert="<283 module names omitted>"), "model")
    assert model.weights == fp8_block(128, 128)
    assert any("modules_to_not_convert is text" in note for note in model.notes)


def test_scales_of_one_byte_are_read():
    model = read_config(with_fp8(LLAMA, scale_fmt="ue8m0"), "model")
    assert (model.weights.name, model.weights.scale_bytes) == ("fp8[128x128,e8m0]", 1)


def test_plain_weights_plan_the_unquantized_model_and_say_so():
    quantized, plain = "Qwen/Qwen3-30B-A3B-FP8", "Qwen/Qwen3-30B-A3B"
    assert parameter_bytes(read_model(quantized, weights="bf16")) == parameter_bytes(read_model(plain))
    assert read_model(quantized, weights="bf16").notes == ("--weights bf16: the config says 'fp8'",)
    assert read_model(quantized).notes[0].startswith("quantized: ")
    assert parameter_bytes(read_model(quantized))["total"] < parameter_bytes(read_model(plain))["total"]


def test_plain_weights_set_activations_and_the_cache_too():
    model = read_config({**LLAMA, "torch_dtype": "float16"}, "model", weights="fp32")
    assert {model.weights.name, model.plain.name, model.kv.name} == {"fp32"}
    assert model.notes == ("--weights fp32: the config says 'float16'",)


def test_plain_weights_that_the_config_says_anyway_need_no_note():
    assert read_config(LLAMA, "model", weights="bf16") == read_config(LLAMA, "model")
    assumed = read_config(without(LLAMA, "torch_dtype"), "model", weights="bf16")
    assert assumed.notes == ()
    assert assumed.defaulted == ()


def test_plain_weights_reach_a_nested_text_decoder():
    config = {"model_type": "some_vl", "quantization_config": {"quant_method": "awq"}, "text_config": LLAMA}
    assert read_config(config, "model", weights="fp16").weights.name == "fp16"


@pytest.mark.parametrize("word", ["", "fp4", "int3", "bfloat16", "BF16"])
def test_other_words_for_weights_are_refused(word):
    error = refusal(LLAMA, weights=word)
    assert error.code == "MOD020"
    assert error.fix.startswith(("did you mean", "known: bf16, fp16, fp32, fp8"))


def test_the_error_of_an_unknown_format_names_the_known_ones():
    with pytest.raises(ModelError, match="MOD020") as caught:
        plain_format("bfloat")
    assert "bfloat16" in caught.value.fix


_GGUF_BLOCKS = {
    "q4_0": (32, 18), "q4_1": (32, 20), "q5_0": (32, 22), "q5_1": (32, 24), "q8_0": (32, 34), "q2_k": (256, 84),
    "q3_k": (256, 110), "q4_k": (256, 144), "q5_k": (256, 176), "q6_k": (256, 210),
}  # fmt: skip
"""Elements and bytes of a block: GGML_QUANT_SIZES of the Python package gguf 0.19 (PyPI)."""


def test_every_type_of_gguf_has_the_blocks_of_its_library():
    assert set(_GGUF_BLOCKS) == set(GGUF)
    for name, (elements, size) in _GGUF_BLOCKS.items():
        stored = weight_format(name, BF16)
        assert stored.stored_bytes((3, elements)) == 3 * size
        assert stored.stored_bytes((7, 16 * elements)) == 7 * 16 * size


@pytest.mark.parametrize("tied", [False, True])
def test_gguf_covers_embedding_and_head_and_no_other_format_does(tied):
    wide = {"hidden_size": 64, "intermediate_size": 96, "head_dim": 16, "vocab_size": 32}
    config = {**LLAMA, **wide, "tie_word_embeddings": tied}
    plain, packed, other = (parameter_bytes(read_config(config, "x", weights=name)) for name in (None, "q8_0", "fp8"))
    for part in ("attention", "feed_forward", "embedding", "head"):
        assert packed[part] * 64 == plain[part] * 34, part
    assert packed["norms"] == plain["norms"]
    assert (other["embedding"], other["head"]) == (plain["embedding"], plain["head"])


def test_a_tied_head_is_read_in_the_format_of_the_table():
    model = read_config({**LLAMA, "tie_word_embeddings": True}, "x", weights="q4_0")
    assert {model.format_of(tensor).name for tensor in last_weights(model) if "lm_head" in tensor.name} == {"q4_0"}
