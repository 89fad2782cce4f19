"""Random models, and random layouts that keep the rules: small, so that every rank and every index can be visited."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product
from random import Random
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st

from meshwright.layout.layout import Layout
from meshwright.layout.layouts import columns, table
from meshwright.layout.mesh import coordinates
from meshwright.layout.ownership import owned
from meshwright.layout.rules import keeps_all
from meshwright.model.feed_forwards import Dense, Experts, Linear, NoFeedForward
from meshwright.model.formats import BF16, FP32, KV, QUANTIZED, WHOLE, Beside, Format, fp8_block, weight_format
from meshwright.model.mixers import Attention, LatentAttention, NoMixer
from meshwright.model.mixers.gated_delta import GatedDelta
from meshwright.model.mixers.kimi_delta import KimiDelta
from meshwright.model.mixers.latent import Indexer
from meshwright.model.mixers.lightning import Lightning
from meshwright.model.mixers.mamba import Mamba
from meshwright.model.mixers.mamba2 import Mamba2
from meshwright.model.mixers.nothing import LinearMixer
from meshwright.model.model import USUALLY_QUANTIZED, Block, BlockGroup, Ends, Model
from meshwright.search.candidates import divisors

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

    from meshwright.model.mixers import Mixer
    from meshwright.model.tensors import Tensor

HIDDEN = 24
CHUNK = st.sampled_from([4, 64])
_INDEX = Beside(name="group_index", block=(WHOLE, 1), value_bits=32)
_ZEROS = Beside(name="zero_points", block=(1, 8), value_bits=4, word_bits=32)
_WORDS = Format(
    name="words", bits=4, compute="bf16", block=(1, 8), scale_bytes=2, word_bits=32, beside=(_ZEROS, _INDEX)
)
FORMATS = (
    *(BF16, FP32, fp8_block(1, 1), fp8_block(2, 2), fp8_block(4, 8), fp8_block(1, WHOLE), fp8_block(WHOLE, WHOLE)),
    *(weight_format(name, BF16) for name in QUANTIZED),
    *(_WORDS, replace(_WORDS, words_along="rows"), replace(_WORDS, over="elements")),
)
ENDS = st.builds(
    Ends,
    embedding_width=st.sampled_from([None, 10]),
    position_rows=st.sampled_from([0, 18]),
    embedding_norm=st.booleans(),
    final_norm=st.booleans(),
)
MOST_RANKS = 24
DEGREES = ("tp", "cp", "dp_shard", "dp_replicate", "ep", "etp")


@st.composite
def mixers(draw: DrawFn) -> Attention:
    """Heads that many tp divide, and fewer KV heads, down to one."""
    heads = draw(st.sampled_from([4, 6, 8, 12]))
    return Attention(
        heads=heads,
        kv_heads=draw(st.sampled_from(divisors(heads))),
        head_dim=draw(st.sampled_from([2, 4])),
        window=draw(st.sampled_from([None, 3, 40])),
        qkv_bias=draw(st.booleans()),
        out_bias=draw(st.booleans()),
        qk_norm=draw(st.sampled_from(["none", "head", "full"])),
        output_gate=draw(st.booleans()),
        sinks=draw(st.booleans()),
    )


def trained_mixers() -> st.SearchStrategy[Mixer]:
    """Grouped and latent attention, whole or sparse, and recurrences, of heads that many tp divide."""
    heads, sizes = st.sampled_from([4, 8, 12]), st.sampled_from([2, 3])
    latents = st.builds(
        LatentAttention,
        heads=heads,
        query_rank=st.sampled_from([None, 6]),
        kv_rank=st.just(8),
        nope_dim=sizes,
        rope_dim=st.just(2),
        value_dim=sizes,
        bias=st.booleans(),
    )
    sparse = st.builds(
        LatentAttention,
        heads=heads,
        query_rank=st.just(6),
        kv_rank=st.just(8),
        nope_dim=sizes,
        rope_dim=st.just(2),
        value_dim=sizes,
        top_k=st.just(5),
        indexer=st.builds(Indexer, index_heads=sizes, index_dim=sizes) | st.none(),
    )
    delta = st.builds(GatedDelta, key_heads=st.just(4), value_heads=heads, key_dim=sizes, value_dim=sizes, chunk=CHUNK)
    kimi = st.builds(KimiDelta, heads=heads, head_dim=sizes, chunk=CHUNK)
    mamba2 = st.builds(
        Mamba2,
        heads=heads,
        head_dim=sizes,
        groups=st.sampled_from([1, 4]),
        state=sizes,
        bias=st.booleans(),
        chunk=CHUNK,
    )
    mamba = st.builds(Mamba, channels=heads, state=sizes, rank=sizes, inner_norms=st.booleans())
    return (
        mixers() | latents | sparse | delta | kimi | st.builds(Lightning, heads=heads, head_dim=sizes) | mamba | mamba2
    )


@st.composite
def denses(draw: DrawFn) -> Dense:
    return Dense(intermediate=draw(st.sampled_from([24, 48])), gated=draw(st.booleans()), bias=draw(st.booleans()))


@st.composite
def mixtures(draw: DrawFn) -> Experts:
    experts = draw(st.sampled_from([4, 6, 8]))
    return Experts(
        experts=experts,
        top_k=draw(st.integers(1, min(experts, 3))),
        intermediate=draw(st.sampled_from([12, 24])),
        gated=draw(st.booleans()),
        shared=draw(st.none() | denses()),
        shared_gate=draw(st.booleans()),
        bias=draw(st.booleans()),
        router_bias=draw(st.booleans()),
        router_fp32=draw(st.booleans()),
    )


def models() -> st.SearchStrategy[Model]:
    """Up to three kinds of block in any order; plain or quantised, whole or in parts; an uneven vocabulary."""
    return _models(st.builds(Block, mixer=mixers(), feed_forward=denses() | mixtures()))


def mixed_models() -> st.SearchStrategy[Model]:
    """As `models`, with any mixer that a training plan takes, experts in a latent space, and blocks of one half."""
    both = st.builds(Block, mixer=trained_mixers(), feed_forward=denses() | mixtures() | latent_mixtures())
    lone = st.builds(Block, mixer=trained_mixers(), feed_forward=st.just(NoFeedForward()), norms=st.just(("norm",)))
    rest = st.builds(Block, mixer=st.just(NoMixer()), feed_forward=denses() | mixtures(), norms=st.just(("norm",)))
    matrices = st.builds(
        Block, mixer=st.just(LinearMixer(linear_bias=True)), feed_forward=st.just(Linear(linear_bias=False))
    )
    return _models(both | lone | rest | matrices)


def latent_mixtures() -> st.SearchStrategy[Experts]:
    """Mixtures that work in fewer columns than the model's."""
    return mixtures().map(lambda item: replace(item, latent=16, latent_bias=item.bias))


