"""The ledger: a model, columns of layouts and what is resident go in; exact bytes on the fullest rank come out.

Weights, gradients and states are read off the ownership table; nothing is counted by a formula of its own. `resident`
here is what serving keeps: parameters, cached keys and values of every admitted session (queued ones too), workspace.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.numbers import divide_up, maximum, minimum, where
from meshwright.base.traced import named
from meshwright.cost.stages import by_stages, stage_kinds
from meshwright.layout.ownership import fullest_sizes, local_elements, local_samples, sample_ways
from meshwright.model.model import Model, block_weights, first_weights, last_weights
from meshwright.model.tensors import Dim

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints
    from meshwright.layout.layouts import Layouts
    from meshwright.model.mixers.told import PositionState
    from meshwright.model.tensors import Tensor

_SOURCE: Final = 'chapter "Supernodes", equation 6-1'
_UNLIMITED: Final = 2**62


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ledger:
    """Columns of int64, one row a layout: bytes on the fullest rank, and what would still fit.

    stage: the pipeline stage of the fullest rank.   kv_cache: of the sessions resident there.   max_sessions,
    max_kv_tokens: per replica, over its copies of attention where each has its own samples, and over cp; the stage with
    the least room decides (0 when the weights alone do not fit). Tokens are those beside the state of fixed size of the
    resident sessions, or of one where there is none.
    """

    stage: Ints
    parameters: Ints
    kv_cache: Ints
    workspace: Ints
    total: Ints
    max_sessions: Ints
    max_kv_tokens: Ints


def serving_ledger(
    model: Model,
    layouts: Layouts,
    *,
    sessions: Ints,
    tokens: int | Ints,
    workspace_bytes: int | Ints,
    capacity_bytes: int | Ints,
    padding_tokens: int = 0,
) -> Ledger:
    """Bytes per rank with `sessions` (a column: per replica) of `tokens` cached positions each (or a column).

    workspace_bytes: kept free on every rank.   capacity_bytes: of one device.   Either may be a column.
    padding_tokens: positions of a last page that a session may leave empty; only `max_sessions` counts them.

    `W + K + U <= C` on every rank. Source: chapter "Supernodes", equation 6-1.
    """
    weights, session, token, state = _per_kind(model, layouts, tokens)
    recurrent = any(block.mixer.session_state() for block in model.kinds)
    ends = _ends(model, layouts)
    held: Any = np.zeros((6, len(layouts)), dtype=np.result_type(weights, session, ends))
    resident = local_samples(sessions, layouts)
    workspace = np.broadcast_to(np.asarray(workspace_bytes), len(layouts))
    room = np.broadcast_to(np.asarray(capacity_bytes) - workspace, len(layouts))
    for stages, rows in by_stages(layouts):
        counts, numbers = stage_kinds(model, stages)
        per_stage = tuple(column[rows] @ counts[:, :-2].T for column in (weights, session, token))
        fixed = named(per_stage[0] + ends[rows] @ counts[:, -2:].T, "parameters_bytes")
        cached = named(per_stage[1] * resident[rows, None], "kv_cache_bytes")
        fullest = _fullest(fixed, cached, numbers)
        free = maximum(room[rows, None] - fixed, 0)
        padded = per_stage[1] + per_stage[2] * padding_tokens
        beside = free
        if recurrent:
            beside = maximum(free - (state[rows] @ counts[:, :-2].T) * maximum(resident, 1)[rows, None], 0)
        held[:, rows] = np.stack([*fullest, _room_for(free, padded), _room_for(beside, per_stage[2])])
    stage, parameters, kv_cache, total, max_sessions, max_tokens = held
    ways = sample_ways(layouts)
    return Ledger(
        stage=stage,
        parameters=parameters,
        kv_cache=kv_cache,
        workspace=workspace,
        total=named(total + workspace, "per_rank_bytes", _SOURCE),
        max_sessions=_times(max_sessions, ways),
        max_kv_tokens=_times(max_tokens, ways * layouts.degree("cp")),
    )


def state_bytes_per_token(model: Model, kind: int) -> int:
    """Bytes that one cached position adds to one layer of a kind, whole; its share of a row that stands for several."""
    state = model.kinds[kind].mixer.token_state()
    return sum(_share_of_row(state_row_bytes(model, item), item) for item in state)


def state_row_bytes(model: Model, state: PositionState) -> int:
    """Bytes of one cached row, whole."""
    return int(model.cached_bytes(state, state.tensor.shape))


def cached_columns(model: Model, layouts: Layouts, positions: int) -> Ints:
    """Bytes that `positions` more of one session add on the stage that keeps most of them, one row a layout."""
    layer = np.stack([_state_bytes(model, kind, layouts, positions) for kind in range(len(model.kinds))], axis=1)
    return _most_of_a_stage(model, layouts, layer)


def token_columns(model: Model, layouts: Layouts) -> Ints:
    """Bytes that one more position of a session adds on the stage that keeps most, while no window is full.

    Of a row that stands for several positions its share, rounded up. One row a layout.
    """
    layer = np.stack([_position_bytes(model, kind, layouts) for kind in range(len(model.kinds))], axis=1)
    return _most_of_a_stage(model, layouts, layer)


def _most_of_a_stage(model: Model, layouts: Layouts, layer: Ints) -> Ints:
    most = np.zeros(len(layouts), dtype=layer.dtype)
    for stages, rows in by_stages(layouts):
        most[rows] = (layer[rows] @ stage_kinds(model, stages)[0][:, :-2].T).max(axis=1)
    return most


def stored_columns(model: Model, tensors: tuple[Tensor, ...], layouts: Layouts) -> Ints:
    """Stored bytes of tensors on the fullest rank of their stage, one row a layout."""
    total = np.zeros(len(layouts), dtype=np.int64)
    for tensor in tensors:
        stored: Any = np.asarray(model.format_of(tensor).stored_bytes(fullest_sizes(tensor, layouts)))
        total = total + named(stored, f"{tensor.name}_bytes")
    return total


def _fullest(fixed: Ints, cached: Ints, numbers: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Stage, parameters, kv_cache and total of the fullest of the stages (columns), the first of equally full ones."""
    worst = np.argmax(fixed + cached, axis=1)
    rows = np.arange(len(worst))
    return numbers[worst], fixed[rows, worst], cached[rows, worst], (fixed + cached)[rows, worst]


