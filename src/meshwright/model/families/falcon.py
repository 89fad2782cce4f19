"""Falcon: one KV head, a few, or one a query head; attention and feed-forward side by side; LayerNorm; no gate.

Defaults: transformers 5.24 `FalconConfig` (those of Falcon-7B: 71 heads, one KV head), in which null is false for a
flag, and `n_embed`, when given, comes before `hidden_size`. The fused `query_key_value` is listed as its three parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshwright.base.errors import ModelError
from meshwright.model.families._common import assemble, read_layers
from meshwright.model.families._multi_head import check_rotary, read_embed, read_head_dim
from meshwright.model.feed_forwards import Dense
from meshwright.model.mixers import Attention
from meshwright.model.model import Block, Model

if TYPE_CHECKING:
    from meshwright.model.config import Fields

_NORMS: Final = {True: ("ln_attn", "ln_mlp"), False: ("input_layernorm",)}
_TWO_NORMS: Final = 2


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `falcon` config. Raises MOD007 for KV heads, MOD008 for query heads."""
    hidden = read_embed(fields, default=4544)
    alibi, bias = _read_flag(fields, "alibi", default=False), _read_flag(fields, "bias", default=False)
    newer = _read_flag(fields, "new_decoder_architecture", default=False)
    dense = Dense(
        intermediate=fields.derived("ffn_hidden_size", default=4 * hidden),
        gated=False,
        bias=bias,
    )
    mixer = _read_attention(fields, hidden, newer=newer, bias=bias)
    if not alibi:
        check_rotary(mixer.head_dim, mixer.head_dim)
    block = Block(mixer=mixer, feed_forward=dense, norms=_read_norms(fields, newer=newer))
    return assemble(
        fields,
        name,
        hidden=hidden,
        vocab=fields.integer("vocab_size", default=65024),
        blocks=[block] * read_layers(fields, default=32),
        tied=fields.flag("tie_word_embeddings", default=True),
        max_positions=fields.integer("max_position_embeddings", default=2048),
        norm="layer",
        position_kind="alibi" if alibi else "rotary",
    )


def _read_attention(fields: Fields, hidden: int, *, newer: bool, bias: bool) -> Attention:
    """The newer decoder has `num_kv_heads`; the older one KV head with `multi_query`, else one a query head."""
    heads = fields.integer("num_attention_heads", default=71)
    single = not newer and _read_flag(fields, "multi_query", default=True)
    kv_heads = 1 if single else fields.derived("num_kv_heads", default=heads)
    if heads % kv_heads:
        cause = f"num_kv_heads={kv_heads} does not divide num_attention_heads={heads}"
        raise ModelError(7, cause, "every KV head serves the same number of query heads")
    if not single and not newer and kv_heads != heads:
        cause = f"num_kv_heads={kv_heads} with neither multi_query nor new_decoder_architecture"
        raise ModelError(7, cause, f"leave it out: every one of the {heads} query heads has keys of its own then")
    head_dim = read_head_dim(fields, hidden, heads)
    return Attention(heads=heads, kv_heads=kv_heads, head_dim=head_dim, qkv_bias=bias, out_bias=bias)


def _read_norms(fields: Fields, *, newer: bool) -> tuple[str, ...]:
    """One norm before both halves, unless two are asked for; one before each half where they follow each other."""
    if not _read_flag(fields, "parallel_attn", default=True):
        return ("input_layernorm", "post_attention_layernorm")
    fields.notes.append(
        "attention and feed-forward work side by side: an engine may merge their two all_reduces of a block into one, "
        "which is not modelled"
    )
    return _NORMS[fields.derived("num_ln_in_parallel_attn", default=_TWO_NORMS if newer else 1) == _TWO_NORMS]


def _read_flag(fields: Fields, name: str, *, default: bool) -> bool:
    """True or false; null is false, as in the class."""
    said_null = name in fields.data and fields.data[name] is None
    return not said_null and fields.flag(name, default=default)