@st.composite
def _models(draw: DrawFn, blocks: st.SearchStrategy[Block]) -> Model:
    kinds = draw(st.lists(blocks, min_size=1, max_size=3))
    order = draw(st.lists(st.tuples(st.sampled_from(kinds), st.integers(1, 3)), min_size=1, max_size=4))
    return Model(
        name="random",
        family="random",
        hidden=HIDDEN,
        vocab=draw(st.sampled_from([37, 48, 401])),
        tied=draw(st.booleans()),
        groups=tuple(BlockGroup(count=count, block=block) for block, count in order),
        norm=draw(st.sampled_from(["rms", "layer", "layer_without_bias", "layer_without_weights"])),
        ends=draw(ENDS),
        max_positions=None,
        weights=draw(st.sampled_from(FORMATS)),
        quantized_parts=draw(
            st.sampled_from([USUALLY_QUANTIZED, ("experts",), (*USUALLY_QUANTIZED, "router", "head")])
        ),
        kv=draw(st.sampled_from(list(KV.values()))),
    )


@st.composite
def layouts(draw: DrawFn, model: Model, *, serving: bool = False) -> Layout:
    """A layout that keeps every rule. serving: only the axes that a serving plan has."""
    sp = not serving and draw(st.booleans())
    chosen = draw(st.sampled_from(valid_degrees(model, serving=serving, sp=sp)))
    return Layout(
        **dict(zip(DEGREES, chosen, strict=True)),
        pp=draw(st.sampled_from(range(min(model.layers, 4), 0, -1))),
        replicas=draw(st.sampled_from([1, 1, 2])),
        zero=0 if serving else draw(st.sampled_from([3, 0, 1, 2])),
        sp=sp,
        attention=draw(st.sampled_from(["replicated", "data_parallel"])),
    )


@cache
def valid_degrees(model: Model, *, serving: bool, sp: bool) -> list[tuple[int, ...]]:
    """Every combination of small degrees that keeps the rules at any zero."""
    tried = possible_degrees(serving=serving)
    degrees = dict(zip(DEGREES, np.array(tried).T, strict=True))
    others = {"zero": np.full(len(tried), 3), "sp": np.full(len(tried), sp)}
    return [tried[row] for row in np.flatnonzero(keeps_all(model, columns(degrees | others))).tolist()]


@cache
def possible_degrees(*, serving: bool) -> list[tuple[int, ...]]:
    """Every combination of small degrees whose experts cover a stage a whole number of times."""
    found: list[tuple[int, ...]] = []
    one = (1,)
    others = product(one if serving else (1, 2), one if serving else (1, 2, 3), one if serving else (1, 2))
    for tp, (cp, dp_shard, dp_replicate) in product((1, 2, 3, 4, 6, 8, 12), others):
        ranks = tp * cp * dp_shard * dp_replicate
        if ranks <= MOST_RANKS:
            spreads = [(ep, etp) for ep in divisors(ranks) for etp in divisors(ranks // ep)]
            found += [(tp, cp, dp_shard, dp_replicate, ep, etp) for ep, etp in spreads]
    simplest, *mixed = found
    # hypothesis likes the first of a list: they must not all be narrow
    Random(0).shuffle(mixed)  # noqa: S311 - a fixed order, no secret
    return [simplest, *mixed]


@cache
def stage_ranks_of(layout: Layout, stage: int = 0) -> list[int]:
    """The ranks of one stage of the first replica."""
    return [rank for rank in range(layout.world_size // layout.replicas) if coordinates(layout, rank)["pp"] == stage]


@cache
def places_of(layout: Layout, stage: int = 0) -> dict[str, np.ndarray]:
    """The coordinates of those ranks, as columns."""
    places = [coordinates(layout, rank) for rank in stage_ranks_of(layout, stage)]
    return {axis: np.array([place[axis] for place in places]) for axis in places[0]}


def held_by_rank(tensor: Tensor, layout: Layout, state: str, stage: int = 0) -> list[tuple[range, ...]]:
    """The index ranges of a tensor on each rank of a stage, in rank order."""
    places = places_of(layout, stage)
    bounds = owned(tensor, table([layout]), places, state)
    edges = [[np.broadcast_to(edge, len(places["tp"])).tolist() for edge in dim] for dim in bounds]
    columns = [[range(first, last) for first, last in zip(*dim, strict=True)] for dim in edges]
    return list(zip(*columns, strict=True))
