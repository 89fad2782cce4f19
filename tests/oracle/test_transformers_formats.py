"""Stored bytes of quantized and plain models, against the modules that `transformers` puts in their place."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from transformers import FineGrainedFP8Config
from transformers.integrations.fbgemm_fp8 import FbgemmFp8Linear
from transformers.integrations.finegrained_fp8 import replace_with_fp8_linear
from transformers.integrations.mxfp4 import Mxfp4GptOssExperts, convert_moe_packed_tensors
from transformers.quantizers.base import get_keys_to_not_convert

from meshwright.model.feed_forwards import Experts
from meshwright.model.formats import mxfp4
from meshwright.model.model import format_bytes, parameter_bytes
from meshwright.model.reader import read_config
from tests.oracle.transformers_models import FAMILIES, FULL_CONFIGS, build, random_config, seeded, stored_bytes


def quantized(config, settings, kept=()):
    model = build(config, dtype=torch.bfloat16)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)  # as `from_pretrained` does: biases take it
    try:
        return replace_with_fp8_linear(
            model,
            modules_to_not_convert=[*get_keys_to_not_convert(model), *kept],
            quantization_config=FineGrainedFP8Config(**settings),
            pre_quantized=True,
        )
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_plain_model_stores_what_its_class_stores(family, dtype):
    config = {"model_type": family, **FULL_CONFIGS[family]}
    expected = stored_bytes(build(config, dtype=getattr(torch, dtype)))
    assert parameter_bytes(read_config({**config, "torch_dtype": dtype}, "model"))["total"] == expected
    short = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}[dtype]
    assert parameter_bytes(read_config(config, "model", weights=short))["total"] == expected


@pytest.mark.parametrize("scale_fmt", ["float", "ue8m0"])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "gpt_oss"])  # its experts have biases
def test_a_block_quantized_model_stores_what_its_class_stores(family, seed, scale_fmt):
    rng = seeded("fp8", family, seed)
    config = {**random_config(family, rng), "torch_dtype": "bfloat16", "attention_bias": False, "mlp_bias": False}
    rows, columns = rng.randint(1, 40), rng.randint(1, 40)
    # Their experts hold gate and up in one matrix: its blocks are those of the stored two only when these are whole.
    config["moe_intermediate_size"] = rows * rng.randint(1, 3)
    if family == "mixtral":
        config["intermediate_size"] = config.pop("moe_intermediate_size")
    if family == "phi3":  # nor do blocks of its one matrix for q, k and v
        config |= {"head_dim": 2 * rows, "intermediate_size": config["moe_intermediate_size"]}
    settings = {"quant_method": "fp8", "weight_block_size": [rows, columns], "scale_fmt": scale_fmt}
    # Without a list checkpoints keep this gate plain, as engines do; the class converts it unless it is listed.
    theirs = quantized(config, settings, ["shared_expert_gate"] if family == "qwen2_moe" else ())
    mine = read_config({**config, "quantization_config": settings}, "model")
    assert parameter_bytes(mine)["total"] == stored_bytes(theirs)
    routers = sum(p.numel() * p.element_size() for n, p in theirs.named_parameters() if n.endswith("mlp.gate.weight"))
    kept = {"fp32": routers} if family == "glm4_moe" and routers else {}
    assert {name: size for name, size in format_bytes(mine).items() if name == "fp32"} == kept
    assert set(format_bytes(mine)) == {mine.weights.name, "bf16", *kept}
    eight_bits = sum(p.numel() for p in theirs.parameters() if p.dtype == torch.float8_e4m3fn)
    scales = sum(p.numel() * p.element_size() for n, p in theirs.named_parameters() if n.endswith("scale_inv"))
    assert format_bytes(mine)[mine.weights.name] == eight_bits + scales


# Their experts have biases (gpt_oss), or their q, k and v, gate and up are one matrix each, with one scale (phi3).
@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in {"gpt_oss", "phi3"}])
def test_a_model_with_one_scale_a_matrix_stores_what_its_class_stores(family):
    """Their fused gate and up keeps two scales; activation scales are static only where it keeps as many."""
    config = {**random_config(family, seeded("tensor", family)), "torch_dtype": "bfloat16"}
    config |= {"attention_bias": False, "mlp_bias": False}
    scheme = "dynamic" if "moe" in family or family == "mixtral" else "static"
    settings = {"quant_method": "fp8", "weight_block_size": None, "activation_scheme": scheme}
    mine = read_config({**config, "quantization_config": settings}, "model")
    assert parameter_bytes(mine)["total"] == stored_bytes(quantized(config, settings))


@pytest.mark.parametrize(
    "kept",
    [
        ["self_attn"],
        ["model.layers.*.self_attn"],
        ["model.layers.0.self_attn", "model.layers.1.self_attn", "model.layers.2.self_attn"],
        [r"model\.layers\.\d+\.mlp"],
        ["gate_proj", "up_proj", "down_proj", "experts"],
    ],
)
@pytest.mark.parametrize("family", ["qwen3", "qwen3_moe"])
def test_modules_that_a_list_keeps_plain_are_those_of_transformers(family, kept):
    config = {"model_type": family, **FULL_CONFIGS[family], "torch_dtype": "bfloat16", "attention_bias": False}
    config |= {"mlp_only_layers": []} if family == "qwen3_moe" else {}
    settings = {"quant_method": "fp8", "weight_block_size": [8, 8]}
    suffixed = [item if item != "self_attn" else r".*\.self_attn" for item in kept]
    theirs = quantized(config, settings, suffixed)
    listed = ["lm_head", *kept] if family == "qwen3_moe" else ["lm_head", *(i for i in kept if i != "experts")]
    mine = read_config({**config, "quantization_config": {**settings, "modules_to_not_convert": listed}}, "model")
    assert parameter_bytes(mine)["total"] == stored_bytes(theirs)
    assert ("attention" in mine.quantized_parts) == ("self_attn" not in kept[0])


def test_rows_with_one_scale_store_what_the_fbgemm_layer_stores():
    config = {"model_type": "qwen3", **FULL_CONFIGS["qwen3"], "torch_dtype": "bfloat16", "attention_bias": False}
    model = read_config({**config, "quantization_config": {"quant_method": "fbgemm_fp8"}}, "model")
    theirs = build(config, dtype=torch.bfloat16)
    with torch.device("meta"):
        for name, module in list(theirs.named_modules()):
            if type(module) is torch.nn.Linear and name != "lm_head":
                theirs.set_submodule(name, FbgemmFp8Linear(module.in_features, module.out_features, bias=False))
    assert parameter_bytes(model)["total"] == stored_bytes(theirs)


@pytest.mark.parametrize(("hidden", "intermediate"), [(64, 96), (2880, 2880)])
def test_mxfp4_experts_store_the_blocks_and_scales_that_transformers_unpacks(hidden, intermediate):
    sizes = SimpleNamespace(num_local_experts=2, hidden_size=hidden, intermediate_size=intermediate)
    with torch.device("meta"):
        layer = Mxfp4GptOssExperts(sizes)
    weights = Experts(experts=2, top_k=1, intermediate=intermediate).weights(hidden)
    mine = {tensor.name.split(".")[2]: int(mxfp4("bf16").stored_bytes(tensor.shape)) for tensor in weights[1:]}
    theirs = {}
    for name in ("gate_up_proj", "down_proj"):
        packed = getattr(layer, name)
        experts, rows, half = packed.shape
        blocks = torch.zeros(experts, rows, half // 16, 16, dtype=torch.uint8)
        scales = torch.zeros(blocks.shape[:-1], dtype=torch.uint8)
        assert convert_moe_packed_tensors(blocks, scales).shape == (experts, 2 * half, rows)
        theirs[name] = packed.numel() + scales.numel()
    assert mine["gate_proj"] + mine["up_proj"] == theirs["gate_up_proj"]
    assert mine["down_proj"] == theirs["down_proj"]
