"""The ledger: a model, columns of layouts and what is resident go in; exact bytes on the fullest rank come out.

Weights, gradients and states are read off the ownership table; nothing is counted by a formula of its own. `resident`
here is what serving keeps: parameters, cached keys and values of every admitted session (queued ones too), workspace.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.layout.ownership import fullest_sizes, local_elements, local_samples, sample_ways, stage_of_layers
from meshwright.model.model import Model, block_weights, first_weights, last_weights
from meshwright.model.tensors import Dim

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints
    from meshwright.layout.layouts import Layouts
    from meshwright.model.tensors import Tensor

_UNLIMITED: Final = 2**62


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ledger:
    """Columns of int64, one row a layout: bytes on the fullest rank, and what would still fit.

    stage: the pipeline stage of the fullest rank.   kv_cache: of the sessions resident there.   max_sessions,
    max_kv_tokens: per replica, over its copies of attention where each has its own samples, and over cp; the stage with
    the least room decides (0 when the weights alone do not fit).
    """

    stage: Ints
    parameters: Ints
    kv_cache: Ints
    workspace: Ints
    total: Ints
    max_sessions: Ints
    max_kv_tokens: Ints


def serving_ledger(
    model: Model, layouts: Layouts, *, sessions: Ints, tokens: int | Ints, workspace_bytes: int, capacity_bytes: int
) -> Ledger:
    """Bytes per rank with `sessions` (a column: per replica) of `tokens` cached positions each (or a column).

    `W + K + U <= C` on every rank. Source: chapter "Supernodes", equation 6-1.
    """
    held = np.zeros((6, len(layouts)), dtype=np.int64)
    weights, session, token = _per_kind(model, layouts, tokens)
    ends = _ends(model, layouts)
    resident = local_samples(sessions, layouts)
    room = capacity_bytes - workspace_bytes
    for stages, rows in _by_stages(layouts):
        counts, numbers = _stages(model, stages)
        per_stage = tuple(column[rows] @ counts[:, :-2].T for column in (weights, session, token))
        fixed = per_stage[0] + ends[rows] @ counts[:, -2:].T
        fullest = _fullest(fixed, per_stage[1] * resident[rows, None], numbers)
        free = np.maximum(room - fixed, 0)
        held[:, rows] = np.stack([*fullest, _room_for(free, per_stage[1]), _room_for(free, per_stage[2])])
    stage, parameters, kv_cache, total, max_sessions, max_tokens = held
    ways = sample_ways(layouts)
    return Ledger(
        stage=stage,
        parameters=parameters,
        kv_cache=kv_cache,
        workspace=np.full(len(layouts), workspace_bytes, dtype=np.int64),
        total=total + workspace_bytes,
        max_sessions=_times(max_sessions, ways),
        max_kv_tokens=_times(max_tokens, ways * layouts.degree("cp")),
    )


def _by_stages(layouts: Layouts) -> list[tuple[int, Ints]]:
    """The rows of each number of stages."""
    stages = layouts.degree("pp")
    order = np.argsort(stages, kind="stable")
    found, starts = np.unique(stages[order], return_index=True)
    parts = pairwise([*starts.tolist(), len(order)])
    return [(count, order[start:stop]) for count, (start, stop) in zip(found.tolist(), parts, strict=True)]


def state_bytes_per_token(model: Model, kind: int) -> int:
    """Bytes that one cached position adds to one layer of a kind, whole."""
    state = model.kinds[kind].mixer.token_state()
    return sum(int(model.cached_bytes(tensor, tensor.shape)) for tensor in state)


def stored_columns(model: Model, tensors: tuple[Tensor, ...], layouts: Layouts) -> Ints:
    """Stored bytes of tensors on the fullest rank of their stage, one row a layout."""
    total = np.zeros(len(layouts), dtype=np.int64)
    for tensor in tensors:
        total = total + model.format_of(tensor).stored_bytes(fullest_sizes(tensor, layouts))
    return total


def _fullest(fixed: Ints, cached: Ints, numbers: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Stage, parameters, kv_cache and total of the fullest of the stages (columns), the first of equally full ones."""
    worst = np.argmax(fixed + cached, axis=1)
    rows = np.arange(len(worst))
    return numbers[worst], fixed[rows, worst], cached[rows, worst], (fixed + cached)[rows, worst]


