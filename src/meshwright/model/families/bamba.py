"""Bamba: Mamba-2 with attention in the layers that are listed, every feed-forward dense.

Defaults: transformers 5.24 `BambaConfig`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from meshwright.model.families._common import decoder, read_heads, read_layers
from meshwright.model.families._hybrid import read_mamba2
from meshwright.model.feed_forwards import Dense
from meshwright.model.model import Block, Model

if TYPE_CHECKING:
    from meshwright.model.config import Fields


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `bamba` config."""
    hidden = fields.integer("hidden_size", default=4096)
    attention = read_heads(fields, hidden, heads=32, kv_heads=8)
    bias = fields.flag("attention_bias", default=False)
    attention = replace(attention, qkv_bias=bias, out_bias=bias)
    mamba = read_mamba2(fields, hidden, heads=128)
    width = fields.integer("intermediate_size", default=14336)
    dense = Dense(intermediate=width, bias=fields.flag("mlp_bias", default=False))
    full = fields.indices("attn_layer_indices")
    blocks = [
        Block(
            mixer=attention if layer in full else mamba,
            feed_forward=dense,
            norms=("input_layernorm", "pre_ff_layernorm"),
        )
        for layer in range(read_layers(fields, default=32))
    ]
    vocab = fields.integer("vocab_size", default=128000)
    return decoder(fields, name, hidden=hidden, vocab=vocab, blocks=blocks, positions=262144)
