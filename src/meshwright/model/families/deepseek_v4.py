"""DeepSeek-V4: compressed attention of three kinds, mixtures on every layer, and residual streams between them.

Defaults: transformers 5.24 `DeepseekV4Config`, in which `num_local_experts` is an alias of `n_routed_experts` and the
width of the shared expert is that of a routed one. `compress_ratios` lists 0 (the last positions alone), 4 (overlapping
rows that an indexer chooses) or 128 (rows that are all read) for each layer and for those that predict further tokens.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from meshwright.base.errors import ModelError
from meshwright.base.result import Defaulted
from meshwright.model.config import shown
from meshwright.model.families._apart import buffers, read_predictors
from meshwright.model.families._common import decoder, read_experts, read_layers
from meshwright.model.feed_forwards import Dense, Experts
from meshwright.model.formats import mxfp4
from meshwright.model.mixers import CompressedAttention
from meshwright.model.mixers.compressed import Compressor
from meshwright.model.mixers.latent import Indexer
from meshwright.model.model import Apart, Block, Model
from meshwright.model.quantization import SECTIONS

if TYPE_CHECKING:
    from meshwright.model.config import Fields

_SLIDING: Final = "sliding_attention"
_SPARSE: Final = "compressed_sparse_attention"
_HEAVY: Final = "heavily_compressed_attention"
_OF_RATIO: Final = {0: _SLIDING, 4: _SPARSE, 128: _HEAVY}
_TABLES: Final = "corrections of routers, and of hashed layers the experts of every token, whose bytes are not counted"
_MTP: Final = "layers that predict further tokens are neither counted nor planned: no published class builds them"


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `deepseek_v4` config. Raises MOD005..MOD013 for sizes that do not go together."""
    hidden = fields.integer("hidden_size", default=4096)
    layers, extra = read_layers(fields, default=43), read_predictors(fields)
    kinds = _read_kinds(fields, layers)
    mixers = {kind: _read_mixer(fields, kind) for kind in dict.fromkeys(kinds)}
    experts = _read_feed_forward(fields)
    blocks = [Block(mixer=mixers[kind], feed_forward=experts) for kind in kinds]
    vocab = fields.integer("vocab_size", default=129280)
    model = decoder(fields, name, hidden=hidden, vocab=vocab, blocks=blocks, positions=1048576)
    model = replace(model, streams=fields.integer("hc_mult", default=4, least=2))
    predicted = [Apart(name="mtp", parameters=None, note=_MTP)] if extra else []
    tables = _tables(_read_hashed(fields, layers), model, experts)
    engram = _engram(fields)
    notes = (*model.notes, *(f"engram: {item.note}" for item in engram))
    return _with_experts(fields, replace(model, apart=(tables, *predicted, *engram), notes=notes))


def _read_kinds(fields: Fields, layers: int) -> list[str]:
    """The kind of each layer. Raises MOD009 for one that is not known, or too few."""
    said: object = fields.data.get("compress_ratios")
    kinds = fields.words("layer_types")
    if kinds is not None:
        listed = list(kinds)
    elif said is None:
        turns = (_SPARSE if layer % 2 else _HEAVY for layer in range(max(layers - 2, 0)))
        listed = [*([_HEAVY] * min(layers, 2)), *turns]
        words = f"{_HEAVY} twice, then it and {_SPARSE} in turn"
        fields.defaulted.append(Defaulted(field=f"{fields.prefix}layer_types", value=words, origin=fields.origin))
    else:
        items = cast("list[object]", said) if isinstance(said, list) else [None]
        if not all(type(item) is int and item in _OF_RATIO for item in items):
            raise fields.wrong("compress_ratios", cast("object", said), "a list of 0, 4 and 128")
        listed = [_OF_RATIO[ratio] for ratio in cast("list[int]", items)]
    unknown = sorted(set(listed) - set(_OF_RATIO.values()))
    if unknown or len(listed) < layers:
        what = f"hold {unknown[0]!r}" if unknown else f"have {len(listed)} entries for {layers} layers"
        named = "compress_ratios" if kinds is None else "layer_types"
        cause = f"{fields.family}: {named} {what}"
        raise ModelError(9, cause, f"give {', '.join(_OF_RATIO.values())}, one entry a layer")
    return listed[:layers]


