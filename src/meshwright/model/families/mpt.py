"""MPT: multi-head attention with ALiBi, norms without biases. Defaults: transformers 5.24 `MptConfig`.

Shapes are those of the class `MptForCausalLM`, which takes every MPT for one without biases, with a feed-forward of
4 x d_model and with ALiBi: what a config says of these is not used there, and gets a note. In that class
`hidden_size`, `num_hidden_layers` and `num_attention_heads` are aliases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshwright.model.families._common import assemble, read_layers
from meshwright.model.families._multi_head import multi_head_blocks, note_unused, read_head_dim

if TYPE_CHECKING:
    from meshwright.model.config import Fields
    from meshwright.model.model import Model

_EXPANSION: Final = 4
_CLASS: Final = "the class of transformers builds"


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of an `mpt` config."""
    hidden = fields.integer("d_model", "hidden_size", default=2048)
    heads = fields.integer("n_heads", "num_attention_heads", default=16)
    blocks = multi_head_blocks(
        read_layers(fields, 24, "n_layers", "num_hidden_layers"),
        heads=heads,
        head_dim=read_head_dim(fields, hidden, heads),
        intermediate=_EXPANSION * hidden,
        attention_bias=False,
        mlp_bias=False,
    )
    _note_what_the_class_leaves_out(fields)
    return assemble(
        fields,
        name,
        hidden=hidden,
        vocab=fields.integer("vocab_size", default=50368),
        blocks=blocks,
        tied=fields.flag("tie_word_embeddings", default=True),
        max_positions=fields.integer("max_seq_len", default=2048),
        norm="layer_without_bias",
        position_kind="alibi",
    )


def _note_what_the_class_leaves_out(fields: Fields) -> None:
    note_unused(fields, "expansion_ratio", f"{_CLASS} feed-forwards of 4 x d_model", usual=_EXPANSION)
    note_unused(fields, "no_bias", f"{_CLASS} no biases", usual=True)
    attention = fields.section("attn_config")
    if attention is None:
        return
    note_unused(attention, "attn_type", f"{_CLASS} a key and a value of every head", usual="multihead_attention")
    note_unused(attention, "alibi", f"{_CLASS} ALiBi and no position table", usual=True)
    note_unused(attention, "qk_ln", f"{_CLASS} no norms of queries and keys", usual=False)
    fields.notes += attention.notes
