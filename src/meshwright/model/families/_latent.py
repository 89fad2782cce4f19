"""What families of latent attention share: its sizes and their mixtures read from a config, a block a layer.

`num_key_value_heads` is not read: what is cached has no heads. Groups of experts (`n_group`, `topk_group`) change which
experts a token may choose, and nothing that is counted here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from meshwright.base.errors import ModelError
from meshwright.model.checks import TOGETHER
from meshwright.model.config import shown
from meshwright.model.families._apart import buffers, predictors
from meshwright.model.families._common import decoder, read_experts
from meshwright.model.feed_forwards import Dense, FeedForward
from meshwright.model.mixers import LatentAttention
from meshwright.model.mixers.latent import Indexer
from meshwright.model.model import Block, Model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshwright.model.config import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Class defaults of a family. dense: first layers without experts.   count_alias: of `n_routed_experts`."""

    hidden: int
    vocab: int
    positions: int
    heads: int
    query_rank: int
    nope_dim: int = 128
    value_dim: int = 128
    intermediate: int
    moe_intermediate: int
    experts: int
    count_alias: str
    shared: int = 1
    top_k: int | None = 8
    dense: int = 3


def read_latent(fields: Fields, sizes: Sizes) -> LatentAttention:
    """Latent attention over all positions. Raises MOD008 for an odd number of columns with positions.

    Queries are made at once where `q_lora_rank` is null, or 0, which TOML can say.
    """
    rope = fields.integer("qk_rope_head_dim", default=64)
    if rope % 2:
        cause = f"{fields.family}: qk_rope_head_dim={rope} is odd, and rotary positions turn pairs"
        raise ModelError(8, cause, "give an even qk_rope_head_dim")
    said: object = fields.data.get("q_lora_rank")
    at_once = type(said) is int and said == 0
    return LatentAttention(
        heads=fields.integer("num_attention_heads", default=sizes.heads),
        query_rank=None if at_once else fields.optional("q_lora_rank", default=sizes.query_rank),
        kv_rank=fields.integer("kv_lora_rank", default=512),
        nope_dim=fields.integer("qk_nope_head_dim", default=sizes.nope_dim),
        rope_dim=rope,
        value_dim=fields.integer("v_head_dim", default=sizes.value_dim),
        bias=fields.flag("attention_bias", default=False),
    )


def read_dense_layers(fields: Fields, sizes: Sizes, layers: int) -> list[bool]:
    """Whether each layer is dense: the first ones.

    Raises MOD013 for experts on every second layer or so, of which transformers 5.24 and the code that the models came
    with think differently.
    """
    every = fields.data.get("moe_layer_freq")
    if every is not None and every != 1:
        cause = f"{fields.family}: moe_layer_freq is {shown(every)}, and only experts on every layer are read"
        raise ModelError(13, cause, "leave it out, or give 1")
    first = fields.integer("first_k_dense_replace", default=sizes.dense, least=0)
    return [layer < first for layer in range(layers)]


def read_listed_dense_layers(fields: Fields, sizes: Sizes, layers: int) -> list[bool]:
    """As `read_dense_layers`, unless `mlp_layer_types` says which layers are dense. Raises MOD009 where it is wrong."""
    kinds = fields.words("mlp_layer_types")
    if kinds is None:
        return read_dense_layers(fields, sizes, layers)
    unknown = sorted(set(kinds) - {"dense", "sparse"})
    if unknown or len(kinds) != layers:
        what = f"holds {unknown[0]!r}" if unknown else f"has {len(kinds)} entries for {layers} layers"
        raise ModelError(9, f"{fields.family}: mlp_layer_types {what}", "give dense or sparse, one entry a layer")
    return [kind == "dense" for kind in kinds]


def read_indexer(fields: Fields, *, heads: int) -> tuple[Indexer, int]:
    """The indexer, and how many positions it chooses."""
    indexer = Indexer(
        index_heads=fields.integer("index_n_heads", default=heads),
        index_dim=fields.integer("index_head_dim", default=128),
    )
    return indexer, fields.integer("index_topk", default=2048)


def read_kinds(
    fields: Fields, sizes: Sizes, dense: Sequence[bool], *, extra: int, bias: bool = False
) -> dict[bool, FeedForward]:
    """The dense layer under True, the mixture under False; sizes of one that no layer is are not read.

    extra: layers that predict further tokens, each a mixture.   bias: on all matrices but those of routed experts.
    """
    kinds: dict[bool, FeedForward] = {}
    if True in dense:
        width = fields.integer("intermediate_size", default=sizes.intermediate)
        kinds[True] = Dense(intermediate=width, bias=bias)
    if False in dense or extra:
        width = fields.integer("moe_intermediate_size", default=sizes.moe_intermediate)
        count = fields.integer("n_routed_experts", sizes.count_alias, default=sizes.experts)
        shared = fields.integer("n_shared_experts", default=sizes.shared, least=0)
        beside = Dense(intermediate=width * shared, bias=bias) if shared else None
        experts = read_experts(fields, width, count, top_k=sizes.top_k)
        kinds[False] = replace(experts, shared=beside, router_fp32=True)
    return kinds


def assemble_latent(
    fields: Fields,
    name: str,
    sizes: Sizes,
    mixers: Sequence[LatentAttention],
    dense: Sequence[bool],
    *,
    extra: int = 0,
    bias: bool = False,
) -> Model:
    """The `Model` of these layers, and what stands apart but the corrections of routers.

    extra, bias: as in `read_kinds`. Raises MOD007 for mixers whose sizes do not go together.
    """
    for mixer in dict.fromkeys(mixers):
        if mixer.mismatch():
            raise ModelError(7, f"{fields.family}: {mixer.mismatch()}", TOGETHER)
    kinds = read_kinds(fields, sizes, dense, extra=extra, bias=bias)
    blocks = [Block(mixer=mixer, feed_forward=kinds[alone]) for mixer, alone in zip(mixers, dense, strict=True)]
    model = decoder(
        fields,
        name,
        hidden=fields.integer("hidden_size", default=sizes.hidden),
        vocab=fields.integer("vocab_size", default=sizes.vocab),
        blocks=blocks,
        positions=sizes.positions,
    )
    predictor = [Block(mixer=mixers[-1], feed_forward=kinds[False])] if extra else []
    return replace(model, apart=tuple(predictors(model, predictor, extra)))


def with_corrections(model: Model) -> Model:
    """The model with the correction bias of every routed expert counted apart."""
    return replace(model, apart=(*buffers(model), *model.apart))
