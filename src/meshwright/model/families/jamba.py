"""Jamba: Mamba with attention every few layers, a mixture every few, neither with rotary positions.

Defaults: transformers 5.24 `JambaConfig`, in which `num_local_experts` is an alias of `num_experts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshwright.base.errors import ModelError
from meshwright.base.result import Defaulted
from meshwright.model.families._common import assemble, read_experts, read_heads, read_layers
from meshwright.model.feed_forwards import Dense, FeedForward
from meshwright.model.mixers.mamba import Mamba
from meshwright.model.model import Block, Model

if TYPE_CHECKING:
    from meshwright.model.config import Fields


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `jamba` config. Raises MOD009 for an offset that is not within its period."""
    hidden = fields.integer("hidden_size", default=4096)
    attention = read_heads(fields, hidden, heads=32, kv_heads=8)
    mamba, layers = _read_mamba(fields, hidden), read_layers(fields, default=32)
    full = _spaced(fields, "attn_layer", layers, period=8, offset=4)
    feed_forwards = _read_feed_forwards(fields, layers)
    blocks = [
        Block(
            mixer=attention if is_full else mamba,
            feed_forward=feed_forward,
            norms=("input_layernorm", "pre_ff_layernorm"),
        )
        for is_full, feed_forward in zip(full, feed_forwards, strict=True)
    ]
    return assemble(
        fields,
        name,
        hidden=hidden,
        vocab=fields.integer("vocab_size", default=65536),
        blocks=blocks,
        tied=fields.flag("tie_word_embeddings", default=False),
        max_positions=fields.integer("max_position_embeddings", default=262144),
        position_kind="none",
    )


def _read_mamba(fields: Fields, hidden: int) -> Mamba:
    auto = fields.data.get("mamba_dt_rank", "auto") == "auto"
    rank = -(-hidden // 16) if auto else fields.integer("mamba_dt_rank")
    if auto:
        fields.defaulted.append(Defaulted(field=f"{fields.prefix}mamba_dt_rank", value=rank, origin=fields.origin))
    return Mamba(
        channels=fields.integer("mamba_expand", default=2) * hidden,
        state=fields.integer("mamba_d_state", default=16),
        rank=rank,
        kernel=fields.integer("mamba_d_conv", default=4),
        bias=fields.flag("mamba_proj_bias", default=False),
        conv_bias=fields.flag("mamba_conv_bias", default=True),
        inner_norms=True,
    )


def _read_feed_forwards(fields: Fields, layers: int) -> list[FeedForward]:
    """One a layer: experts every `expert_layer_period` layers from `expert_layer_offset` on; dense ones otherwise."""
    width = fields.integer("intermediate_size", default=14336)
    count = fields.integer("num_experts", "num_local_experts", default=16)
    dense = Dense(intermediate=width)
    experts = read_experts(fields, width, count, top_k=2) if count > 1 else dense
    return [experts if chosen else dense for chosen in _spaced(fields, "expert_layer", layers, period=2, offset=1)]


def _spaced(fields: Fields, what: str, layers: int, *, period: int, offset: int) -> list[bool]:
    step = fields.integer(f"{what}_period", default=period)
    first = fields.integer(f"{what}_offset", default=offset, least=0)
    if first >= step:
        cause = f"{fields.family}: {what}_offset={first} is not below {what}_period={step}"
        raise ModelError(9, cause, f"give {what}_offset < {what}_period")
    return [layer % step == first for layer in range(layers)]
