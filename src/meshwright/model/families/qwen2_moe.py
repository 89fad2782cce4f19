"""Qwen2 mixture of experts: Qwen2 attention, experts beside a gated shared one on layers that are not listed as dense.

Defaults: transformers 5.24 `Qwen2MoeConfig`, in which windows, when switched on, lie on every other of the first
`max_window_layers` layers, and which does not read a head's width from its sizes alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from meshwright.model.families._common import (
    decoder,
    read_experts,
    read_heads,
    read_layers,
    read_sliding_window,
    read_windows,
)
from meshwright.model.feed_forwards import Dense, FeedForward
from meshwright.model.mixers import Attention
from meshwright.model.model import Block, Model

if TYPE_CHECKING:
    from meshwright.model.config import Fields


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `qwen2_moe` config."""
    hidden = fields.integer("hidden_size", default=2048)
    heads = read_heads(fields, hidden, heads=16, kv_heads=16)
    bias = fields.flag("qkv_bias", default=True)
    layers = read_layers(fields, default=24)
    blocks = [
        Block(
            mixer=Attention(
                heads=heads.heads, kv_heads=heads.kv_heads, head_dim=heads.head_dim, window=window, qkv_bias=bias
            ),
            feed_forward=feed_forward,
        )
        for window, feed_forward in zip(_read_windows(fields, layers), _read_feed_forwards(fields, layers), strict=True)
    ]
    vocab = fields.integer("vocab_size", default=151936)
    return decoder(fields, name, hidden=hidden, vocab=vocab, blocks=blocks, positions=32768)


def _read_windows(fields: Fields, layers: int) -> list[int | None]:
    size = read_sliding_window(fields)
    if size is None or fields.words("layer_types") is not None:
        return read_windows(fields, layers, size=size)
    most = fields.integer("max_window_layers", default=28, least=0)
    return [size if layer % 2 == 0 and layer < most else None for layer in range(layers)]


def _read_feed_forwards(fields: Fields, layers: int) -> list[FeedForward]:
    """One a layer: experts every `decoder_sparse_step` layers unless listed in `mlp_only_layers`; none without experts.

    Sizes that no layer uses are not read.
    """
    count = fields.integer("num_experts", default=60, least=0)
    dense_layers = fields.indices("mlp_only_layers")
    step = fields.integer("decoder_sparse_step", default=1)
    sparse = [count > 0 and layer not in dense_layers and (layer + 1) % step == 0 for layer in range(layers)]
    kinds: dict[bool, FeedForward] = {}
    if True in sparse:
        mixture = read_experts(fields, fields.integer("moe_intermediate_size", default=1408), count, top_k=4)
        shared = Dense(intermediate=fields.integer("shared_expert_intermediate_size", default=5632))
        kinds[True] = replace(mixture, shared=shared, shared_gate=True)
    if False in sparse:
        kinds[False] = Dense(intermediate=fields.integer("intermediate_size", default=5632))
    return [kinds[is_sparse] for is_sparse in sparse]
