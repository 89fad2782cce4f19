"""Bytes of optimizer state, and what number formats hold, against torch's own."""

from __future__ import annotations

import math

import pytest
import torch

from meshwright.cost.kept import kept
from meshwright.job.recipe import Recipe
from meshwright.model.model import block_weights, first_weights, last_weights
from meshwright.model.number_formats import NUMBER_FORMATS
from meshwright.model.reader import read_model

MODEL = read_model("tiny-qwen3")
WEIGHTS = (*block_weights(MODEL, 0), *first_weights(MODEL), *last_weights(MODEL))
BUILT = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "sgd": lambda weights: torch.optim.SGD(weights, momentum=0.9),
    "adafactor": torch.optim.Adafactor,
    "muon": torch.optim.Muon,
}


def held_by_torch(optimizer, tensor):
    """Bytes of the tensors that an optimizer keeps of one weight after a step; its count of steps left out."""
    weight = torch.nn.Parameter(torch.ones(tensor.shape))
    made = BUILT[optimizer]([weight])
    weight.grad = torch.ones_like(weight)
    made.step()
    state = made.state[weight]
    return sum(
        item.numel() * item.element_size() for name, item in state.items() if torch.is_tensor(item) and name != "step"
    )


@pytest.mark.parametrize("optimizer", BUILT)
@pytest.mark.parametrize("tensor", WEIGHTS, ids=[tensor.name for tensor in WEIGHTS])
def test_the_state_of_a_weight_is_that_of_torch(optimizer, tensor):
    items = kept((tensor,), Recipe(optimizer=optimizer, parameters="fp32", master="none"))
    ours = sum(item.piece_bytes(item.tensor.shape) for item in items if item.state == "optimizer_state")
    muons = len(tensor.dims) == 2 and tensor.part not in {"embedding", "head"}
    theirs = "adamw" if optimizer == "muon" and not muons else optimizer
    assert ours == held_by_torch(theirs, tensor)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("fp32", torch.float32),
        ("fp16", torch.float16),
        ("bf16", torch.bfloat16),
        ("e4m3", torch.float8_e4m3fn),
        ("e5m2", torch.float8_e5m2),
    ],
)
def test_a_format_holds_what_torch_says(name, dtype):
    ours, theirs = NUMBER_FORMATS[name], torch.finfo(dtype)
    assert (ours.largest, ours.smallest_normal) == (theirs.max, theirs.smallest_normal)
    assert ours.relative_step == theirs.eps
    assert 1 + ours.exponent_bits + ours.mantissa_bits == theirs.bits
    least = torch.tensor(ours.smallest_subnormal, dtype=torch.float64)
    assert least.to(dtype).to(torch.float64).item() == ours.smallest_subnormal
    assert (least / 2.001).to(dtype).to(torch.float64).item() == 0.0
    assert math.log2(ours.smallest_normal) == ours.least_exponent
