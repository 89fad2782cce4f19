"""What Qwen3-Next and Qwen3.5 share: gated attention among gated delta nets, shared experts, and the vision tower."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from meshwright.base.errors import ModelError
from meshwright.model.families._apart import predictors, read_predictors
from meshwright.model.families._common import read_experts, read_heads, read_layers
from meshwright.model.families._hybrid import FULL, read_spaced_kinds
from meshwright.model.feed_forwards import Dense, Experts
from meshwright.model.mixers import Attention
from meshwright.model.mixers.gated_delta import GatedDelta

if TYPE_CHECKING:
    from meshwright.model.config import Fields
    from meshwright.model.mixers import Mixer
    from meshwright.model.model import Block, Model


def read_mixers(
    fields: Fields, hidden: int, *, layers: int, kv_heads: int, joined: Literal["by_head", "by_kind"]
) -> tuple[list[Mixer], Attention]:
    """The mixer of each layer, and that of attention, which layers that predict further tokens have.

    Raises MOD007 for heads that do not go together, MOD009 for unknown kinds of layers.
    """
    kinds = read_spaced_kinds(fields, read_layers(fields, layers))
    attention, delta = read_attention(fields, hidden, kv_heads=kv_heads), read_delta(fields, joined)
    return [attention if kind == FULL else delta for kind in kinds], attention


def read_attention(fields: Fields, hidden: int, *, kv_heads: int) -> Attention:
    """Attention whose q_proj also makes a gate of its output; the classes gate it whatever `attn_output_gate` says."""
    attention = read_heads(fields, hidden, heads=16, kv_heads=kv_heads, head_dim=256)
    bias = fields.flag("attention_bias", default=False)
    if fields.data.get("attn_output_gate") is False:
        fields.notes.append(f"{fields.prefix}attn_output_gate=false is not used: its class always gates attention")
    return replace(
        attention,
        qkv_bias=bias,
        out_bias=bias,
        qk_norm="head",
        output_gate=True,
    )


def read_delta(fields: Fields, joined: Literal["by_head", "by_kind"]) -> GatedDelta:
    """The gated delta net. Raises MOD007 when its key heads do not divide its value heads."""
    mixer = GatedDelta(
        key_heads=fields.integer("linear_num_key_heads", default=16),
        value_heads=fields.integer("linear_num_value_heads", default=32),
        key_dim=fields.integer("linear_key_head_dim", default=128),
        value_dim=fields.integer("linear_value_head_dim", default=128),
        kernel=fields.integer("linear_conv_kernel_dim", default=4),
        projections=joined,
    )
    if mixer.mismatch():
        raise ModelError(7, f"{fields.family}: {mixer.mismatch()}", "every key head serves as many value heads")
    return mixer


def read_mixture(fields: Fields, *, experts: int, top_k: int) -> Experts:
    """Experts beside a shared one, which a learned weight of the token scales."""
    width = fields.integer("moe_intermediate_size", default=512)
    mixture = read_experts(fields, width, experts, top_k=top_k)
    shared = Dense(intermediate=fields.integer("shared_expert_intermediate_size", default=512))
    return replace(mixture, shared=shared, shared_gate=True)


def with_predictors(fields: Fields, model: Model, block: Block) -> Model:
    """The model, and apart as many layers that predict further tokens as `mtp_num_hidden_layers` says."""
    name = "mtp_num_hidden_layers"
    count = read_predictors(fields, name) if name in fields.data else 0
    return replace(model, apart=tuple(predictors(model, [block], count))) if count else model


def vision_parameters(fields: Fields) -> int:
    """Parameters of the vision tower of a `vision_config`: patches, positions, blocks and the merger of patches.

    Source: transformers 5.24, `Qwen3_5VisionModel` and its defaults.
    """
    hidden = fields.integer("hidden_size", default=1152)
    inner = fields.integer("intermediate_size", default=4304)
    merged = hidden * fields.integer("spatial_merge_size", default=2) ** 2
    out = fields.integer("out_hidden_size", default=3584)
    patch = fields.integer("patch_size", default=16) ** 2 * fields.integer("temporal_patch_size", default=2)
    patches = (fields.integer("in_channels", default=3) * patch + 1) * hidden
    positions = fields.integer("num_position_embeddings", default=2304) * hidden
    attention = (hidden + 1) * 4 * hidden
    feed_forward = hidden * inner + inner + inner * hidden + hidden
    blocks = fields.integer("depth", default=27) * (attention + feed_forward + 4 * hidden)
    merger = 2 * hidden + (merged + 1) * merged + (merged + 1) * out
    return patches + positions + blocks + merger
