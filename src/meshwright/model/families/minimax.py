"""MiniMax-Text-01: lightning attention with softmax attention among it, every feed-forward a mixture.

Defaults: transformers 5.24 `MiniMaxConfig`, in which `num_experts` is an alias of `num_local_experts`. Apart stand the
decays of lightning attention, which its class keeps as buffers and makes again from the number of the head and layer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from meshwright.base.errors import ModelError
from meshwright.model.config import shown
from meshwright.model.families._common import decoder, read_experts, read_heads, read_layers
from meshwright.model.families._hybrid import FULL, LINEAR, read_kinds
from meshwright.model.mixers.lightning import Lightning
from meshwright.model.model import Apart, Block, Model

if TYPE_CHECKING:
    from meshwright.model.config import Fields

_BUFFERS: Final = "decays of lightning attention, made again from numbers of heads and layers: in no checkpoint"


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `minimax` config. Raises MOD013 for a window, which no released model has."""
    if fields.data.get("sliding_window") is not None:
        cause = f"{fields.family}: sliding_window is {shown(fields.data['sliding_window'])}"
        raise ModelError(13, cause, "leave it out: its layers are full or linear")
    hidden = fields.integer("hidden_size", default=4096)
    attention = read_heads(fields, hidden, heads=32, kv_heads=8)
    linear = Lightning(
        heads=attention.heads, head_dim=attention.head_dim, block=fields.integer("block_size", default=256)
    )
    layers = read_layers(fields, default=32)
    alternating = [LINEAR if layer % 2 else FULL for layer in range(layers)]
    usual = (f"{FULL}, {LINEAR}, alternating", alternating)
    kinds = read_kinds(fields, "layer_types", layers, known=(FULL, LINEAR), default=usual)
    width = fields.integer("intermediate_size", default=14336)
    count = fields.integer("num_local_experts", "num_experts", default=8)
    experts = read_experts(fields, width, count, top_k=2)
    blocks = [Block(mixer=attention if kind == FULL else linear, feed_forward=experts) for kind in kinds]
    vocab = fields.integer("vocab_size", default=32000)
    model = decoder(fields, name, hidden=hidden, vocab=vocab, blocks=blocks, positions=131072)
    return replace(model, apart=_buffers(linear, kinds.count(LINEAR)))


def _buffers(mixer: Lightning, layers: int) -> tuple[Apart, ...]:
    """A slope a head, its powers along a chunk for queries and for keys, and those of every pair of a chunk."""
    each = mixer.heads * (1 + 2 * mixer.block + mixer.block**2)
    return (Apart(name="buffers", parameters=layers * each, note=_BUFFERS),) if layers else ()
