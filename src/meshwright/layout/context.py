"""Columns of layouts go in; over how many ranks of cp a layer's weights are cut, and the group they make, come out.

Ranks of cp hold other positions of the same cached sessions. With attention=context_parallel they are one group with
the ranks of tp for everything else: what tp cuts is cut over both, but KV heads, which cp repeats. With any other they
repeat the weights, and a prompt's rows are dealt over them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from meshwright.base.numbers import where
from meshwright.layout.layout import CONTEXT_PARALLEL

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints
    from meshwright.layout.layout import Layout
    from meshwright.layout.layouts import Layouts


def has_context(layouts: Layouts) -> bool:
    """Whether ranks of cp share anything in some row."""
    return int(layouts.degree("cp").max(initial=1)) > 1


def joined_ways(layouts: Layouts) -> Ints | None:
    """Of each row the ranks of cp over which what tp cuts is cut too; None where no row has any."""
    if not has_context(layouts):
        return None
    chosen: Any = layouts.columns["attention"] == CONTEXT_PARALLEL
    return where(chosen, layouts.degree("cp"), np.ones(1, dtype=np.int64)) if chosen.any() else None


def by_weights(layouts: Layouts) -> Layouts:
    """The layouts as their weights see them: ranks of cp that share a layer with those of tp are ranks of tp.

    They are neighbours: cp lies next outside tp.
    """
    ways = joined_ways(layouts)
    if ways is None:
        return layouts
    return layouts.changed({"tp": layouts.degree("tp") * ways, "cp": layouts.degree("cp") // ways})


def weight_ranks(row: Layout) -> int:
    """`by_weights` of one layout: its degree of tp."""
    return row.tp * row.cp if row.attention == CONTEXT_PARALLEL else row.tp
