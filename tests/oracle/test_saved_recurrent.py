"""What recurrent mixers keep for their backward, against autograd: `transformers` modules around single kernels.

A convolution and a scan are one operator with a stated list of tensors (`recurrent_kernels`); projections, decays,
gates and norms are the module's own. Storages count once, without inputs and parameters.
"""

from __future__ import annotations

from typing import Any, Final

import pytest
import torch

from meshwright.cost.training_activations import activation_columns, entry_bytes
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.model.reader import read_config
from meshwright.workload.saved_entries import Kernels, Maker
from tests.oracle.hybrid_configs import FULL_CONFIGS
from tests.oracle.recurrent_kernels import CHUNK, kernels_of
from tests.oracle.saved_tensors import DTYPES, kept_bytes, small_model, storage

SAMPLES, POSITIONS = 2, 70
MIXER_OF: Final = {
    "qwen3_next": "linear_attn",
    "qwen3_5_text": "linear_attn",
    "kimi_linear": "self_attn",
    "minimax": "self_attn",
    "jamba": "mamba",
    "bamba": "mamba",
    "granitemoehybrid": "mamba",
    "nemotron_h": "mixer",
}
FORMATS: Final = {"fp32": "float32", "bf16": "bfloat16"}


def kept_by_module(config: dict[str, Any], dtype: str, elementwise: str) -> int:
    """Of the first block, called with rows that want a gradient; not what is made of parameters alone (exp(A_log))."""
    model = small_model(config, dtype=dtype, attention="eager")
    mixer = getattr(model.model.layers[0], MIXER_OF[config["model_type"]])
    rows = torch.randn(SAMPLES, POSITIONS, config["hidden_size"], dtype=DTYPES[dtype], requires_grad=True)
    given = {storage(item) for item in (rows, *model.parameters(), *model.buffers())}
    found: dict[int, int] = {}
    alive: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        alive.append(tensor)
        of_rows = tensor.shape[0] == SAMPLES or tensor.shape[0] % (SAMPLES * POSITIONS) == 0
        if of_rows and storage(tensor) not in given:
            found.setdefault(storage(tensor), tensor.untyped_storage().nbytes())
        return tensor

    with kernels_of(model, elementwise), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        mixer(hidden_states=rows)
    return sum(found.values())


def kept_as_told(config: dict[str, Any], dtype: str, elementwise: str) -> int:
    model = read_config({**config, "torch_dtype": FORMATS[dtype]}, "model")
    made = Maker(model=model, positions=POSITIONS, kernels=Kernels(elementwise=elementwise))
    entries = made.told(model.kinds[0].mixer.training(model.hidden, "flash", elementwise).kept)
    return sum(int(size[0]) for size in entry_bytes(entries, table([Layout()]), POSITIONS)) * SAMPLES


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("family", MIXER_OF)
def test_a_recurrent_mixer_keeps_what_autograd_keeps_around_its_kernels(family, dtype):
    config = {"model_type": family, **FULL_CONFIGS[family]}
    assert kept_as_told(config, dtype, "eager") == kept_by_module(config, dtype, "eager")


@pytest.mark.parametrize("family", ["qwen3_next", "qwen3_5_text", "kimi_linear"])
def test_gated_norms_and_decays_may_be_kernels_too(family):
    config = {"model_type": family, **FULL_CONFIGS[family]}
    assert kept_as_told(config, "bf16", "fused") == kept_by_module(config, "bf16", "fused")


def test_a_model_of_blocks_of_one_half_and_experts_in_a_latent_space_keeps_what_autograd_keeps():
    """But for its router (three numbers of groups, a mask, a sum and weights) and what is kept once a layer or model.

    That is exp(A_log) of both scans, where the rows of each expert end, and how many targets the loss counted.
    """
    config = {"model_type": "nemotron_h", **FULL_CONFIGS["nemotron_h"]}
    with kernels_of(small_model(config, dtype="fp32", attention="eager")):
        shape = {"samples": SAMPLES, "positions": POSITIONS, "fake": False}
        theirs = kept_bytes(config, dtype="fp32", attention="eager", recompute="none", **shape)
    model = read_config({**config, "torch_dtype": "float32"}, "model")
    layouts = table([Layout(micro_batch=SAMPLES)])
    found = activation_columns(model, layouts, sequence=POSITIONS, kernel="materialised")
    mine = int(found.saved[0] @ model.kind_counts + found.head[0])
    experts, top_k = config["n_routed_experts"], config["num_experts_per_tok"]
    router = 3 * 8 + experts + 4 + 4 * top_k
    once = 2 * 4 * config["mamba_num_heads"] + 4 * experts + 4
    assert theirs - mine == SAMPLES * POSITIONS * router + once


def test_the_kernels_work_on_as_many_tokens_at_once_as_the_mixers_say():
    families = ("qwen3_next", "kimi_linear")
    models = [read_config({"model_type": name, **FULL_CONFIGS[name]}, name) for name in families]
    assert {model.kinds[0].mixer.chunk for model in models} == {CHUNK}
