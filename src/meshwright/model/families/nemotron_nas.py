"""Nemotron-NAS (DeciLM; Llama-Nemotron Super and Ultra): each block has shapes of its own, or lacks one half.

    block_configs[i].attention   n_heads_in_group: query heads a KV head   no_op: no attention, and no norm before it
                                 replace_with_linear: one matrix   window_length: a sliding window
    block_configs[i].ffn         ffn_mult: width is 2/3 of ffn_mult x hidden_size, rounded up to 256
                                 no_op: no feed-forward, and no norm before it   replace_with_linear: one matrix

No class of transformers reads it. Source: the released modeling_decilm.py of nvidia/Llama-3_3-Nemotron-Super-49B-v1
(facts only); Puzzle (arXiv 2411.19146). Its `model_type` is `nemotron-nas`. Without `vocab_size` and the like a config
is refused: there is no class whose defaults it could take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from meshwright.base.errors import ModelError
from meshwright.model.config import Fields, shown
from meshwright.model.families._common import decoder, read_layers
from meshwright.model.families._multi_head import read_head_dim
from meshwright.model.feed_forwards import Dense, FeedForward, Linear, NoFeedForward
from meshwright.model.mixers import Attention
from meshwright.model.mixers.nothing import LinearMixer, NoMixer
from meshwright.model.model import Block, Model

if TYPE_CHECKING:
    from meshwright.model.mixers import Mixer

_ROUNDING: Final = 256
_UNREAD: Final = ("sparsify", "num_sink_tokens", "unshifted_sink", "use_prefill_window_in_sink_attention")
_POSITIONS: Final = 2048  # of the Llama config that DeciLM's extends


def read(fields: Fields, name: str) -> Model:
    """A `Model` from the fields of a `nemotron-nas` config.

    Raises MOD007 for heads that a group does not divide, MOD009 for a wrong number of blocks, MOD013 for sinks and
    sparse layers, which no released model has.
    """
    fields.origin = "the released code of nemotron-nas"
    hidden, layers = fields.integer("hidden_size"), read_layers(fields, None)
    heads = fields.integer("num_attention_heads")
    width = read_head_dim(fields, hidden, heads)
    bias, dense_bias = fields.flag("attention_bias", default=False), fields.flag("mlp_bias", default=False)
    blocks: list[Block] = []
    for block in _sections(fields, layers):
        attention, ffn = _half(block, "attention"), _half(block, "ffn")
        mixer = _read_mixer(attention, heads, width, bias=bias)
        layer = _read_feed_forward(ffn, hidden, bias=dense_bias)
        kept = {"input_layernorm": mixer != NoMixer(), "post_attention_layernorm": layer != NoFeedForward()}
        norms = tuple(name for name, there in kept.items() if there)
        blocks.append(Block(mixer=mixer, feed_forward=layer, norms=norms))
    vocab = fields.integer("vocab_size")
    return decoder(fields, name, hidden=hidden, vocab=vocab, blocks=blocks, positions=_POSITIONS)


def _sections(fields: Fields, layers: int) -> list[Fields]:
    listed: object = fields.data.get("block_configs")
    blocks = cast("list[dict[str, Any]]", listed) if isinstance(listed, list) else []
    if not blocks or not all(isinstance(item, dict) for item in cast("list[object]", blocks)):
        raise fields.wrong("block_configs", fields.data.get("block_configs"), "a list of objects, one a block")
    if len(blocks) != layers:
        cause = f"{fields.family}: block_configs has {len(blocks)} entries for {layers} layers"
        raise ModelError(9, cause, "give one entry a layer")
    place = f"{fields.prefix}block_configs"
    return [
        Fields(data=block, family=fields.family, origin=fields.origin, prefix=f"{place}.{index}.")
        for index, block in enumerate(blocks)
    ]


def _half(block: Fields, name: str) -> Fields:
    half = block.section(name)
    if half is None:
        raise block.wrong(name, block.data.get(name), "an object")
    for unread in _UNREAD:
        said: object = half.data.get(unread)
        if said is not None and said is not False:
            cause = f"{half.family}: {half.prefix}{unread} is {shown(said)}, which is not read"
            raise ModelError(13, cause, "leave it out to plan without it")
    return half


def _read_mixer(half: Fields, heads: int, head_dim: int, *, bias: bool) -> Mixer:
    if half.flag("no_op", default=False):
        return NoMixer()
    if half.flag("replace_with_linear", default=False):
        return LinearMixer(linear_bias=bias)
    group = half.integer("n_heads_in_group")
    if heads % group:
        cause = f"{half.family}: {half.prefix}n_heads_in_group={group} does not divide num_attention_heads={heads}"
        raise ModelError(7, cause, "every KV head serves the same number of query heads")
    window = None if half.data.get("window_length") is None else half.integer("window_length")
    kv_heads = heads // group
    return Attention(heads=heads, kv_heads=kv_heads, head_dim=head_dim, window=window, qkv_bias=bias, out_bias=bias)


def _read_feed_forward(half: Fields, hidden: int, *, bias: bool) -> FeedForward:
    if half.flag("no_op", default=False):
        return NoFeedForward()
    if half.flag("replace_with_linear", default=False):
        return Linear(linear_bias=bias)
    factor = half.number("ffn_mult")
    if factor is None or factor <= 0:
        raise half.wrong("ffn_mult", half.data.get("ffn_mult"), "a number above 0")
    width = int(2 * factor * hidden / 3)
    return Dense(intermediate=-(-width // _ROUNDING) * _ROUNDING, bias=bias)
