"""What families of equal heads share: heads that divide the hidden size, rotary widths, plain blocks and notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshwright.base.errors import ModelError
from meshwright.model.config import shown
from meshwright.model.feed_forwards import Dense
from meshwright.model.mixers import Attention
from meshwright.model.model import Block

if TYPE_CHECKING:
    from meshwright.model.config import Fields


def read_head_dim(fields: Fields, hidden: int, heads: int) -> int:
    """hidden // heads. Raises MOD008 when the heads do not divide the hidden size."""
    if hidden % heads:
        cause = f"{fields.family}: {heads} attention heads do not divide the hidden size {hidden}"
        raise ModelError(8, cause, "give a hidden size that is a multiple of the heads")
    return hidden // heads


def read_embed(fields: Fields, *, default: int) -> int:
    """The hidden size; `n_embed`, its older name, comes first unless it is null."""
    older = ("n_embed",) if fields.data.get("n_embed") is not None else ()
    return fields.integer("hidden_size", *older, default=default)


def check_rotary(head_dim: int, turned: int) -> None:
    """Raises MOD008 when rotary positions, which turn pairs, would turn more columns than a head has."""
    if turned + turned % 2 > head_dim:
        cause = f"head_dim={head_dim} is odd, and rotary positions turn pairs"
        raise ModelError(8, cause, "give an even head_dim: hidden size / heads")


def multi_head_blocks(
    layers: int, *, heads: int, head_dim: int, intermediate: int, attention_bias: bool, mlp_bias: bool
) -> list[Block]:
    """Equal blocks: a key and a value of every query head, and an up and a down projection."""
    mixer = Attention(heads=heads, kv_heads=heads, head_dim=head_dim, qkv_bias=attention_bias, out_bias=attention_bias)
    dense = Dense(intermediate=intermediate, gated=False, bias=mlp_bias)
    return [Block(mixer=mixer, feed_forward=dense)] * layers


def note_unused(fields: Fields, name: str, why: str, *, usual: object) -> None:
    """A note when the config says something under `name` that its class does not use."""
    value = fields.data.get(name, usual)
    if value != usual:
        fields.notes.append(f"{fields.prefix}{name}={shown(value)} is not used: {why}")
