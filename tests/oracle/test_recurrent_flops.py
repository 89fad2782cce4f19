"""Products of recurrent mixers against torch's own counter, on the reference code of `transformers`."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers.models.qwen3_next import modeling_qwen3_next

from meshwright.model.mixers.gated_delta import GatedDelta


@pytest.mark.parametrize(("heads", "key_dim", "value_dim", "chunk"), [(2, 6, 10, 8), (3, 16, 4, 16)])
def test_a_chunked_delta_rule_multiplies_what_torch_counts(monkeypatch, heads, key_dim, value_dim, chunk):
    """With the inverse of the triangular matrix written out, as kernels have it; making it is not counted by either."""
    monkeypatch.setattr(modeling_qwen3_next, "is_torchdynamo_exporting", lambda: True)
    tokens = 3 * chunk
    query, key = torch.rand(1, tokens, heads, key_dim), torch.rand(1, tokens, heads, key_dim)
    value, gate, step = (
        torch.rand(1, tokens, heads, value_dim),
        -torch.rand(1, tokens, heads),
        torch.rand(1, tokens, heads),
    )
    with FlopCounterMode(display=False) as counter:
        modeling_qwen3_next.torch_chunk_gated_delta_rule(query, key, value, g=gate, beta=step, chunk_size=chunk)
    mixer = GatedDelta(key_heads=heads, value_heads=heads, key_dim=key_dim, value_dim=value_dim, chunk=chunk)
    rule = next(item for item in mixer.recurrences() if item.name == "delta_rule")
    assert counter.get_total_flops() == 2 * tokens * rule.chunked.elements
