"""Sessions to hold and how memory is kept go in; the ledger of every layout and its computed reserve come out.

The one place where a scenario asks for a ledger, so that plans under every discipline and `fit` keep memory alike.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from meshwright.base.numbers import divide_up
from meshwright.cost.memory_even import Shards, sharded_ledger
from meshwright.scenarios._engine import serving_engine
from meshwright.scenarios._engine_pool import kept_columns, started
from meshwright.scenarios._shared import computed_reserve

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints
    from meshwright.base.units import Bytes
    from meshwright.cost.memory import Ledger
    from meshwright.cost.reserve import Reserve, ReserveRule
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model
    from meshwright.scenarios._engine_pool import EngineOptions


class Kept(Protocol):
    """Options that say what is kept free and how state is sharded."""

    @property
    def workspace(self) -> Bytes: ...
    @property
    def reserve(self) -> ReserveRule | None: ...
    @property
    def shards(self) -> Shards: ...
    @property
    def pool(self) -> EngineOptions | None:
        """The engine whose pool keeps memory, in place of `workspace` and `reserve`."""
        ...


def resident_ledger(  # noqa: PLR0917 - what is held, and where
    model: Model, layouts: Layouts, options: Kept, sessions: Ints, tokens: Any, capacity_bytes: Any
) -> tuple[Ledger, Reserve | None]:
    """The ledger with `sessions` of `tokens` positions, and the reserve when the options compute one.

    The pages of the resident sessions are part of the reserve; room for others is that for sessions with their pages.
    An engine's pool leaves the sessions whole blocks of positions, and keeps the rest. Sessions, tokens and capacity
    may be columns. Raises JOB001 for a rule out of range, ENG002 for an option of an engine.
    """
    if options.pool is not None:
        return _of_a_pool(model, layouts, options, options.pool, sessions, tokens, capacity_bytes), None
    rule = options.reserve
    if rule is None:
        return _ledger(model, layouts, options, sessions, tokens, options.workspace, capacity_bytes, 0), None
    computed = computed_reserve(model, layouts, rule, sessions)
    ledger = _ledger(model, layouts, options, sessions, tokens, computed.total, capacity_bytes, 0)
    alone = computed_reserve(model, layouts, rule, np.zeros_like(sessions)).total
    room = _ledger(model, layouts, options, sessions, tokens, alone, capacity_bytes, int(rule.page_tokens) - 1)
    return replace(ledger, max_sessions=room.max_sessions), computed


def _of_a_pool(  # noqa: PLR0917 - as `resident_ledger`
    model: Model,
    layouts: Layouts,
    options: Kept,
    engine: EngineOptions,
    sessions: Ints,
    tokens: Any,
    capacity_bytes: Any,
) -> Ledger:
    turn = started(*serving_engine(engine.name), engine)[1] * layouts.degree("cp")  # a block on each rank of cp
    held = divide_up(tokens + 0 * turn, turn) * turn
    weights = _ledger(model, layouts, options, sessions, held, 0, 0, 0).parameters
    kept = kept_columns(model, layouts, engine, weights, capacity_bytes)
    return _ledger(model, layouts, options, sessions, held, kept, capacity_bytes, 0)


def _ledger(  # noqa: PLR0917 - as `resident_ledger`
    model: Model,
    layouts: Layouts,
    options: Kept,
    sessions: Ints,
    tokens: Any,
    workspace_bytes: Any,
    capacity_bytes: Any,
    padding_tokens: int,
) -> Ledger:
    return sharded_ledger(
        model,
        layouts,
        shards=options.shards,
        sessions=sessions,
        tokens=tokens,
        workspace_bytes=workspace_bytes,
        capacity_bytes=capacity_bytes,
        padding_tokens=padding_tokens,
    )
