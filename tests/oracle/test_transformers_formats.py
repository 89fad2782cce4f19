"""Stored bytes of quantized and plain models, against the modules that `transformers` puts in their place."""

from __future__ import annotations

import pytest
import torch
from transformers import FineGrainedFP8Config
from transformers.integrations.finegrained_fp8 import replace_with_fp8_linear
from transformers.quantizers.base import get_keys_to_not_convert

from meshwright.model.model import format_bytes, parameter_bytes
from meshwright.model.reader import read_config
from tests.oracle.transformers_models import FAMILIES, FULL_CONFIGS, build, random_config, seeded


def stored_bytes(model):
    return sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())


def quantized(config, settings):
    model = build(config, dtype=torch.bfloat16)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)  # as `from_pretrained` does: biases take it
    try:
        return replace_with_fp8_linear(
            model,
            modules_to_not_convert=get_keys_to_not_convert(model),
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
    theirs = quantized(config, settings)
    mine = read_config({**config, "quantization_config": settings}, "model")
    assert parameter_bytes(mine)["total"] == stored_bytes(theirs)
    routers = sum(p.numel() * p.element_size() for n, p in theirs.named_parameters() if n.endswith("mlp.gate.weight"))
    kept = {"fp32": routers} if family == "glm4_moe" and routers else {}
    assert {name: size for name, size in format_bytes(mine).items() if name == "fp32"} == kept
    assert set(format_bytes(mine)) == {mine.weights.name, "bf16", *kept}
    eight_bits = sum(p.numel() for p in theirs.parameters() if p.dtype == torch.float8_e4m3fn)
    scales = sum(p.numel() * p.element_size() for n, p in theirs.named_parameters() if n.endswith("scale_inv"))
    assert format_bytes(mine)[mine.weights.name] == eight_bits + scales
