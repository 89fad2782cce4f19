"""The ledger in two forms of sharding: `strict` is the ownership table's, `even` divides all by tp exactly.

The even form is that of a back-of-envelope table: no tensor is repeated over the ranks of a tp group, neither norms and
routers nor the KV heads that are fewer than the ranks.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from meshwright.base.numbers import divide_up, maximum
from meshwright.cost.memory import Ledger, cached_columns, serving_ledger, token_columns
from meshwright.cost.memory_parts import parts_bytes
from meshwright.layout.layouts import Layouts, table

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints
    from meshwright.layout.layout import Layout
    from meshwright.model.model import Model

Shards: TypeAlias = Literal["strict", "even"]


def sharded_ledger(
    model: Model,
    layouts: Layouts,
    *,
    shards: Shards,
    sessions: Ints,
    tokens: int | Ints,
    workspace_bytes: int | Ints,
    capacity_bytes: int | Ints,
    padding_tokens: int = 0,
) -> Ledger:
    """The ledger of `serving_ledger` in either form.

    Of `even`, what fits is `floor((n (C - U) - W) / S)` on the n ranks of a tp group, W their weights and S one
    session's state, both whole. Source: chapter "Supernodes", footnote 37.
    """
    if shards == "strict":
        return serving_ledger(
            model,
            layouts,
            sessions=sessions,
            tokens=tokens,
            workspace_bytes=workspace_bytes,
            capacity_bytes=capacity_bytes,
            padding_tokens=padding_tokens,
        )
    ways = layouts.degree("tp")
    whole = serving_ledger(
        model,
        _together(layouts),
        sessions=sessions,
        tokens=tokens,
        workspace_bytes=workspace_bytes * ways,
        capacity_bytes=capacity_bytes * ways,
        padding_tokens=padding_tokens,
    )
    workspace = np.broadcast_to(np.asarray(workspace_bytes), len(layouts))
    parameters = divide_up(whole.parameters, ways)
    held = divide_up(whole.parameters + whole.kv_cache, ways)
    return replace(
        whole, parameters=parameters, kv_cache=held - parameters, workspace=workspace, total=held + workspace
    )


def sharded_parts(model: Model, layout: Layout, stage: int, shards: Shards) -> dict[str, int]:
    """`parts_bytes` in either form; they add up to the ledger's parameters to the byte."""
    if shards == "strict":
        return parts_bytes(model, layout, stage)
    whole = parts_bytes(model, _together(table([layout])).row(0), stage)
    ends = [divide_up(end, layout.tp) for end in accumulate(whole.values(), initial=0)]
    return {part: last - first for part, (first, last) in zip(whole, pairwise(ends), strict=True)}


def sharded_cached(model: Model, layouts: Layouts, positions: int, shards: Shards) -> Ints:
    """`cached_columns` in either form."""
    if shards == "strict":
        return cached_columns(model, layouts, positions)
    return divide_up(cached_columns(model, _together(layouts), positions), layouts.degree("tp"))


def sharded_token(model: Model, layouts: Layouts, shards: Shards) -> Ints:
    """`token_columns` in either form."""
    if shards == "strict":
        return token_columns(model, layouts)
    return divide_up(token_columns(model, _together(layouts)), layouts.degree("tp"))


def _together(layouts: Layouts) -> Layouts:
    """The layouts with each tp group as one rank: its experts lie where ep x etp reach beyond the group."""
    ones = np.ones(len(layouts), dtype=np.int64)
    beyond = maximum(layouts.degree("ep") * layouts.degree("etp") // layouts.degree("tp"), 1)
    return layouts.changed({"tp": ones, "ep": beyond, "etp": ones})
