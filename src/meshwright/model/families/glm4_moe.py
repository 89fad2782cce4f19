"""GLM-4.5: a few dense layers first, then mixtures with shared experts and a router kept in fp32.

Defaults: transformers 5.24 `Glm4MoeConfig`, in which `num_local_experts` is an alias of `n_routed_experts`. Apart stand
the routers' correction biases, which are buffers, and the layers that predict further tokens, which the decoder does
not run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from meshwright.model.families._apart import buffers, predictors, read_predictors
from meshwright.model.families._common import decoder, read_experts, read_heads, read_layers, read_listed_windows
from meshwright.model.feed_forwards import Dense, FeedForward
from meshwright.model.model import Block, Model

if TYPE_CHECKING:
    from meshwright.model.config import Fields


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `glm4_moe` config."""
    hidden = fields.integer("hidden_size", default=4096)
    attention = read_heads(fields, hidden, heads=96, kv_heads=8)
    attention = replace(
        attention,
        qkv_bias=fields.flag("attention_bias", default=False),
        qk_norm="head" if fields.flag("use_qk_norm", default=False) else "none",
    )
    layers = read_layers(fields, default=46)
    extra = read_predictors(fields)
    first = fields.integer("first_k_dense_replace", default=1, least=0)
    kinds = _read_kinds(fields, dense=first > 0, sparse=first < layers or extra > 0)
    windows = read_listed_windows(fields, layers)
    blocks = [
        Block(mixer=replace(attention, window=window), feed_forward=kinds[layer >= first])
        for layer, window in enumerate(windows)
    ]
    vocab = fields.integer("vocab_size", default=151552)
    model = decoder(fields, name, hidden=hidden, vocab=vocab, blocks=blocks, positions=131072)
    predictor = [Block(mixer=attention, feed_forward=kinds[True])] if extra else []
    return replace(model, apart=(*buffers(model), *predictors(model, predictor, extra)))


def _read_kinds(fields: Fields, *, dense: bool, sparse: bool) -> dict[bool, FeedForward]:
    """The dense layer under False, the mixture under True; the sizes of one that no layer is are not read."""
    kinds: dict[bool, FeedForward] = {}
    if dense:
        kinds[False] = Dense(intermediate=fields.integer("intermediate_size", default=10944))
    if sparse:
        width = fields.integer("moe_intermediate_size", default=1408)
        count = fields.integer("n_routed_experts", "num_local_experts", default=128)
        shared = fields.integer("n_shared_experts", default=1, least=0)
        beside = Dense(intermediate=width * shared) if shared else None
        kinds[True] = replace(read_experts(fields, width, count, top_k=8), shared=beside, router_fp32=True)
    return kinds
