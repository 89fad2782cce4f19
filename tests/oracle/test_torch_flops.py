"""Training FLOPs against torch's own counter: one forward and backward of the classes of `transformers`, on the CPU.

Attention runs without a fused kernel, so that every product is counted. Torch multiplies all pairs and masks them
afterwards: weights agree to the last FLOP, attention agrees with s^2 pairs, and training needs only the pairs that a
layer sees: that is the whole difference.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM

from meshwright.cost.model_flops import forward_flops, model_flops
from meshwright.model.reader import read_config
from meshwright.workload.attention import score_flops
from meshwright.workload.operators import operators
from tests.oracle.transformers_models import FAMILIES, config_of, random_config, seeded

SEEDS = range(6)
LENGTH = 12


def counted(config: dict[str, Any]) -> tuple[int, int]:
    """FLOPs that torch counts: of a forward, and of a forward and its backward."""
    made = config_of(config)
    made._attn_implementation = "eager"
    made._experts_implementation = "eager"
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(made).float().train()
    tokens = torch.randint(0, config["vocab_size"], (1, LENGTH))
    with FlopCounterMode(display=False) as counter:
        logits = model(input_ids=tokens, use_cache=False).logits
        forward = counter.get_total_flops()
        logits.sum().backward()
    return forward, counter.get_total_flops()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_torch_counts_our_weights_and_all_pairs_of_attention(family, seed):
    config = random_config(family, seeded("flops", family, seed))
    model = read_config(config, "model")
    weights = sum(forward_flops(item, LENGTH) * item.count for item in operators(model) if item.weights)
    scored = [item for item in operators(model) if item.state]
    pairs = sum(score_flops(item.scores.elements, item.values.elements, LENGTH**2) * item.count for item in scored)
    seen = sum(forward_flops(item, LENGTH) * item.count for item in scored)
    forward, both = counted(config)
    assert forward == weights + pairs
    assert both == 3 * forward
    assert both - model_flops(model, LENGTH) == 3 * (pairs - seen)
