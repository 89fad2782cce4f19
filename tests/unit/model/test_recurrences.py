"""Products and states of recurrent mixers by hand, and what of them a training plan refuses."""

from __future__ import annotations

import pytest

from meshwright.base.errors import ModelError
from meshwright.model.mixers.gated_delta import GatedDelta
from meshwright.model.mixers.kimi_delta import KimiDelta
from meshwright.model.mixers.lightning import Lightning
from meshwright.model.mixers.mamba import Mamba
from meshwright.model.mixers.mamba2 import Mamba2
from meshwright.model.reader import read_model
from meshwright.workload.batches import decode, prefill
from meshwright.workload.messages import messages
from meshwright.workload.operators import operators
from meshwright.workload.saved import block_saved
from meshwright.workload.saved_entries import Kernels

DELTA = GatedDelta(key_heads=2, value_heads=4, key_dim=3, value_dim=5, kernel=4, chunk=8)
MIXERS = {
    "delta": (DELTA, 4 * 3 * 15 + 4 * 32, 4 * (3 * 15 + 8 * (9 + 10)) + 4 * 32),
    "kimi": (KimiDelta(heads=2, head_dim=3, chunk=8), 2 * 27 + 4 * 18, 2 * (27 + 8 * 15) + 4 * 18),
    "lightning": (Lightning(heads=2, head_dim=3, block=8), 2 * 18, 2 * (18 + 8 * 6)),
    "mamba": (Mamba(channels=6, state=5, rank=2), 6 * 10 + 4 * 6, 6 * 10 + 4 * 6),
    "mamba2": (
        Mamba2(heads=4, head_dim=3, groups=2, state=5, chunk=8),
        4 * 30 + 4 * (12 + 20),
        4 * (30 + 24) + 2 * 8 * 5 + 4 * (12 + 20),
    ),
}


@pytest.mark.parametrize(("mixer", "step", "chunked"), MIXERS.values(), ids=MIXERS)
def test_multiply_adds_of_a_token_alone_and_in_a_chunk(mixer, step, chunked):
    assert sum(item.work(decode(9, 1).rows).elements for item in mixer.recurrences()) == step
    assert sum(item.work(prefill(8).rows).elements for item in mixer.recurrences()) == chunked


def test_every_matrix_of_a_recurrent_block_is_an_operator_and_no_filter_is():
    model = read_model("Qwen/Qwen3.6-35B-A3B")
    linear = model.kind_of_layer[0]
    names = [item.name for item in operators(model) if item.kind == linear and item.name.startswith("linear_attn")]
    assert names == [
        f"linear_attn.{name}" for name in ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj")
    ]
    assert [item.name for item in operators(model) if item.recurrence is not None] == ["convolution", "delta_rule"]


def test_a_block_without_a_half_exchanges_nothing_for_it():
    counts = {item.after: item.count for item in messages(read_model("nvidia/Nemotron-H-56B-Base-8K"))}
    assert counts == {"mixer": 64, "feed_forward": 54, "stage": 0}
    counts = {item.after: item.count for item in messages(read_model("nvidia/Llama-3_3-Nemotron-Super-49B-v1"))}
    assert (counts["mixer"], counts["feed_forward"]) == (49, 80)


@pytest.mark.parametrize("name", ["deepseek-ai/DeepSeek-V4-Flash", "deepseek-ai/DeepSeek-V4-Pro"])
def test_saved_activations_of_compressed_attention_are_refused_with_the_reason(name):
    with pytest.raises(ModelError) as caught:
        block_saved(read_model(name), 0, 16, Kernels())
    assert caught.value.code == "MOD030"
    assert "no published kernel says" in caught.value.cause