def _room_for(free: Ints, each: Ints) -> Ints:
    """How many of `each` bytes fit, on the stage with the least room; a stage that keeps no state does not bound it."""
    counts = where(each > 0, free // maximum(each, 1), np.full(1, _UNLIMITED))
    return counts.min(axis=1)


def _times(count: Ints, ways: Ints) -> Ints:
    return minimum(count, _UNLIMITED // ways) * ways


def _per_kind(model: Model, layouts: Layouts, tokens: int | Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """[rows, kinds] of one layer: bytes of weights, of one session's state, of one position, of state of fixed size."""
    weights: list[Ints] = []
    session: list[Ints] = []
    token: list[Ints] = []
    fixed: list[Ints] = []
    for kind in range(len(model.kinds)):
        stored = stored_columns(model, block_weights(model, kind), layouts)
        fixed.append(_fixed_bytes(model, kind, layouts))
        state = _state_bytes(model, kind, layouts, tokens) + fixed[-1]
        weights.append(named(stored, f"weights_of_layer_kind_{kind}_bytes"))
        session.append(named(state, f"session_in_layer_kind_{kind}_bytes"))
        token.append(named(_position_bytes(model, kind, layouts), f"token_in_layer_kind_{kind}_bytes"))
    return np.stack(weights, axis=1), np.stack(session, axis=1), np.stack(token, axis=1), np.stack(fixed, axis=1)


def _state_bytes(model: Model, kind: int, layouts: Layouts, positions: Any) -> Ints:
    """Bytes that a session of so many cached positions keeps of them in a layer, on the fullest rank."""
    total = np.zeros(len(layouts), dtype=np.int64)
    for item in model.kinds[kind].mixer.token_state():
        total = total + _rows_bytes(model, item, layouts, item.span.kept(positions))
    return total


def _position_bytes(model: Model, kind: int, layouts: Layouts) -> Ints:
    """Bytes of one more position in windows not yet full; its share of a row that stands for several, rounded up."""
    total = np.zeros(len(layouts), dtype=np.int64)
    for item in model.kinds[kind].mixer.token_state():
        total = total + _share_of_row(_rows_bytes(model, item, layouts, 1), item)
    return total


def _share_of_row(row_bytes: Any, state: PositionState) -> Any:
    return divide_up(row_bytes, state.span.stride) if state.span.stride > 1 else row_bytes


def _rows_bytes(model: Model, state: PositionState, layouts: Layouts, rows: Any) -> Any:
    held = replace(state.tensor, dims=(Dim(role="positions", size=rows), *state.tensor.dims))
    return model.cached_bytes(state, fullest_sizes(held, layouts, "kv_cache"))


def _fixed_bytes(model: Model, kind: int, layouts: Layouts) -> Ints:
    """Bytes of state that a session keeps in a layer whatever its length, on the fullest rank."""
    total = np.zeros(len(layouts), dtype=np.int64)
    for item in model.kinds[kind].mixer.session_state():
        total = total + model.session_bytes(item, local_elements(item.tensor, layouts, "kv_cache"))
    return total


def _ends(model: Model, layouts: Layouts) -> Ints:
    """[rows, 2]: bytes of the first and of the last stage's own tensors; a tied head is stored again when pp > 1."""
    first = stored_columns(model, first_weights(model), layouts)
    own = tuple(tensor for tensor in last_weights(model) if tensor.alias is None)
    shared = tuple(tensor for tensor in last_weights(model) if tensor.alias is not None)
    last = stored_columns(model, own, layouts)
    again = stored_columns(model, shared, layouts)
    last = last + where(layouts.degree("pp") > 1, again, np.zeros(1, dtype=np.int64))
    return np.stack([first, last], axis=1)
