"""gpt-oss: attention with sinks and biases, every other layer sliding, every feed-forward a mixture with biases.

Defaults: transformers 5.24 `GptOssConfig`, in which `num_experts` is an alias of `num_local_experts`. Expert matrices
are named and counted gate and up apart, as every mixture here; stored, they are interleaved in one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from meshwright.base.result import Defaulted
from meshwright.model.families._common import (
    decoder,
    read_alternating_windows,
    read_experts,
    read_heads,
    read_layers,
)
from meshwright.model.model import Block, Model, Rope

if TYPE_CHECKING:
    from meshwright.model.config import Fields

_ROPE: Final = Rope(kind="yarn", factor=32.0, original_positions=4096)


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `gpt_oss` config."""
    hidden = fields.integer("hidden_size", default=2880)
    attention = read_heads(fields, hidden, heads=64, kv_heads=8, head_dim=64)
    bias = fields.flag("attention_bias", default=True)
    width = fields.integer("intermediate_size", default=2880)
    count = fields.integer("num_local_experts", "num_experts", default=128)
    experts = replace(read_experts(fields, width, count, top_k=4), bias=True, router_bias=True)
    blocks = [
        Block(
            mixer=replace(
                attention,
                window=window,
                qkv_bias=bias,
                out_bias=bias,
                sinks=True,
            ),
            feed_forward=experts,
        )
        for window in read_alternating_windows(fields, read_layers(fields, default=36), default=128)
    ]
    vocab = fields.integer("vocab_size", default=201088)
    stretched = any(fields.data.get(key) is not None for key in ("rope_scaling", "rope_parameters"))
    if not stretched:
        value = f"{_ROPE.kind}, factor {_ROPE.factor:g}"
        fields.defaulted.append(Defaulted(field=f"{fields.prefix}rope_scaling", value=value, origin=fields.origin))
    model = decoder(fields, name, hidden=hidden, vocab=vocab, blocks=blocks, positions=131072)
    return model if stretched else replace(model, rope=_ROPE)
