"""Phi-3: grouped-query attention, a window on every layer when given, SwiGLU. Defaults: transformers 5.24 `Phi3Config`.

Its checkpoints hold q, k and v in one matrix, and gate and up in another; here they are the parts that ranks hold.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from meshwright.model.families._common import decoder, read_heads, read_layers, read_windows
from meshwright.model.feed_forwards import Dense
from meshwright.model.model import Block, Model

if TYPE_CHECKING:
    from meshwright.model.config import Fields

_FUSED: Final = "scales are counted of q, k, v, gate and up apart: fused as stored, blocks may straddle two of them"


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `phi3` config."""
    hidden = fields.integer("hidden_size", default=3072)
    attention = read_heads(fields, hidden, heads=32, kv_heads=None)
    size = fields.optional("sliding_window", default=None)
    dense = Dense(intermediate=fields.integer("intermediate_size", default=8192))
    blocks = [
        Block(
            mixer=replace(attention, window=window),
            feed_forward=dense,
        )
        for window in read_windows(fields, read_layers(fields, default=32), size=size)
    ]
    vocab = fields.integer("vocab_size", default=32064)
    model = decoder(fields, name, hidden=hidden, vocab=vocab, blocks=blocks, positions=4096)
    return model if model.weights.block is None else replace(model, notes=(*model.notes, _FUSED))
