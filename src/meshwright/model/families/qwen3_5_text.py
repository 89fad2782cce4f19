"""Qwen3.5 and Qwen3.6, dense: gated attention every fourth layer, gated delta nets between, one feed-forward.

Defaults: transformers 5.24 `Qwen3_5TextConfig`. Apart stand the layers that predict further tokens, which its class
does not build: their shapes are those of the checkpoints (`mtp.fc`, three norms, a block with full attention).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshwright.model.families._common import decoder
from meshwright.model.families._gated_delta import read_mixers, vision_parameters, with_predictors
from meshwright.model.feed_forwards import Dense
from meshwright.model.model import Block, Model

if TYPE_CHECKING:
    from meshwright.model.config import Fields

__all__ = ["read", "vision_parameters"]


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `qwen3_5_text` config."""
    hidden = fields.integer("hidden_size", default=4096)
    mixers, attention = read_mixers(fields, hidden, layers=32, kv_heads=4, joined="by_kind")
    dense = Dense(intermediate=fields.integer("intermediate_size", default=12288))
    blocks = [Block(mixer=mixer, feed_forward=dense) for mixer in mixers]
    vocab = fields.integer("vocab_size", default=248320)
    model = decoder(fields, name, hidden=hidden, vocab=vocab, blocks=blocks, positions=32768)
    return with_predictors(fields, model, Block(mixer=attention, feed_forward=dense))
