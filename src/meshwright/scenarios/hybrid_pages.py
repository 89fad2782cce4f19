"""How does an engine page the state of a hybrid model? A model, degrees and bytes go in; blocks and requests come out.

An engine with one pool of equal pages (vLLM 0.11 on) makes the pages of attention as large as the state of a recurrent
layer, and lets as many layers of one kind share a block as the rarest kind has:

    block_tokens     = state of a recurrent layer / bytes of a position of an attention layer, rounded up to a multiple
    groups           = layers of a kind / layers that share a block, rounded up, for each kind
    blocks           = available bytes / (page x layers that share a block)
    blocks of one    = attention groups x ceil(length / block_tokens) + state groups x state_blocks
    reported tokens  = (blocks // groups) x block_tokens: what a start-up log prints, fewer than fit

Source: vLLM 0.11, `get_kv_cache_groups` and `HybridAttentionMambaModelConfig`; the rule of blocks of one request:
kaito-project/kaito#2052. Leaves out windows, models without recurrent layers, and prefix caching.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from meshwright.base.errors import ModelError
from meshwright.base.units import Bytes, Tokens
from meshwright.cost.memory import cached_columns
from meshwright.job.serve import check_range
from meshwright.layout.layout import Layout, checked_layout
from meshwright.layout.layouts import table
from meshwright.layout.ownership import fullest_sizes, product
from meshwright.model.model import Model, group_blocks

if TYPE_CHECKING:
    from meshwright.layout.layouts import Layouts
    from meshwright.model.mixers.told import PositionState, SessionState
    from meshwright.model.model import Block

_MOST: Final = 2**40
_KERNEL: Final = "kernel"


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridPages:
    """state_bytes: of one recurrent layer and request on a rank.   position_bytes: of one attention layer.

    layers_a_block: of one kind that share a block.   blocks_a_request: of `max_model_len` positions.   reported_tokens:
    what a start-up log prints.   max_concurrency: requests of `max_model_len` that fit.   max_tokens: their positions.
    """

    state_bytes: int
    position_bytes: int
    block_tokens: int
    layers_a_block: int
    attention_groups: int
    state_groups: int
    blocks: int
    blocks_a_request: int
    reported_tokens: int
    max_concurrency: float
    max_tokens: float


def hybrid_pages(  # noqa: PLR0917 - a model, its degree and what an engine is told
    model: Model, tp: int, max_model_len: Tokens, available: Bytes, block_multiple: int, state_blocks: int
) -> HybridPages:
    """The pages of a model with one kind of attention layer and one of recurrent layer, on each of `tp` ranks.

    available: bytes for KV and state on a rank.   block_multiple: positions that a block is rounded up to a multiple
    of.   state_blocks: blocks that a request takes of each group of recurrent layers: 1, or 2 where states are kept at
    the ends of blocks (`align`). A convolution keeps all of its inputs but the newest, which comes with the token.
    Raises JOB001 (sizes), MOD041 (other layers), LAY001.
    """
    stated = {"max_model_len": max_model_len, "available": available, "block_multiple": block_multiple}
    for name, size in {**stated, "state_blocks": state_blocks}.items():
        check_range(name, size, 1, _MOST)
    layouts = table([checked_layout(Layout(tp=tp))])
    attention, recurrent = _layers(model)
    (block,), (states,) = attention, recurrent
    position = int(cached_columns(replace(model, groups=group_blocks([block])), layouts, 1)[0])
    state = sum(_state_bytes(model, item, layouts) for item in states)
    tokens = -(-state // (position * block_multiple)) * block_multiple
    full, turned = attention[block], recurrent[states]
    shared = min(full, turned)
    groups = -(-full // shared), -(-turned // shared)
    blocks = available // (tokens * position * shared)
    each = groups[0] * -(-max_model_len // tokens) + groups[1] * state_blocks
    return HybridPages(
        state_bytes=state,
        position_bytes=position,
        block_tokens=tokens,
        layers_a_block=shared,
        attention_groups=groups[0],
        state_groups=groups[1],
        blocks=blocks,
        blocks_a_request=each,
        reported_tokens=blocks // sum(groups) * tokens,
        max_concurrency=blocks / each,
        max_tokens=blocks / each * max_model_len,
    )


def _layers(model: Model) -> tuple[dict[Block, int], dict[tuple[SessionState, ...], int]]:
    """How many layers keep positions, by what they keep, and how many a state of fixed size, by that: one kind each."""
    attention: dict[tuple[PositionState, ...], tuple[Block, int]] = {}
    recurrent: dict[tuple[SessionState, ...], int] = {}
    for block, count in zip(model.kinds, model.kind_counts, strict=True):
        rows, states = block.mixer.token_state(), block.mixer.session_state()
        if rows:
            attention[rows] = (block, attention.get(rows, (block, 0))[1] + count)
        if states:
            recurrent[states] = recurrent.get(states, 0) + count
    spans = [item.span for rows in attention for item in rows]
    if len(attention) != 1 or len(recurrent) != 1 or any(span.bounded or span.stride > 1 for span in spans):
        cause = f"{model.name} has {len(attention)} kinds of cached positions and {len(recurrent)} of fixed state"
        raise ModelError(41, f"{cause}: pages are known for one of each, without windows", "choose another model")
    return dict(attention.values()), recurrent


def _state_bytes(model: Model, state: SessionState, layouts: Layouts) -> int:
    """On a rank; of a convolution, without the newest input."""
    sizes = list(fullest_sizes(state.tensor, layouts, "kv_cache"))
    if state.tensor.dims[-1].role == _KERNEL:
        sizes[-1] -= 1
    return int(np.max(model.session_bytes(state, product(sizes))))
