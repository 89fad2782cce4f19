"""Mixtral: Mistral's attention, every feed-forward a mixture of SwiGLU experts.

Defaults: transformers 5.24 `MixtralConfig`, in which `num_experts` is an alias of `num_local_experts`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from meshwright.model.families._common import decoder, read_experts, read_heads, read_layers, read_windows
from meshwright.model.model import Block, Model

if TYPE_CHECKING:
    from meshwright.model.config import Fields


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `mixtral` config."""
    hidden = fields.integer("hidden_size", default=4096)
    attention = read_heads(fields, hidden, heads=32, kv_heads=8)
    size = fields.optional("sliding_window", default=None)
    width = fields.integer("intermediate_size", default=14336)
    count = fields.integer("num_local_experts", "num_experts", default=8)
    experts = read_experts(fields, width, count, top_k=2)
    blocks = [
        Block(
            mixer=replace(attention, window=window),
            feed_forward=experts,
        )
        for window in read_windows(fields, read_layers(fields, default=32), size=size)
    ]
    vocab = fields.integer("vocab_size", default=32000)
    return decoder(fields, name, hidden=hidden, vocab=vocab, blocks=blocks, positions=131072)
