"""Qwen3 dense: norms on queries and keys, head_dim of its own. Defaults: transformers 5.24 `Qwen3Config`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from meshwright.model.families._common import decoder, read_heads, read_later_windows, read_layers
from meshwright.model.feed_forwards import Dense
from meshwright.model.model import Block, Model

if TYPE_CHECKING:
    from meshwright.model.config import Fields


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `qwen3` config."""
    hidden = fields.integer("hidden_size", default=4096)
    attention = read_heads(fields, hidden, heads=32, kv_heads=32, head_dim=128)
    bias = fields.flag("attention_bias", default=False)
    dense = Dense(intermediate=fields.integer("intermediate_size", default=22016))
    blocks = [
        Block(
            mixer=replace(
                attention,
                window=window,
                qkv_bias=bias,
                out_bias=bias,
                qk_norm="head",
            ),
            feed_forward=dense,
        )
        for window in read_later_windows(fields, read_layers(fields, default=32))
    ]
    vocab = fields.integer("vocab_size", default=151936)
    return decoder(fields, name, hidden=hidden, vocab=vocab, blocks=blocks, positions=32768)
