"""Configs that people ask about are read: each is an entry of the catalog, with its source, and counts as stated here.

Totals are those of the classes of transformers 5.24 built on the meta device (tests/oracle compares every part of
them), and for Nemotron-Super, which has none, that of the safetensors index on the hub.
"""

from __future__ import annotations

from typing import Final

import pytest

from meshwright.model.model import parameter_counts
from meshwright.model.reader import read_model

TOTALS: Final = {
    "Qwen/Qwen2.5-7B": 7_615_616_512,
    "Qwen/Qwen3-235B-A22B-FP8": 235_093_634_560,
    "Qwen/Qwen3-30B-A3B-FP8": 30_532_122_624,
    "Qwen/Qwen3-32B": 32_762_123_264,
    "Qwen/Qwen3-8B": 8_190_735_360,
    "Qwen/Qwen3-Next-80B-A3B-Instruct": 79_674_391_296,
    "Qwen/Qwen3.5-27B": 26_895_998_464,
    "Qwen/Qwen3.5-35B-A3B": 34_660_610_688,
    "MiniMaxAI/MiniMax-M2.5": 228_689_748_992,
    "deepseek-ai/DeepSeek-V2-Lite": 15_706_484_224,
    "deepseek-ai/DeepSeek-V3": 671_026_404_352,
    "deepseek-ai/DeepSeek-V4-Flash": 284_332_230_231,
    "deepseek-ai/DeepSeek-V4-Pro": 1_572_997_179_491,
    "google/gemma-3-12b-it": 11_766_034_176,
    "meta-llama/Llama-2-7b-hf": 6_738_415_616,
    "meta-llama/Llama-3.1-405B": 405_853_388_800,
    "meta-llama/Llama-3.1-70B": 70_553_706_496,
    "meta-llama/Llama-3.1-8B": 8_030_261_248,
    "mistralai/Mixtral-8x7B-v0.1": 46_702_792_704,
    "moonshotai/Kimi-K2.5": 1_026_408_209_408,
    "nvidia/Llama-3_3-Nemotron-Super-49B-v1": 49_867_145_216,
    "nvidia/Nemotron-H-56B-Base-8K": 56_324_350_464,
    "openai/gpt-oss-120b": 116_829_156_672,
    "tiiuae/falcon-7b": 6_921_720_704,
    "zai-org/GLM-4.5-Air": 106_852_245_504,
}


def test_there_are_as_many_as_are_asked_about():
    assert len(TOTALS) == 25


@pytest.mark.parametrize(("name", "total"), TOTALS.items(), ids=TOTALS)
def test_a_published_config_is_read_and_counts_as_its_class(name, total):
    model = read_model(name)
    assert model.source is not None
    assert parameter_counts(model)["total"] == total
