"""OLMo 2: norms only after each half of a block, and norms over all query heads and all key heads together.

Defaults: transformers 5.24 `Olmo2Config`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from meshwright.model.families._common import decoder, read_heads, read_layers, read_listed_windows
from meshwright.model.feed_forwards import Dense
from meshwright.model.model import Block, Model

if TYPE_CHECKING:
    from meshwright.model.config import Fields

_EXCHANGE: Final = "q_norm and k_norm span all heads: what tp ranks exchange for their mean squares is not modelled"


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of an `olmo2` config."""
    hidden = fields.integer("hidden_size", default=4096)
    attention = read_heads(fields, hidden, heads=32, kv_heads=None)
    bias = fields.flag("attention_bias", default=False)
    dense = Dense(intermediate=fields.integer("intermediate_size", default=11008))
    blocks = [
        Block(
            mixer=replace(
                attention,
                window=window,
                qkv_bias=bias,
                out_bias=bias,
                qk_norm="full",
            ),
            feed_forward=dense,
            norms=("post_attention_layernorm", "post_feedforward_layernorm"),
        )
        for window in read_listed_windows(fields, read_layers(fields, default=32))
    ]
    vocab = fields.integer("vocab_size", default=50304)
    fields.notes.append(_EXCHANGE)
    return decoder(fields, name, hidden=hidden, vocab=vocab, blocks=blocks, positions=2048)
