"""BLOOM: multi-head attention with ALiBi, a norm of the embedded tokens, LayerNorm, biases everywhere.

Defaults: transformers 5.24 `BloomConfig`, in which `num_hidden_layers` and `num_attention_heads` are aliases and
`n_embed`, when given, comes before `hidden_size`. The fused `query_key_value` is listed as its three parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshwright.model.families._common import assemble, read_layers
from meshwright.model.families._multi_head import multi_head_blocks, read_embed, read_head_dim
from meshwright.model.model import Ends, Model

if TYPE_CHECKING:
    from meshwright.model.config import Fields


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `bloom` config; `seq_length` is its longest context, where it says one."""
    hidden = read_embed(fields, default=64)
    heads = fields.integer("n_head", "num_attention_heads", default=8)
    blocks = multi_head_blocks(
        read_layers(fields, 2, "n_layer", "num_hidden_layers"),
        heads=heads,
        head_dim=read_head_dim(fields, hidden, heads),
        intermediate=4 * hidden,
        attention_bias=True,
        mlp_bias=True,
    )
    return assemble(
        fields,
        name,
        hidden=hidden,
        vocab=fields.integer("vocab_size", default=250880),
        blocks=blocks,
        tied=fields.flag("tie_word_embeddings", default=True),
        max_positions=None if fields.data.get("seq_length") is None else fields.integer("seq_length"),
        norm="layer",
        position_kind="alibi",
        ends=Ends(embedding_norm=True),
    )
