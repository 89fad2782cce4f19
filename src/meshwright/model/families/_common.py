"""What decoder families share: sizes, heads, windows and formats read from a config, and the `Model` made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshwright.base.errors import ModelError
from meshwright.base.result import Defaulted
from meshwright.model.checks import MOST_LAYERS, check_size
from meshwright.model.config import shown
from meshwright.model.feed_forwards import Experts
from meshwright.model.formats import Format, plain_format
from meshwright.model.mixers import Attention
from meshwright.model.model import Block, Ends, Model, Norm, PositionKind, Rope, group_blocks
from meshwright.model.quantization import read_quantization

if TYPE_CHECKING:
    from meshwright.model.config import Fields

USUAL_ENDS: Final = Ends()
_FULL: Final = "full_attention"
_SLIDING: Final = "sliding_attention"


def read_layers(fields: Fields, default: int | None, *names: str) -> int:
    """Number of blocks, under `names` where the family calls it so. Raises MOD012 beyond what any model has."""
    known = names or ("num_hidden_layers",)
    layers = fields.integer(*known, default=default)
    if layers > MOST_LAYERS:
        raise ModelError(12, f"{known[0]} is {layers}", f"give at most {MOST_LAYERS}")
    return layers


def read_heads(
    fields: Fields, hidden: int, *, heads: int, kv_heads: int | None, head_dim: int | None = None
) -> Attention:
    """Grouped-query attention of these query heads, KV heads and head width, plain otherwise.

    `kv_heads` None means as many as query heads, which null means in every family; `head_dim` None means
    hidden // heads, which null means there. Raises MOD007 when the KV heads do not divide the query heads, MOD008 when
    the width of a head cannot be derived or is odd.
    """
    count = fields.integer("num_attention_heads", default=heads)
    said = "num_key_value_heads" in fields.data
    kv_count = fields.derived("num_key_value_heads", default=count if said or kv_heads is None else kv_heads)
    if count % kv_count:
        cause = f"num_key_value_heads={kv_count} does not divide num_attention_heads={count}"
        raise ModelError(7, cause, "every KV head serves the same number of query heads")
    if head_dim is not None:
        width = fields.integer("head_dim", default=head_dim)
    elif fields.data.get("head_dim") is None and hidden % count:
        cause = f"head_dim is missing, and num_attention_heads={count} does not divide hidden_size={hidden}"
        raise ModelError(8, cause, "add head_dim to the config")
    else:
        width = fields.derived("head_dim", default=hidden // count)
    if width % 2:
        raise ModelError(8, f"head_dim={width} is odd, and rotary positions turn pairs", "give an even head_dim")
    return Attention(heads=count, kv_heads=kv_count, head_dim=width)


def read_windows(fields: Fields, layers: int, *, size: int | None, first: int = 0) -> list[int | None]:
    """The window of each layer: `size` on the layers that `layer_types` calls sliding, else on those from `first` on.

    Raises MOD009 for a kind of layer that is not known, a count that is not that of the layers, and a sliding layer
    without a size. Source: transformers 5.24, cache_utils.get_layer_types_and_kwargs, which shapes the cache so for
    every family.
    """
    kinds = fields.words("layer_types")
    if kinds is None:
        return [size if layer >= first else None for layer in range(layers)]
    unknown = sorted(set(kinds) - {_FULL, _SLIDING})
    if unknown:
        raise ModelError(9, f"{fields.family}: layer_types holds {unknown[0]!r}", f"give {_FULL} or {_SLIDING}")
    if len(kinds) != layers:
        cause = f"{fields.family}: layer_types has {len(kinds)} entries for {layers} layers"
        raise ModelError(9, cause, "give one entry a layer")
    if size is None and _SLIDING in kinds:
        cause = f"{fields.family}: layer_types holds {_SLIDING}, and no window is in use"
        raise ModelError(9, cause, "give sliding_window, with use_sliding_window true where the family has it")
    return [size if kind == _SLIDING else None for kind in kinds]


def read_spaced_windows(fields: Fields, layers: int, *, size: int | None, step: int) -> list[int | None]:
    """The window of each layer: every `step`-th sees all positions, the others `size`, unless `layer_types` decides.

    Raises MOD009 as `read_windows`, and when layers slide without a size.
    """
    if fields.words("layer_types") is not None:
        return read_windows(fields, layers, size=size)
    sliding = [bool((layer + 1) % step) for layer in range(layers)]
    if size is None and True in sliding:
        cause = f"{fields.family}: sliding_window is null, and some layers slide"
        raise ModelError(9, cause, f"give sliding_window, or layer_types with {_FULL} only")
    return [size if slides else None for slides in sliding]


def read_alternating_windows(fields: Fields, layers: int, *, default: int) -> list[int | None]:
    """The window of each layer where every other one slides, the first included, unless `layer_types` decides."""
    size = fields.optional("sliding_window", default=default)
    if fields.data.get("layer_types") is None:
        kinds = f"{_SLIDING}, {_FULL}, alternating"
        fields.defaulted.append(Defaulted(field=f"{fields.prefix}layer_types", value=kinds, origin=fields.origin))
    return read_spaced_windows(fields, layers, size=size, step=2)


def read_listed_windows(fields: Fields, layers: int) -> list[int | None]:
    """Windows only where `layer_types` asks for them: of a family in which `sliding_window` alone changes no mask."""
    size = fields.data.get("sliding_window")
    if fields.words("layer_types") is not None:
        return read_windows(fields, layers, size=None if size is None else fields.integer("sliding_window"))
    if size is not None:
        fields.notes.append(f"sliding_window={shown(size)} is not used: {fields.family} layers see every position")
    return [None] * layers


def read_sliding_window(fields: Fields) -> int | None:
    """The window of a Qwen-style config, which `use_sliding_window` switches on."""
    if not fields.flag("use_sliding_window", default=False):
        return None
    return fields.optional("sliding_window", default=4096)


def read_later_windows(fields: Fields, layers: int) -> list[int | None]:
    """The window of each layer of a Qwen-style config whose first `max_window_layers` see every position."""
    size = read_sliding_window(fields)
    settled = size is None or fields.words("layer_types") is not None
    first = 0 if settled else fields.integer("max_window_layers", default=28, least=0)
    return read_windows(fields, layers, size=size, first=first)


def read_sparse_layers(fields: Fields, layers: int, count: int) -> list[bool]:
    """Whether each layer has experts: every `decoder_sparse_step`-th unless it is listed in `mlp_only_layers`.

    count: of experts; none has any where it is 0.
    """
    dense = fields.indices("mlp_only_layers")
    step = fields.integer("decoder_sparse_step", default=1)
    return [count > 0 and layer not in dense and (layer + 1) % step == 0 for layer in range(layers)]


def read_experts(fields: Fields, width: int, count: int, *, top_k: int | None) -> Experts:
    """A mixture of `count` without shared experts. Raises MOD010 when a token would visit more than there are."""
    visits = fields.integer("num_experts_per_tok", default=top_k)
    if visits > count:
        cause = f"num_experts_per_tok={visits} is more than the {count} experts"
        raise ModelError(10, cause, f"give num_experts_per_tok <= {count}")
    return Experts(experts=count, top_k=visits, intermediate=width)


def decoder(
    fields: Fields, name: str, *, hidden: int, vocab: int, blocks: list[Block], positions: int, tied: bool = False
) -> Model:
    """The `Model` of a decoder whose embedding, head, positions and formats follow the usual field names.

    positions, tied: what its class takes for `max_position_embeddings` and `tie_word_embeddings`.
    """
    return assemble(
        fields,
        name,
        hidden=hidden,
        vocab=vocab,
        blocks=blocks,
        tied=fields.flag("tie_word_embeddings", default=tied),
        max_positions=fields.integer("max_position_embeddings", default=positions),
    )


def assemble(
    fields: Fields,
    name: str,
    *,
    hidden: int,
    vocab: int,
    blocks: list[Block],
    tied: bool,
    max_positions: int | None,
    norm: Norm = "rms",
    position_kind: PositionKind = "rotary",
    ends: Ends = USUAL_ENDS,
) -> Model:
    """The `Model` of what a family read; its formats follow the usual field names.

    Raises MOD012 beyond what any model has, MOD013 for layers described one by one, MOD020..MOD022 for formats.
    """
    if fields.data.get("per_layer_config") is not None:
        cause = f"{fields.family}: per_layer_config gives single layers shapes of their own, which are not read"
        raise ModelError(13, cause, "leave it out to plan with the same shapes in every layer")
    plain = _read_plain(fields)
    model = Model(
        name=name,
        family=fields.family,
        hidden=hidden,
        vocab=vocab,
        tied=tied,
        groups=group_blocks(blocks),
        norm=norm,
        position_kind=position_kind,
        ends=ends,
        max_positions=max_positions,
        rope=_read_rope(fields),
        weights=plain,
        plain=plain,
        kv=plain,
        defaulted=tuple(fields.defaulted),
        notes=tuple(fields.notes),
    )
    return check_size(read_quantization(fields, model))


def _read_plain(fields: Fields) -> Format:
    said = fields.text("dtype", "torch_dtype")
    if said is not None:
        return plain_format(said)
    origin = "assumed: serving engines load a config without a dtype in bf16"
    fields.defaulted.append(Defaulted(field="torch_dtype", value="bfloat16", origin=origin))
    return plain_format("bfloat16")


def _read_rope(fields: Fields) -> Rope | None:
    scaling = fields.section("rope_scaling") or fields.section("rope_parameters")
    if scaling is None:
        return None
    scaling = scaling.section(_FULL) or scaling  # given by kind of layer: the others are never stretched
    original = scaling.number("original_max_position_embeddings")
    return Rope(
        kind=scaling.text("rope_type", "type") or "default",
        factor=scaling.number("factor"),
        original_positions=None if original is None else int(original),
    )
