"""GPT-2: multi-head attention, learned positions, LayerNorm, biases everywhere.

Defaults: transformers 5.24 `GPT2Config`, in which `hidden_size`, `num_hidden_layers`, `num_attention_heads` and
`max_position_embeddings` are aliases. The fused `c_attn` is listed as its three parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshwright.base.errors import ModelError
from meshwright.model.families._common import assemble, read_layers
from meshwright.model.families._multi_head import multi_head_blocks, read_head_dim
from meshwright.model.model import Ends, Model

if TYPE_CHECKING:
    from meshwright.model.config import Fields


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `gpt2` config. Raises MOD008 for heads, MOD013 for cross-attention."""
    if fields.flag("add_cross_attention", default=False):
        cause = "gpt2: add_cross_attention is true, and attention to an encoder is not read"
        raise ModelError(13, cause, "plan the decoder alone with add_cross_attention false")
    hidden = fields.integer("n_embd", "hidden_size", default=768)
    heads = fields.integer("n_head", "num_attention_heads", default=12)
    blocks = multi_head_blocks(
        read_layers(fields, 12, "n_layer", "num_hidden_layers"),
        heads=heads,
        head_dim=read_head_dim(fields, hidden, heads),
        intermediate=fields.derived("n_inner", default=4 * hidden),
        attention_bias=True,
        mlp_bias=True,
    )
    rows = fields.integer("n_positions", "max_position_embeddings", default=1024)
    return assemble(
        fields,
        name,
        hidden=hidden,
        vocab=fields.integer("vocab_size", default=50257),
        blocks=blocks,
        tied=fields.flag("tie_word_embeddings", default=True),
        max_positions=rows,
        norm="layer",
        position_kind="learned",
        ends=Ends(position_rows=rows),
    )
