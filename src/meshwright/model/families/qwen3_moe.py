"""Qwen3 mixture of experts: Qwen3 attention, experts on the layers that are not listed as dense.

Defaults: transformers 5.24 `Qwen3MoeConfig`, in which `num_local_experts` is an alias of `num_experts`, and a window,
when switched on, lies on every layer.
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
    read_sparse_layers,
    read_windows,
)
from meshwright.model.feed_forwards import Dense, FeedForward
from meshwright.model.model import Block, Model

if TYPE_CHECKING:
    from meshwright.model.config import Fields


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `qwen3_moe` config."""
    hidden = fields.integer("hidden_size", default=2048)
    attention = read_heads(fields, hidden, heads=32, kv_heads=4)
    bias = fields.flag("attention_bias", default=False)
    layers = read_layers(fields, default=24)
    windows = read_windows(fields, layers, size=read_sliding_window(fields))
    blocks = [
        Block(
            mixer=replace(
                attention,
                window=window,
                qkv_bias=bias,
                out_bias=bias,
                qk_norm="head",
            ),
            feed_forward=feed_forward,
        )
        for window, feed_forward in zip(windows, _read_feed_forwards(fields, layers), strict=True)
    ]
    vocab = fields.integer("vocab_size", default=151936)
    return decoder(fields, name, hidden=hidden, vocab=vocab, blocks=blocks, positions=32768)


def _read_feed_forwards(fields: Fields, layers: int) -> list[FeedForward]:
    """One a layer: experts every `decoder_sparse_step` layers unless listed in `mlp_only_layers`; none without experts.

    Sizes that no layer uses are not read.
    """
    count = fields.integer("num_experts", "num_local_experts", default=128, least=0)
    sparse = read_sparse_layers(fields, layers, count)
    kinds: dict[bool, FeedForward] = {}
    if True in sparse:
        kinds[True] = read_experts(fields, fields.integer("moe_intermediate_size", default=768), count, top_k=8)
    if False in sparse:
        kinds[False] = Dense(intermediate=fields.integer("intermediate_size", default=6144))
    return [kinds[is_sparse] for is_sparse in sparse]