def _room_for(free: Ints, each: Ints) -> Ints:
    """How many of `each` bytes fit, on the stage with the least room; a stage that keeps no state does not bound it."""
    counts = np.where(each > 0, free // np.maximum(each, 1), _UNLIMITED)
    return counts.min(axis=1)


def _times(count: Ints, ways: Ints) -> Ints:
    return np.minimum(count, _UNLIMITED // ways) * ways


def _per_kind(model: Model, layouts: Layouts, tokens: int | Ints) -> tuple[Ints, Ints, Ints]:
    """[rows, kinds] of one layer's weight bytes, bytes of one session's state, and bytes of one cached position."""
    weights: list[Ints] = []
    session: list[Ints] = []
    token: list[Ints] = []
    for kind, block in enumerate(model.kinds):
        window = block.mixer.window
        kept = tokens if window is None else np.minimum(tokens, window)
        weights.append(stored_columns(model, block_weights(model, kind), layouts))
        session.append(_state_bytes(model, kind, layouts, kept) + _fixed_bytes(model, kind, layouts))
        token.append(_state_bytes(model, kind, layouts, 1))
    return np.stack(weights, axis=1), np.stack(session, axis=1), np.stack(token, axis=1)


def _state_bytes(model: Model, kind: int, layouts: Layouts, positions: Any) -> Ints:
    """Bytes that `positions` cached positions of one session add to a layer, on the fullest rank."""
    kept = Dim(role="positions", size=positions)
    total = np.zeros(len(layouts), dtype=np.int64)
    for tensor in model.kinds[kind].mixer.token_state():
        held = replace(tensor, dims=(kept, *tensor.dims))
        total = total + model.cached_bytes(held, fullest_sizes(held, layouts, "kv_cache"))
    return total


def _fixed_bytes(model: Model, kind: int, layouts: Layouts) -> Ints:
    """Bytes of state that a session keeps in a layer whatever its length, on the fullest rank."""
    total = np.zeros(len(layouts), dtype=np.int64)
    for tensor in model.kinds[kind].mixer.session_state():
        total = total + local_elements(tensor, layouts, "kv_cache") * model.kv.bits // 8
    return total


def _ends(model: Model, layouts: Layouts) -> Ints:
    """[rows, 2]: bytes of the first and of the last stage's own tensors; a tied head is stored again when pp > 1."""
    first = stored_columns(model, first_weights(model), layouts)
    own = tuple(tensor for tensor in last_weights(model) if tensor.alias is None)
    shared = tuple(tensor for tensor in last_weights(model) if tensor.alias is not None)
    last = stored_columns(model, own, layouts)
    last = last + np.where(layouts.degree("pp") > 1, stored_columns(model, shared, layouts), 0)
    return np.stack([first, last], axis=1)


@cache
def _stages(model: Model, stages: int) -> tuple[Ints, Ints]:
    """[distinct stages, kinds + 2] of layers of each kind, is first, is last; and the number of the first such stage.

    More stages than layers are described as empty ones: the rules refuse them.
    """
    kinds = model.kind_of_layer
    table: dict[tuple[int, ...], int] = {}
    for number, layers in enumerate(stage_of_layers(len(kinds), stages)):
        own = kinds[layers.start : layers.stop]
        row = (*(own.count(kind) for kind in range(len(model.kinds))), int(number == 0), int(number == stages - 1))
        table.setdefault(row, number)
    counts: Any = np.array(list(table), dtype=np.int64)
    return counts, np.array(list(table.values()), dtype=np.int64)
