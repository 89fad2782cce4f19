"""OPT: multi-head attention, learned positions, LayerNorm with or without weights, biases unless switched off.

Defaults: transformers 5.24 `OPTConfig`. The position table has two rows more than positions. A `word_embed_proj_dim`
other than the hidden size (OPT-350M) brings a projection after the embedding and one before the head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshwright.model.families._common import assemble, read_layers
from meshwright.model.families._multi_head import multi_head_blocks, read_head_dim
from meshwright.model.model import Ends, Model

if TYPE_CHECKING:
    from meshwright.model.config import Fields

_OFFSET: Final = 2


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of an `opt` config."""
    hidden = fields.integer("hidden_size", default=768)
    heads = fields.integer("num_attention_heads", default=12)
    bias = fields.flag("enable_bias", default=True)
    blocks = multi_head_blocks(
        read_layers(fields, default=12),
        heads=heads,
        head_dim=read_head_dim(fields, hidden, heads),
        intermediate=fields.integer("ffn_dim", default=3072),
        attention_bias=bias,
        mlp_bias=bias,
    )
    positions = fields.integer("max_position_embeddings", default=2048)
    return assemble(
        fields,
        name,
        hidden=hidden,
        vocab=fields.integer("vocab_size", default=50272),
        blocks=blocks,
        tied=fields.flag("tie_word_embeddings", default=True),
        max_positions=positions,
        norm="layer" if fields.flag("layer_norm_elementwise_affine", default=True) else "layer_without_weights",
        position_kind="learned",
        ends=_read_ends(fields, hidden, positions),
    )


def _read_ends(fields: Fields, hidden: int, positions: int) -> Ends:
    """A final norm only where norms stand before their layers, unless an old checkpoint has it removed."""
    before = fields.flag("do_layer_norm_before", default=True)
    removed = "_remove_final_layer_norm" in fields.data and fields.flag("_remove_final_layer_norm", default=False)
    width = fields.derived("word_embed_proj_dim", default=hidden)
    return Ends(
        embedding_width=None if width == hidden else width,
        position_rows=positions + _OFFSET,
        final_norm=before and not removed,
    )
