"""Granite 4: Mamba-2 with attention in the layers that are listed, a shared expert in all, routed ones beside it.

Defaults: transformers 5.24 `GraniteMoeHybridConfig`, in which `layers_block_type` is an alias of `layer_types`. With
`num_local_experts` 0 what is called shared is the only feed-forward.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from meshwright.model.families._common import decoder, read_experts, read_heads, read_layers
from meshwright.model.families._hybrid import FULL, LINEAR, read_kinds, read_mamba2
from meshwright.model.feed_forwards import Dense, FeedForward
from meshwright.model.model import Block, Model

if TYPE_CHECKING:
    from meshwright.model.config import Fields


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `granitemoehybrid` config."""
    hidden = fields.integer("hidden_size", default=4096)
    attention = read_heads(fields, hidden, heads=32, kv_heads=None)
    bias = fields.flag("attention_bias", default=False)
    attention = replace(attention, qkv_bias=bias, out_bias=bias)
    mamba, layers = read_mamba2(fields, hidden, heads=128), read_layers(fields, default=32)
    named = "layers_block_type" if fields.data.get("layers_block_type") is not None else "layer_types"
    kinds = read_kinds(fields, named, layers, known=(FULL, LINEAR), default=(f"{LINEAR} in all", [LINEAR] * layers))
    feed_forward = _read_feed_forward(fields)
    blocks = [Block(mixer=attention if kind == FULL else mamba, feed_forward=feed_forward) for kind in kinds]
    vocab = fields.integer("vocab_size", default=32000)
    model = decoder(fields, name, hidden=hidden, vocab=vocab, blocks=blocks, positions=2048)
    return model if fields.data.get("position_embedding_type") == "rope" else replace(model, position_kind="none")


def _read_feed_forward(fields: Fields) -> FeedForward:
    shared = Dense(intermediate=fields.integer("shared_intermediate_size", default=1024))
    count = fields.integer("num_local_experts", default=8, least=0)
    if count == 0:
        return shared
    width = fields.integer("intermediate_size", default=11008)
    return replace(read_experts(fields, width, count, top_k=2), shared=shared)
