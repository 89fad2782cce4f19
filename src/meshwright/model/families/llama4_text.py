"""Llama 4, its text decoder: attention in chunks with every fourth layer full, mixtures with a shared expert.

Defaults: transformers 5.24 `Llama4TextConfig`. A layer without rotary positions sees all positions; the others see
their chunk of `attention_chunk_size`, unless `layer_types` decides.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from meshwright.base.errors import ModelError
from meshwright.model.families._common import decoder, read_experts, read_heads, read_layers
from meshwright.model.families._hybrid import FULL, read_kinds
from meshwright.model.feed_forwards import Dense, FeedForward
from meshwright.model.model import Block, Model

if TYPE_CHECKING:
    from meshwright.model.config import Fields

_CHUNKED: Final = "chunked_attention"


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `llama4_text` config. Raises MOD009 for a list that has too few layers."""
    hidden = fields.integer("hidden_size", default=5120)
    attention = read_heads(fields, hidden, heads=40, kv_heads=8, head_dim=128)
    bias = fields.flag("attention_bias", default=False)
    attention = replace(attention, qkv_bias=bias, out_bias=bias)
    layers = read_layers(fields, default=48)
    chunks = _read_chunks(fields, layers)
    feed_forwards = _read_feed_forwards(fields, layers)
    blocks = [
        Block(mixer=replace(attention, chunk=chunk), feed_forward=feed_forward)
        for chunk, feed_forward in zip(chunks, feed_forwards, strict=True)
    ]
    vocab = fields.integer("vocab_size", default=202048)
    return decoder(fields, name, hidden=hidden, vocab=vocab, blocks=blocks, positions=131072)


def _read_chunks(fields: Fields, layers: int) -> list[int | None]:
    """The chunk of each layer, None where it sees all positions."""
    size = fields.optional("attention_chunk_size", default=8192)
    if fields.words("layer_types") is None:
        return [size if turned else None for turned in _read_turned(fields, layers)]
    kinds = read_kinds(fields, "layer_types", layers, known=(FULL, _CHUNKED), default=("", ()))
    if size is None and _CHUNKED in kinds:
        cause = f"{fields.family}: layer_types holds {_CHUNKED}, and attention_chunk_size is null"
        raise ModelError(9, cause, "give attention_chunk_size")
    return [size if kind == _CHUNKED else None for kind in kinds]


def _read_turned(fields: Fields, layers: int) -> list[bool]:
    """Which layers have rotary positions."""
    listed: object = fields.data.get("no_rope_layers")
    if not listed:
        step = fields.integer("no_rope_layer_interval", default=4)
        return [(layer + 1) % step != 0 for layer in range(layers)]
    turned = cast("list[object]", listed) if isinstance(listed, list) else []
    if len(turned) < layers:
        raise fields.wrong("no_rope_layers", fields.data["no_rope_layers"], "a list with 1 (rotary) or 0 a layer")
    return [bool(item) for item in turned[:layers]]


def _read_feed_forwards(fields: Fields, layers: int) -> list[FeedForward]:
    """One a layer: a mixture every `interleave_moe_layer_step`, or where `moe_layers` says so; dense otherwise."""
    width = fields.integer("intermediate_size", default=8192)
    count = fields.integer("num_local_experts", default=16)
    sparse = replace(read_experts(fields, width, count, top_k=1), shared=Dense(intermediate=width))
    dense = Dense(intermediate=fields.integer("intermediate_size_mlp", default=16384))
    if fields.data.get("moe_layers") is not None:
        chosen = fields.indices("moe_layers")
        return [sparse if layer in chosen else dense for layer in range(layers)]
    step = fields.integer("interleave_moe_layer_step", default=1)
    return [dense if (layer + 1) % step else sparse for layer in range(layers)]
