"""Llama: grouped-query attention, optional biases, SwiGLU. Defaults: transformers 5.24 `LlamaConfig`.

Read more freely than by that class: it refuses heads that do not divide the hidden size even beside a `head_dim`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from meshwright.model.families._common import decoder, read_heads, read_layers, read_listed_windows
from meshwright.model.feed_forwards import Dense
from meshwright.model.model import Block, Model

if TYPE_CHECKING:
    from meshwright.model.config import Fields


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `llama` config."""
    hidden = fields.integer("hidden_size", default=4096)
    attention = read_heads(fields, hidden, heads=32, kv_heads=None)
    bias = fields.flag("attention_bias", default=False)
    width = fields.integer("intermediate_size", default=11008)
    dense = Dense(intermediate=width, bias=fields.flag("mlp_bias", default=False))
    blocks = [
        Block(
            mixer=replace(
                attention,
                window=window,
                qkv_bias=bias,
                out_bias=bias,
            ),
            feed_forward=dense,
        )
        for window in read_listed_windows(fields, read_layers(fields, default=32))
    ]
    vocab = fields.integer("vocab_size", default=32000)
    return decoder(fields, name, hidden=hidden, vocab=vocab, blocks=blocks, positions=2048)
