"""Qwen3-Next: gated attention every fourth layer, gated delta nets between, experts with a gated shared one.

Defaults: transformers 5.24 `Qwen3NextConfig`. Its checkpoints hold a layer that predicts a further token, which no
field says and its class does not build: it is not counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshwright.model.families._common import decoder, read_sparse_layers
from meshwright.model.families._gated_delta import read_mixers, read_mixture
from meshwright.model.feed_forwards import Dense, FeedForward
from meshwright.model.model import Block, Model

if TYPE_CHECKING:
    from meshwright.model.config import Fields


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `qwen3_next` config."""
    hidden = fields.integer("hidden_size", default=2048)
    mixers, _ = read_mixers(fields, hidden, layers=48, kv_heads=2, joined="by_head")
    layers = _read_feed_forwards(fields, len(mixers))
    blocks = [Block(mixer=mixer, feed_forward=layer) for mixer, layer in zip(mixers, layers, strict=True)]
    vocab = fields.integer("vocab_size", default=151936)
    return decoder(fields, name, hidden=hidden, vocab=vocab, blocks=blocks, positions=32768)


def _read_feed_forwards(fields: Fields, layers: int) -> list[FeedForward]:
    """One a layer: experts every `decoder_sparse_step` layers, except those in `mlp_only_layers`."""
    count = fields.integer("num_experts", default=512, least=0)
    sparse = read_sparse_layers(fields, layers, count)
    kinds: dict[bool, FeedForward] = {}
    if True in sparse:
        kinds[True] = read_mixture(fields, experts=count, top_k=10)
    if False in sparse:
        kinds[False] = Dense(intermediate=fields.integer("intermediate_size", default=5632))
    return [kinds[is_sparse] for is_sparse in sparse]
