"""Kimi Linear: Kimi Delta Attention with latent attention every few layers, mixtures with shared experts.

Defaults: transformers 5.24 `KimiLinearConfig`, in which `num_experts`, `num_experts_per_token`, `num_shared_experts`
and `model_max_length` are aliases. Released configs keep what is linear in `linear_attn_config`, and number layers from
1 there. No layer has rotary positions. Apart stand the routers' correction biases, which are buffers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from meshwright.base.errors import ModelError
from meshwright.model.config import shown
from meshwright.model.families._apart import buffers
from meshwright.model.families._common import assemble, read_experts, read_layers
from meshwright.model.families._hybrid import FULL, LINEAR, read_kinds
from meshwright.model.families._multi_head import note_unused
from meshwright.model.feed_forwards import Dense, FeedForward
from meshwright.model.mixers import LatentAttention
from meshwright.model.mixers.kimi_delta import KimiDelta
from meshwright.model.model import Block, Model

if TYPE_CHECKING:
    from meshwright.model.config import Fields

_LISTS: Final = {"full_attn_layers": FULL, "kda_layers": LINEAR}
_STEP: Final = 4
_ALIASES: Final = {"num_experts_per_token": "num_experts_per_tok", "num_shared_experts": "n_shared_experts"}


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `kimi_linear` config. Raises MOD009 for layers of no kind, or of two."""
    fields.data = {_ALIASES.get(key, key): value for key, value in fields.data.items()}
    hidden, layers = fields.integer("hidden_size", default=2304), read_layers(fields, default=27)
    mixers = {FULL: _read_latent(fields), LINEAR: _read_delta(fields)}
    blocks = [
        Block(mixer=mixers[kind], feed_forward=layer)
        for kind, layer in zip(_read_kinds(fields, layers), _read_feed_forwards(fields, layers), strict=True)
    ]
    model = assemble(
        fields,
        name,
        hidden=hidden,
        vocab=fields.integer("vocab_size", default=163840),
        blocks=blocks,
        tied=False,
        max_positions=fields.integer("max_position_embeddings", "model_max_length", default=1048576),
        position_kind="none",
    )
    note_unused(fields, "tie_word_embeddings", "its class keeps a head of its own", usual=False)
    return replace(model, apart=tuple(buffers(model)), notes=tuple(fields.notes))


def _read_latent(fields: Fields) -> LatentAttention:
    return LatentAttention(
        heads=fields.integer("num_attention_heads", default=32),
        query_rank=fields.optional("q_lora_rank", default=None),
        kv_rank=fields.integer("kv_lora_rank", default=512),
        nope_dim=fields.integer("qk_nope_head_dim", default=128),
        rope_dim=fields.integer("qk_rope_head_dim", default=64),
        value_dim=fields.integer("v_head_dim", default=128),
        bias=fields.flag("attention_bias", default=False),
    )


def _read_delta(fields: Fields) -> KimiDelta:
    """Sizes of `linear_attn_config`, where it has them, come before those beside it."""
    inner = fields.section("linear_attn_config")
    names = {"linear_num_heads": "num_heads", "linear_head_dim": "head_dim"}
    names["linear_conv_kernel_dim"] = "short_conv_kernel_size"
    usual = {"linear_num_heads": 32, "linear_head_dim": 128, "linear_conv_kernel_dim": 4}
    found = {
        outer: inner.integer(name)
        if inner is not None and name in inner.data
        else fields.integer(outer, default=usual[outer])
        for outer, name in names.items()
    }
    return KimiDelta(
        heads=found["linear_num_heads"], head_dim=found["linear_head_dim"], kernel=found["linear_conv_kernel_dim"]
    )


def _read_kinds(fields: Fields, layers: int) -> tuple[str, ...]:
    """`layer_types`, else the two lists of `linear_attn_config`, else attention on layers 4, 8, 12, ..."""
    usual = [FULL if layer and layer % _STEP == 0 else LINEAR for layer in range(layers)]
    inner = fields.section("linear_attn_config")
    lists = {} if inner is None else {key: inner.data[key] for key in _LISTS if inner.data.get(key) is not None}
    if fields.data.get("layer_types") is not None or inner is None or len(lists) < len(_LISTS):
        words = f"{FULL} on every {_STEP}th from layer {_STEP} on"
        return read_kinds(fields, "layer_types", layers, known=(FULL, LINEAR), default=(words, usual))
    numbered = [(number, kind) for key, kind in _LISTS.items() for number in inner.indices(key)]
    if sorted(number for number, _ in numbered) != list(range(1, layers + 1)):
        cause = f"{fields.family}: full_attn_layers and kda_layers do not name each of {layers} layers once, from 1 on"
        raise ModelError(9, cause, "give one kind a layer")
    return tuple(kind for _, kind in sorted(numbered))


def _read_feed_forwards(fields: Fields, layers: int) -> list[FeedForward]:
    """One a layer: `mlp_layer_types`, else dense below `first_k_dense_replace` and mixtures from there on."""
    listed = fields.words("mlp_layer_types")
    if listed is None:
        first = fields.integer("first_k_dense_replace", default=1, least=0)
        dense = [layer < first for layer in range(layers)]
    elif len(listed) != layers or set(listed) - {"dense", "sparse"}:
        cause = f"{fields.family}: mlp_layer_types is {shown(list(listed))} for {layers} layers"
        raise ModelError(9, cause, "give dense or sparse, one entry a layer")
    else:
        dense = [kind == "dense" for kind in listed]
    kinds: dict[bool, FeedForward] = {}
    if True in dense:
        kinds[True] = Dense(intermediate=fields.integer("intermediate_size", default=9216))
    if False in dense:
        width = fields.integer("moe_intermediate_size", default=1024)
        count = fields.integer("num_local_experts", "num_experts", default=256)
        shared = fields.integer("n_shared_experts", default=1, least=0)
        beside = Dense(intermediate=width * shared) if shared else None
        kinds[False] = replace(read_experts(fields, width, count, top_k=8), shared=beside, router_fp32=True)
    return [kinds[is_dense] for is_dense in dense]
