"""MiniMax-M2: grouped-query attention with a norm over all heads, every feed-forward a mixture without shared experts.

Defaults: transformers 5.24 `MiniMaxM2Config`, in which `num_experts` is an alias of `num_local_experts`. Apart stand
the routers' correction biases, which are buffers. Modules that predict further tokens are named by some configs; their
shapes are not, and its class does not build them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from meshwright.model.families._apart import buffers
from meshwright.model.families._common import decoder, read_experts, read_heads, read_layers
from meshwright.model.model import Apart, Block, Model

if TYPE_CHECKING:
    from meshwright.model.config import Fields

_MTP: Final = "modules that predict further tokens: the config gives their number, and not their shapes"


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `minimax_m2` config."""
    hidden = fields.integer("hidden_size", default=3072)
    attention = read_heads(fields, hidden, heads=48, kv_heads=8, head_dim=128)
    attention = replace(attention, qk_norm="full")
    width = fields.integer("intermediate_size", default=1536)
    count = fields.integer("num_local_experts", "num_experts", default=256)
    block = Block(mixer=attention, feed_forward=read_experts(fields, width, count, top_k=8))
    blocks = [block] * read_layers(fields, default=62)
    vocab = fields.integer("vocab_size", default=200064)
    model = decoder(fields, name, hidden=hidden, vocab=vocab, blocks=blocks, positions=196608)
    return replace(model, apart=(*buffers(model), *_predictors(fields)))


def _predictors(fields: Fields) -> tuple[Apart, ...]:
    return (Apart(name="mtp", parameters=None, note=_MTP),) if fields.data.get("use_mtp") is True else ()
