"""GPT-NeoX and Pythia: multi-head attention with partial rotary positions, LayerNorm, biases.

Defaults: transformers 5.24 `GPTNeoXConfig`. A parallel residual changes no shape: both norms stay. The fused
`query_key_value` is listed as its three parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshwright.model.families._common import assemble, read_layers
from meshwright.model.families._multi_head import check_rotary, multi_head_blocks, read_head_dim

if TYPE_CHECKING:
    from meshwright.model.config import Fields
    from meshwright.model.model import Model

_TURNED: Final = 0.25


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `gpt_neox` config."""
    hidden = fields.integer("hidden_size", default=6144)
    heads = fields.integer("num_attention_heads", default=64)
    head_dim = read_head_dim(fields, hidden, heads)
    check_rotary(head_dim, int(head_dim * _turned_share(fields)))
    blocks = multi_head_blocks(
        read_layers(fields, default=44),
        heads=heads,
        head_dim=head_dim,
        intermediate=fields.integer("intermediate_size", default=24576),
        attention_bias=fields.flag("attention_bias", default=True),
        mlp_bias=True,
    )
    return assemble(
        fields,
        name,
        hidden=hidden,
        vocab=fields.integer("vocab_size", default=50432),
        blocks=blocks,
        tied=fields.flag("tie_word_embeddings", default=False),
        max_positions=fields.integer("max_position_embeddings", default=2048),
        norm="layer",
    )


def _turned_share(fields: Fields) -> float:
    """The share of a head's columns that rotary positions turn: that of the rope section, else `rotary_pct`."""
    section = fields.section("rope_scaling") or fields.section("rope_parameters")
    stated = None if section is None else section.number("partial_rotary_factor")
    share = fields.number("rotary_pct") if stated is None else stated
    if share is None:
        return _TURNED
    if not 0 <= share <= 1:
        raise fields.wrong("rotary_pct", share, "a share from 0 to 1")
    return share
