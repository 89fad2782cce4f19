"""A plain decoder from the columns of a table of shapes, for published results that give no config.

    layers  hidden  heads  vocab      required
    ffn                               width of a dense feed-forward; required with a gate, else 4 x hidden
    kv_heads  head_dim                one KV head a query head; hidden / heads
    gated  bias  norm  tied           true; false; rms, layer or layer_without_bias: rms; false
    positions  learned_positions      longest context: unknown; a learned table of so many rows: false
    experts  topk  moe_ffn            none; experts a token visits, required with experts; width of one: ffn

Every layer is alike: with `experts` all are mixtures. A null is a blank cell of the table: it takes the default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from meshwright.base.errors import ModelError, suggest
from meshwright.base.result import Defaulted
from meshwright.model.families._common import assemble, read_layers
from meshwright.model.families._multi_head import read_head_dim
from meshwright.model.feed_forwards import Dense, Experts, FeedForward
from meshwright.model.mixers import Attention
from meshwright.model.model import Block, Ends, Model, Norm

if TYPE_CHECKING:
    from meshwright.model.config import Fields

_NORMS: Final[tuple[Norm, ...]] = ("rms", "layer", "layer_without_bias")


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the columns of a `decoder`. Raises MOD005..MOD008 and MOD010 for sizes that do not go together."""
    fields.origin = "the plain decoder"
    fields.data = {key: value for key, value in fields.data.items() if value is not None}
    hidden = fields.integer("hidden")
    bias = fields.flag("bias", default=False)
    block = Block(
        mixer=_read_attention(fields, hidden, bias=bias), feed_forward=_read_feed_forward(fields, hidden, bias=bias)
    )
    learned = fields.flag("learned_positions", default=False)
    positions = fields.integer("positions") if learned else fields.optional("positions", default=None)
    return assemble(
        fields,
        name,
        hidden=hidden,
        vocab=fields.integer("vocab"),
        blocks=[block] * read_layers(fields, None, "layers"),
        tied=fields.flag("tied", default=False),
        max_positions=positions,
        norm=_read_norm(fields),
        position_kind="learned" if learned else "rotary",
        ends=Ends(position_rows=positions if learned and positions is not None else 0),
    )


def _read_attention(fields: Fields, hidden: int, *, bias: bool) -> Attention:
    heads = fields.integer("heads")
    kv_heads = fields.integer("kv_heads", default=heads)
    if heads % kv_heads:
        cause = f"decoder: kv_heads={kv_heads} does not divide heads={heads}"
        raise ModelError(7, cause, "every KV head serves the same number of query heads")
    stated = "head_dim" in fields.data
    width = fields.integer("head_dim", default=None if stated else read_head_dim(fields, hidden, heads))
    return Attention(heads=heads, kv_heads=kv_heads, head_dim=width, qkv_bias=bias, out_bias=bias)


def _read_feed_forward(fields: Fields, hidden: int, *, bias: bool) -> FeedForward:
    gated = fields.flag("gated", default=True)
    count = fields.integer("experts", default=0, least=0)
    if count == 0:
        width = fields.integer("ffn", default=None if gated else 4 * hidden)
        return Dense(intermediate=width, gated=gated, bias=bias)
    visits = fields.integer("topk")
    if visits > count:
        raise ModelError(10, f"decoder: topk={visits} is more than the {count} experts", f"give topk <= {count}")
    if bias:
        fields.notes.append("bias: attention has biases, the experts have none")
    width = fields.integer("moe_ffn", default=None if "ffn" not in fields.data else fields.integer("ffn"))
    return Experts(experts=count, top_k=visits, intermediate=width, gated=gated)


def _read_norm(fields: Fields) -> Norm:
    said = fields.text("norm")
    if said is None:
        fields.defaulted.append(Defaulted(field="norm", value="rms", origin=fields.origin))
        return "rms"
    if said not in _NORMS:
        raise ModelError(6, f"decoder: norm is {said!r}", suggest(said, _NORMS))
    return cast("Norm", said)