def _read_mixer(fields: Fields, kind: str) -> CompressedAttention:
    heads = fields.integer("num_attention_heads", default=64)
    groups = fields.integer("o_groups", default=8)
    if heads % groups:
        cause = f"{fields.family}: o_groups={groups} does not divide num_attention_heads={heads}"
        raise ModelError(7, cause, "every group has the same number of heads")
    return CompressedAttention(
        heads=heads,
        head_dim=fields.integer("head_dim", default=512),
        query_rank=fields.integer("q_lora_rank", default=1024),
        local=fields.integer("sliding_window", default=128),
        out_groups=groups,
        out_rank=fields.integer("o_lora_rank", default=1024),
        compressor=_read_compressor(fields, kind),
    )


def _read_compressor(fields: Fields, kind: str) -> Compressor | None:
    if kind == _SLIDING:
        return None
    rates = fields.section("compress_rates")
    usual = next(ratio for ratio, name in _OF_RATIO.items() if name == kind)
    stride = usual if rates is None else rates.integer(kind, default=usual)
    if kind == _HEAVY:
        return Compressor(stride=stride)
    indexer = Indexer(
        index_heads=fields.integer("index_n_heads", default=64),
        index_dim=fields.integer("index_head_dim", default=128),
    )
    return Compressor(stride=stride, overlapping=True, indexer=indexer, top_k=fields.integer("index_topk", default=512))


def _read_feed_forward(fields: Fields) -> Experts:
    width = fields.integer("moe_intermediate_size", "intermediate_size", default=2048)
    count = fields.integer("n_routed_experts", "num_local_experts", default=256)
    shared = fields.integer("n_shared_experts", default=1)
    if shared != 1:
        cause = f"{fields.family}: n_shared_experts is {shared}, and its class builds one"
        raise ModelError(13, cause, "leave it out, or give 1")
    return replace(read_experts(fields, width, count, top_k=6), shared=Dense(intermediate=width))


def _read_hashed(fields: Fields, layers: int) -> int:
    """Layers whose experts a table gives for every token. Raises MOD009 for a kind of layer that is not known."""
    listed = fields.words("mlp_layer_types")
    if listed is None:
        return min(fields.integer("num_hash_layers", default=3, least=0), layers)
    unknown = sorted(set(listed) - {"hash_moe", "moe"})
    if unknown or len(listed) < layers:
        what = f"holds {unknown[0]!r}" if unknown else f"has {len(listed)} entries for {layers} layers"
        raise ModelError(9, f"{fields.family}: mlp_layer_types {what}", "give hash_moe or moe, one entry a layer")
    return sum(kind == "hash_moe" for kind in listed[:layers])


def _tables(hashed: int, model: Model, experts: Experts) -> Apart:
    """One correction a routed expert, but on hashed layers `top_k` experts for every token of the vocabulary."""
    corrections = sum(item.parameters or 0 for item in buffers(model)) * (model.layers - hashed) // model.layers
    return Apart(name="buffers", parameters=corrections + hashed * model.vocab * experts.top_k, note=_TABLES)


def _engram(fields: Fields) -> tuple[Apart, ...]:
    """Tables looked up by the last tokens, of `rows` rows in all; a step reads `rows_per_token` of them a token.

    Source: chapter "Supernodes", section 6.7.4 and its S6-56: 256 FP8 and 8 bytes of scale a row.
    """
    found = fields.section("engram")
    if found is None:
        return ()
    rows, columns = found.integer("rows"), found.integer("columns")
    row = columns + found.integer("scale_bytes")
    read = found.integer("rows_per_token")
    note = f"{rows:,} rows of {row} bytes, {rows * row:,} in all: looked up, {read} rows a token, and not multiplied"
    return (Apart(name="engram", parameters=rows * columns, note=note),)


def _with_experts(fields: Fields, model: Model) -> Model:
    """The model with its routed experts in FP4 where the config says so and is not read as plain.

    Source: transformers 5.24, integrations/finegrained_fp8: two a byte, a scale for 32 of a row; activations are FP8.
    """
    stored = any(fields.data.get(section) is not None for section in SECTIONS)
    said = fields.text("expert_dtype")
    if not stored or said in {None, "fp8"}:
        return model
    if said != "fp4":
        raise ModelError(21, f"{fields.family}: expert_dtype is {shown(said)}", "known: fp4, fp8; or --weights bf16")
    note = "routed experts in FP4, a scale byte for 32 of a row"
    return replace(model, expert_weights=mxfp4("fp8"), notes=(*model.notes, note))
