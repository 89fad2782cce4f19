"""Gemma 2: heads of a width of their own, every other layer sliding, a norm before and after each half of a block.

Defaults: transformers 5.24 `Gemma2Config`. Read more freely than by that class: it refuses heads that do not divide the
hidden size. `read_gemma` is also what Gemma 3 reads its fields with.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from meshwright.base.errors import ModelError
from meshwright.model.config import shown
from meshwright.model.families._common import decoder, read_alternating_windows, read_heads, read_layers
from meshwright.model.feed_forwards import Dense
from meshwright.model.model import Block, Model

if TYPE_CHECKING:
    from meshwright.model.config import Fields

NORMS = (
    "input_layernorm",
    "post_attention_layernorm",
    "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
)


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `gemma2` config. Raises MOD013 for attention that looks ahead."""
    windows = read_alternating_windows(fields, read_layers(fields, default=26), default=4096)
    return read_gemma(fields, name, windows, vocab=256000, positions=8192, qk_norm="none")


def read_gemma(
    fields: Fields,
    name: str,
    windows: list[int | None],
    *,
    vocab: int,
    positions: int,
    qk_norm: Literal["none", "head"],
) -> Model:
    """A `Model` with a block a window; `vocab` and `positions` are class defaults. Raises MOD013 as `read`."""
    ahead = fields.data.get("use_bidirectional_attention")
    if ahead is not None and ahead is not False:
        cause = f"{fields.family}: use_bidirectional_attention is {shown(ahead)}, and only causal decoders are planned"
        raise ModelError(13, cause, "leave it out to plan with causal attention")
    hidden = fields.integer("hidden_size", default=2304)
    attention = read_heads(fields, hidden, heads=8, kv_heads=4, head_dim=256)
    bias = fields.flag("attention_bias", default=False)
    dense = Dense(intermediate=fields.integer("intermediate_size", default=9216))
    blocks = [
        Block(
            mixer=replace(
                attention,
                window=window,
                qkv_bias=bias,
                out_bias=bias,
                qk_norm=qk_norm,
            ),
            feed_forward=dense,
            norms=NORMS,
        )
        for window in windows
    ]
    size = fields.integer("vocab_size", default=vocab)
    return decoder(fields, name, hidden=hidden, vocab=size, blocks=blocks, positions=positions, tied=True)
