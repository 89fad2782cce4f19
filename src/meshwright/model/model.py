"""A model is a sequence of block groups, each a mixer and a feed-forward, between an embedding and a head.

Everything later (memory, messages, time) is read off the tensors listed here, by block kind: blocks with the same
mixer, feed-forward and norms are one kind, however they alternate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from meshwright.base.errors import ModelError
from meshwright.base.result import Defaulted, Source
from meshwright.model.feed_forwards import FeedForward
from meshwright.model.formats import BF16, FP32, Format
from meshwright.model.mixers import Mixer
from meshwright.model.tensors import PARTS, Dim, Part, Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshwright.base.numbers import Ints
    from meshwright.model.mixers.told import PositionState, SessionState

USUALLY_QUANTIZED: Final[tuple[Part, ...]] = ("attention", "feed_forward", "experts")

Norm: TypeAlias = Literal["rms", "layer", "layer_without_bias", "layer_without_weights"]
"""RMSNorm (a weight), LayerNorm (a weight and a bias), and LayerNorm without its bias or without both."""

_TABLES: Final = frozenset({"embed_tokens.weight", "lm_head.weight"})
"""The token table and the head, tied or not: quantized together where the embedding is."""

PositionKind: TypeAlias = Literal["rotary", "learned", "alibi", "none"]
"""How tokens know their places: only learned positions have parameters (`Ends.position_rows`). "none": by the order in
which recurrent mixers read them alone."""

_SUFFIXES: Final[dict[Norm, tuple[str, ...]]] = {
    "rms": ("weight",),
    "layer": ("weight", "bias"),
    "layer_without_bias": ("weight",),
    "layer_without_weights": (),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One kind of block. `norms` are the names of its norms of the model's width."""

    mixer: Mixer
    feed_forward: FeedForward
    norms: tuple[str, ...] = ("input_layernorm", "post_attention_layernorm")


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockGroup:
    """`count` equal blocks that follow each other."""

    count: int
    block: Block


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """A part that the text decoder does not run, counted apart. `parameters` is None when its shapes are not read."""

    name: Literal["vision", "mtp", "buffers", "engram"]
    parameters: int | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope:
    """How positions were stretched, as the config says it; only reported, never computed with."""

    kind: str
    factor: float | None
    original_positions: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """What lies between the token table, the blocks and the head.

    embedding_width: columns of token table and head, None for the model's width; another one brings a projection into
    the blocks and one out of them.   position_rows: rows of a learned position table, 0 for none.
    embedding_norm: a norm of the embedded tokens.   final_norm: a norm after the last block.
    """

    embedding_width: int | None = None
    position_rows: int = 0
    embedding_norm: bool = False
    final_norm: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Shapes and formats of one decoder.

    weights: format of the matrices of `quantized_parts`.   plain: format of everything else, and of activations.
    kv: format of the cached keys and values.   max_positions: longest context the config claims, None when unknown.
    norm: of blocks and ends alike.   streams: copies of the residual that blocks read and write by learned weights
    (hyper-connections); 1 is the plain residual.   expert_weights: format of the matrices of routed experts, None for
    `weights`.   plain_modules: of a quantized part, the modules (`mlp.shared_expert`) that are stored plain.
    """

    name: str
    family: str
    hidden: int
    vocab: int
    tied: bool
    groups: tuple[BlockGroup, ...]
    norm: Norm = "rms"
    position_kind: PositionKind = "rotary"
    ends: Ends = Ends()
    streams: int = 1
    max_positions: int | None
    rope: Rope | None = None
    weights: Format = BF16
    quantized_parts: tuple[Part, ...] = USUALLY_QUANTIZED
    expert_weights: Format | None = None
    plain_modules: tuple[str, ...] = ()
    plain: Format = BF16
    kv: Format = BF16
    apart: tuple[Apart, ...] = ()
    defaulted: tuple[Defaulted, ...] = ()
    source: Source | None = None
    notes: tuple[str, ...] = ()

    def __hash__(self) -> int:
        """Each kind once, however many groups have it: caches ask often, and what-ifs differ in sizes of kinds."""
        counts = tuple(group.count for group in self.groups)
        return hash((self.name, self.hidden, self.vocab, self.weights, self.kv, counts, self.kinds))

    @property
    def layers(self) -> int:
        """Number of blocks."""
        return sum(group.count for group in self.groups)

    @property
    def kinds(self) -> tuple[Block, ...]:
        """The distinct blocks, in order of first use."""
        return tuple(dict.fromkeys(self._objects().values()))

    @property
    def kind_of_layer(self) -> tuple[int, ...]:
        """For each layer, the index of its block in `kinds`."""
        index = self._kind_of_object()
        return tuple(chain.from_iterable([index[id(group.block)]] * group.count for group in self.groups))

    @property
    def kind_counts(self) -> tuple[int, ...]:
        """How many layers each kind has."""
        index = self._kind_of_object()
        counts = dict.fromkeys(index.values(), 0)
        for group in self.groups:
            counts[index[id(group.block)]] += group.count
        return tuple(counts.values())

    def _kind_of_object(self) -> dict[int, int]:
        """The index in `kinds` of each block object, by its identity."""
        index = {block: place for place, block in enumerate(self.kinds)}
        return {identity: index[block] for identity, block in self._objects().items()}

    def _objects(self) -> dict[int, Block]:
        """The blocks by identity: comparing objects is cheap, and `sharing` leaves few of them."""
        return {id(group.block): group.block for group in self.groups}

    def format_of(self, tensor: Tensor) -> Format:
        """The format a weight is stored in."""
        table = tensor.name in _TABLES and "embedding" in self.quantized_parts
        if (tensor.quantized or table) and tensor.part in self.quantized_parts and not self._kept_plain(tensor):
            routed = tensor.dims[0].role == "experts"
            return self.expert_weights if routed and self.expert_weights is not None else self.weights
        return FP32 if tensor.fp32 else self.plain

    def _kept_plain(self, tensor: Tensor) -> bool:
        return any(tensor.name.startswith(f"{module}.") for module in self.plain_modules)

    def cached_bytes(self, state: PositionState, sizes: Sequence[int | Ints]) -> int | Ints:
        """Bytes of a piece of per-position state with these dims; a scale of the format is for one head of a position.

        State that has no heads is one row a position.
        """
        *outer, width = sizes
        grain = state.tensor.dims[-1].grain
        rows = (width // grain, grain) if grain > 1 else (1, width)
        return (state.format or self.kv).stored_bytes((*outer, *rows))

    def session_bytes(self, state: SessionState, elements: int | Ints) -> int | Ints:
        """Bytes of so many elements of a state of fixed size."""
        return elements * (state.format or self.plain).bits // 8


def group_blocks(blocks: list[Block]) -> tuple[BlockGroup, ...]:
    """Blocks in layer order as runs of equal ones. Raises MOD011 when there is none."""
    if not blocks:
        raise ModelError(11, "the model has no layers", "give num_hidden_layers >= 1")
    groups: list[BlockGroup] = []
    for block in blocks:
        if groups and groups[-1].block == block:
            groups[-1] = replace(groups[-1], count=groups[-1].count + 1)
        else:
            groups.append(BlockGroup(count=1, block=block))
    return tuple(groups)


def sharing(model: Model) -> Model:
    """The same model, its equal blocks one object: what is asked of each kind is then asked of few."""
    known: dict[Block, Block] = {}
    groups = tuple(replace(group, block=known.setdefault(group.block, group.block)) for group in model.groups)
    return replace(model, groups=groups)


@cache
def block_weights(model: Model, kind: int) -> tuple[Tensor, ...]:
    """The weights of one block of a kind."""
    block = model.kinds[kind]
    norms = chain.from_iterable(_norm(name, model) for name in block.norms)
    return (
        *block.mixer.weights(model.hidden),
        *block.feed_forward.weights(model.hidden),
        *norms,
        *_stream_weights("attn_hc", model),
        *_stream_weights("ffn_hc", model),
    )


@cache
def first_weights(model: Model) -> tuple[Tensor, ...]:
    """What the first stage holds beside its blocks: the token embedding and what is done to its rows.

    That is, where a model has them, a learned position table, a projection to the model's width, and a norm.
    """
    tokens = Tensor(name="embed_tokens.weight", part="embedding", dims=_vocabulary(model))
    rows = (Dim(role="table_rows", size=model.ends.position_rows), Dim(role="hidden", size=model.hidden))
    positions = Tensor(name="embed_positions.weight", part="embedding", dims=rows)
    return (
        tokens,
        *((positions,) if model.ends.position_rows else ()),
        *_projection("project_in", model),
        *(_norm("embed_norm", model) if model.ends.embedding_norm else ()),
    )


@cache
def last_weights(model: Model) -> tuple[Tensor, ...]:
    """What the last stage holds beside its blocks: the final norm and the head (the embedding's storage when tied).

    Between the two a projection from the model's width to the head's, where they differ.
    """
    alias = "embed_tokens.weight" if model.tied else None
    dims = _vocabulary(model)
    head = Tensor(name="lm_head.weight", part="head", dims=dims, quantized=not model.tied, alias=alias)
    final = _norm("norm", model) if model.ends.final_norm else ()
    return (*_last_stream_weights(model), *final, *_projection("project_out", model), head)


def parameter_counts(model: Model) -> dict[str, int]:
    """Parameters by part and `total`; a tied head counts once, under `embedding`."""
    counts = dict.fromkeys(PARTS, 0)
    for tensor, copies in _all_weights(model):
        counts[tensor.part] += copies * tensor.elements
    return {"total": sum(counts.values()), **counts}


def parameter_bytes(model: Model) -> dict[str, int]:
    """Stored bytes by part and `total`, scales included, each tensor whole."""
    sizes = dict.fromkeys(PARTS, 0)
    for tensor, copies in _all_weights(model):
        sizes[tensor.part] += copies * _stored(model, tensor)
    return {"total": sum(sizes.values()), **sizes}


def format_bytes(model: Model) -> dict[str, int]:
    """Stored bytes by number format."""
    sizes: dict[str, int] = {}
    for tensor, copies in _all_weights(model):
        stored = model.format_of(tensor)
        sizes[stored.name] = sizes.get(stored.name, 0) + copies * _stored(model, tensor)
    return sizes


def _stored(model: Model, tensor: Tensor) -> int:
    return cast("int", model.format_of(tensor).stored_bytes(tensor.shape))


def _all_weights(model: Model) -> list[tuple[Tensor, int]]:
    ends = [(tensor, 1) for tensor in (*first_weights(model), *last_weights(model)) if tensor.alias is None]
    counts = model.kind_counts
    blocks = [(tensor, counts[kind]) for kind in range(len(counts)) for tensor in block_weights(model, kind)]
    return ends + blocks


def _vocabulary(model: Model) -> tuple[Dim, ...]:
    return (Dim(role="vocab", size=model.vocab), Dim(role="hidden", size=_embedding_width(model)))


def _embedding_width(model: Model) -> int:
    width = model.ends.embedding_width
    return model.hidden if width is None else width


def _projection(name: str, model: Model) -> tuple[Tensor, ...]:
    """[out, in] between the width of the token table and that of the model; none where they are the same.

    Counted under `other`; kept whole on every rank, as its sum would be an exchange of its own.
    """
    if _embedding_width(model) == model.hidden:
        return ()
    narrow, wide = Dim(role="hidden", size=_embedding_width(model)), Dim(role="hidden", size=model.hidden)
    dims = (wide, narrow) if name == "project_in" else (narrow, wide)
    return (Tensor(name=f"{name}.weight", part="other", dims=dims),)


def _stream_weights(name: str, model: Model) -> tuple[Tensor, ...]:
    """What reads one row out of the streams, spreads a result over them, and mixes them; none without streams.

    fn [(2 + n) n, n hidden], base and scale in fp32, on every rank. Source: Xie et al., "mHC" (arXiv 2512.24880), as
    transformers 5.24 builds it, DeepseekV4HyperConnection.
    """
    count = model.streams
    return _streamed(name, model, rows=(2 + count) * count, scales=3) if count > 1 else ()


def _last_stream_weights(model: Model) -> tuple[Tensor, ...]:
    """What reads the last row out of the streams. Source: transformers 5.24, DeepseekV4HyperHead."""
    return _streamed("hc_head", model, rows=model.streams, scales=1) if model.streams > 1 else ()


def _streamed(name: str, model: Model, *, rows: int, scales: int) -> tuple[Tensor, ...]:
    out, read = Dim(role="table_rows", size=rows), Dim(role="hidden", size=model.streams * model.hidden)
    shapes = {"fn": (out, read), "base": (out,), "scale": (Dim(role="table_rows", size=scales),)}
    return tuple(Tensor(name=f"{name}.{key}", part="other", dims=dims, fp32=True) for key, dims in shapes.items())


def _norm(name: str, model: Model) -> tuple[Tensor, ...]:
    """In fp32 where it reads residual streams, as their weights are. Source: transformers 5.24, DeepseekV4."""
    width, fp32 = (Dim(role="hidden", size=model.hidden),), model.streams > 1
    names = (f"{name}.{suffix}" for suffix in _SUFFIXES[model.norm])
    return tuple(Tensor(name=item, part="norms", dims=width, fp32=fp32) for item in names)
