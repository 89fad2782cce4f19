"""What each quantization method stores, against the tensors that its checkpoints hold, written out by hand.

The tensors of a matrix [out, in] are given as (elements, bytes of one), by the names in the checkpoint.
"""

from __future__ import annotations

from math import ceil

import pytest

from meshwright.model.formats import WHOLE
from meshwright.model.model import format_bytes, parameter_bytes
from meshwright.model.reader import read_config
from tests.unit.model.configs import LLAMA, QWEN3_MOE, refusal

WIDE = {**LLAMA, "hidden_size": 256, "intermediate_size": 352, "num_hidden_layers": 1, "num_attention_heads": 2}
WIDE |= {"num_key_value_heads": 1, "head_dim": 128}
ATTENTION = [(256, 256), (128, 256), (128, 256), (256, 256)]
FEED_FORWARD = [(352, 256), (352, 256), (256, 352)]


def gptq(bits, group):
    def tensors(rows, columns):
        groups = ceil(columns / group)
        return {
            "qweight": (columns * bits // 32 * rows, 4),
            "qzeros": (groups * ceil(rows * bits / 32), 4),
            "scales": (groups * rows, 2),
            "g_idx": (columns, 4),
        }

    return tensors


def awq(rows, columns):
    groups = ceil(columns / 128)
    return {
        "qweight": (columns * rows // 8, 4),
        "qzeros": (groups * rows // 8, 4),
        "scales": (groups * rows, 2),
    }


def bnb_int8(rows, columns):
    return {"weight": (rows * columns, 1), "SCB": (rows, 4), "weight_format": (1, 1)}


def bnb_4bit(rows, columns):
    blocks = ceil(rows * columns / 64)
    return {"weight": (ceil(rows * columns / 2), 1), "absmax": (blocks, 4), "quant_map": (16, 4)}


def bnb_double(rows, columns):
    blocks = ceil(rows * columns / 64)
    nested = {"nested_absmax": (ceil(blocks / 256), 4), "nested_quant_map": (256, 4)}
    return {**bnb_4bit(rows, columns), "absmax": (blocks, 1), **nested}


def packed(rows, columns):
    groups = ceil(columns / 128)
    words = {"weight_packed": (rows * ceil(columns / 8), 4), "weight_shape": (2, 8)}
    return {**words, "weight_scale": (rows * groups, 2)}


def packed_uneven(rows, columns):
    groups = ceil(columns / 128)
    zeros = {"weight_zero_point": (ceil(rows / 8) * groups, 4), "weight_g_idx": (columns, 4)}
    return {**packed(rows, columns), **zeros}


def int8_channels(rows, columns):
    return {"weight": (rows * columns, 1), "weight_scale": (rows, 2)}


def fp8_channels(rows, columns):
    return {"weight": (rows * columns, 1), "weight_scale": (rows, 2)}


def fp8_static(rows, columns):
    return {"weight": (rows * columns, 1), "weight_scale": (1, 2), "input_scale": (1, 2)}


def fp8_scalars(rows, columns):
    return {"weight": (rows * columns, 1), "weight_scale": (1, 4), "input_scale": (1, 4)}


def fbgemm(rows, columns):
    return {"weight": (rows * columns, 1), "weight_scale": (rows, 4)}


def nvfp4(rows, columns):
    singles = {"weight_scale_2": (1, 4), "input_scale": (1, 4)}
    return {"weight": (rows * columns // 2, 1), "weight_scale": (rows * ceil(columns / 16), 1), **singles}


def nvfp4_weights(rows, columns):
    return {key: value for key, value in nvfp4(rows, columns).items() if key != "input_scale"}


def ct(layout, weights, activations=None, **more):
    scheme = {"targets": ["Linear"], "weights": weights, "input_activations": activations}
    settings = {"quant_method": "compressed-tensors", "format": layout, "config_groups": {"group_0": scheme}}
    return {**settings, "ignore": ["lm_head"], **more}


INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True, "actorder": None}
INT8 = {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True}
FLOAT8 = {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True}
FLOAT4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "symmetric": True}
TOKENS = {"dynamic": True, "strategy": "token", "symmetric": True, "num_bits": 8}
NF4 = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True, "sym": True}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}

CASES = {
    "gptq-4": (GPTQ, gptq(4, 128), "int4[1x128,gptq]", "bf16"),
    "gptq-8-channel": ({**GPTQ, "bits": 8, "group_size": -1}, gptq(8, WHOLE), "int8[channel,gptq]", "bf16"),
    "gptq-3": ({**GPTQ, "bits": 3, "group_size": 32}, gptq(3, 32), "int3[1x32,gptq]", "bf16"),
    "awq": (AWQ, awq, "int4[1x128,awq]", "bf16"),
    "bnb-int8": ({"quant_method": "bitsandbytes", "load_in_8bit": True}, bnb_int8, "int8[channel]", "int8"),
    "bnb-nf4": (NF4, bnb_4bit, "nf4[64]", "bf16"),
    "bnb-nf4-double": ({**NF4, "bnb_4bit_use_double_quant": True}, bnb_double, "nf4[64]", "bf16"),
    "w4a16": (ct("pack-quantized", INT4), packed, "int4[1x128]", "bf16"),
    "w4a16-uneven": (
        ct("pack-quantized", {**INT4, "symmetric": False, "actorder": "group"}),
        packed_uneven,
        "int4[1x128]",
        "bf16",
    ),
    "w8a8": (ct("int-quantized", INT8, {**TOKENS, "type": "int"}), int8_channels, "int8[channel]", "int8"),
    "w8a16": (ct("int-quantized", INT8), int8_channels, "int8[channel]", "bf16"),
    "fp8-dynamic": (ct("float-quantized", FLOAT8, {**TOKENS, "type": "float"}), fp8_channels, "fp8[channel]", "fp8"),
    "fp8-static": (
        ct(
            "float-quantized",
            {**FLOAT8, "strategy": "tensor"},
            {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False},
        ),
        fp8_static,
        "fp8[tensor]",
        "fp8",
    ),
    "nvfp4": (
        ct("nvfp4-pack-quantized", FLOAT4, {**FLOAT4, "dynamic": "local"}),
        nvfp4,
        "nvfp4",
        "fp4",
    ),
    "nvfp4a16": (ct("nvfp4-pack-quantized", FLOAT4), nvfp4_weights, "nvfp4", "bf16"),
    "modelopt-fp8": ({"quant_method": "modelopt", "quant_algo": "FP8"}, fp8_scalars, "fp8[tensor]", "fp8"),
    "modelopt-nvfp4": (
        {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]},
        nvfp4,
        "nvfp4",
        "fp4",
    ),
    "fbgemm": ({"quant_method": "fbgemm_fp8"}, fbgemm, "fp8[channel]", "fp8"),
    "autofp8": ({"quant_method": "fp8", "activation_scheme": "static"}, fp8_scalars, "fp8[tensor]", "fp8"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_method_stores_the_tensors_of_its_checkpoints(case):
    settings, tensors, name, compute = CASES[case]
    model = read_config({**WIDE, "quantization_config": settings}, "model")
    sizes = parameter_bytes(model)

    def by_hand(matrices):
        return sum(count * size for shape in matrices for count, size in tensors(*shape).values())

    assert (model.weights.name, model.weights.compute) == (name, compute)
    assert sizes["attention"] == by_hand(ATTENTION)
    assert sizes["feed_forward"] == by_hand(FEED_FORWARD)
    assert sizes["head"] == sizes["embedding"] == 10 * 256 * 2
    assert format_bytes(model)[name] == by_hand(ATTENTION + FEED_FORWARD)


def test_every_expert_has_its_own_scales_and_tables():
    one = read_config({**QWEN3_MOE, "quantization_config": {**NF4, "bnb_4bit_use_double_quant": True}}, "model")
    expert = sum(count * size for shape in [(6, 16), (6, 16), (16, 6)] for count, size in bnb_double(*shape).values())
    assert parameter_bytes(one)["experts"] == 2 * 4 * expert


def test_mxfp4_stores_the_experts_alone():
    """As gpt-oss: modules_to_not_convert lists attention, router, embedding and head. Groups lie along the inputs."""
    listed = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
    settings = {"quant_method": "mxfp4", "modules_to_not_convert": listed}
    config = {**QWEN3_MOE, "hidden_size": 96, "moe_intermediate_size": 64, "num_hidden_layers": 1}
    model = read_config({**config, "quantization_config": settings}, "model")
    assert model.quantized_parts == ("experts",)
    assert model.weights.compute == "bf16"
    blocks = 2 * 64 * 96 // 32 + 96 * 64 // 32
    assert parameter_bytes(model)["experts"] == 4 * blocks * (16 + 1)
    assert parameter_bytes(model)["attention"] == 2 * (16 * 96 + 8 * 96 * 2 + 96 * 16)
    described = {**settings, "modules_to_not_convert": "<4 module names omitted>"}
    assert read_config({**config, "quantization_config": described}, "model").quantized_parts == ("experts",)


@pytest.mark.parametrize(
    "settings",
    [
        {**GPTQ, "bits": 5},
        {**GPTQ, "group_size": 0},
        {**GPTQ, "group_size": None},
        {**GPTQ, "pack_dtype": "int16"},
        {**GPTQ, "checkpoint_format": "marlin"},
        {**AWQ, "version": "gemv"},
        {**AWQ, "bits": 8},
        {"quant_method": "bitsandbytes"},
        {**NF4, "bnb_4bit_quant_type": "int4"},
        {"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"},
        {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 32},
        {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "NVFP4"},
        {"quant_method": "compressed-tensors"},
        ct("marlin-24", INT4),
        ct("dense", INT8),
        ct("pack-quantized", {**INT4, "strategy": "tensor"}),
        ct("pack-quantized", {**INT4, "actorder": "dynamic"}),
        ct("pack-quantized", {**INT4, "num_bits": 3}),
        ct("int-quantized", {**INT8, "scale_dtype": "torch.uint8"}),
        ct("int-quantized", INT8, {"num_bits": 4, "type": "int"}),
        ct("float-quantized", {**FLOAT8, "strategy": "block", "block_structure": [128]}),
        ct("int-quantized", INT8, sparsity_config={"format": "sparse-24-bitmask"}),
        ct("int-quantized", INT8, kv_cache_scheme={"num_bits": 8, "type": "int"}),
        ct("int-quantized", INT8, config_groups={"a": None}),
        ct(
            "int-quantized",
            INT8,
            config_groups={"a": {"targets": ["Linear"], "weights": INT8}, "b": {"weights": {**INT8, "strategy": None}}},
        ),
    ],
)
def test_settings_whose_storage_is_not_known_are_refused(settings):
    error = refusal({**LLAMA, "quantization_config": settings})
    assert error.code == "MOD021"
    assert "quantization_config" in error.cause


def test_a_stated_cache_format_is_read_unless_one_is_chosen():
    scheme = {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False, "symmetric": True}
    stated = [
        ct("int-quantized", INT8, kv_cache_scheme=scheme),
        {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"},
    ]
    for settings in stated:
        config = {**LLAMA, "quantization_config": settings}
        assert read_config(config, "model").kv.name == "fp8"
        assert any(note.startswith("KV cache in fp8") for note in read_config(config, "model").notes)
        assert read_config(config, "model", kv="bf16").kv.name == "bf16"
    odd = {**stated[1], "kv_cache_quant_algo": "NVFP4"}
    assert read_config({**LLAMA, "quantization_config": odd}, "model", kv="int8").kv.name == "int8"
