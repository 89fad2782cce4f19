"""Mistral: grouped-query attention, a window on every layer, SwiGLU. Defaults: transformers 5.24 `MistralConfig`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from meshwright.model.families._common import decoder, read_heads, read_layers, read_windows
from meshwright.model.feed_forwards import Dense
from meshwright.model.model import Block, Model

if TYPE_CHECKING:
    from meshwright.model.config import Fields


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `mistral` config."""
    hidden = fields.integer("hidden_size", default=4096)
    attention = read_heads(fields, hidden, heads=32, kv_heads=8)
    size = fields.optional("sliding_window", default=4096)
    dense = Dense(intermediate=fields.integer("intermediate_size", default=14336))
    blocks = [
        Block(
            mixer=replace(attention, window=window),
            feed_forward=dense,
        )
        for window in read_windows(fields, read_layers(fields, default=32), size=size)
    ]
    vocab = fields.integer("vocab_size", default=32000)
    return decoder(fields, name, hidden=hidden, vocab=vocab, blocks=blocks, positions=131072)
