"""The ledger: a model, columns of layouts and what is resident go in; exact bytes on the fullest rank come out.

Weights, gradients and states are read off the ownership table; nothing is counted by a formula of its own. `resident`
here is what serving keeps: parameters, cached keys and values of every admitted session (queued ones too), workspace.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from meshwright.layout.ownership import local_elements, local_sizes, stage_of_layers
from meshwright.model.model import Model, block_weights, first_weights, last_weights

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints
    from meshwright.layout.layouts import Layouts
    from meshwright.model.tensors import Tensor

_UNLIMITED: Final = 2**62


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ledger:
    """Columns of int64, one row a layout: bytes on the fullest rank, and what would still fit.

    stage: the pipeline stage of the fullest rank.   kv_cache: of the sessions resident there.   max_sessions,
    max_kv_tokens: per replica, on the stage with the least room (0 when the weights alone do not fit).
    """

    stage: Ints
    parameters: Ints
    kv_cache: Ints
    workspace: Ints
    total: Ints
    max_sessions: Ints
    max_kv_tokens: Ints


def serving_ledger(  # noqa: PLR0913 - what is resident
    model: Model, layouts: Layouts, *, sessions: Ints, tokens: int, workspace_bytes: int, capacity_bytes: int
) -> Ledger:
    """Bytes per rank with `sessions` (a column: per replica) of `tokens` cached positions each."""
    held = np.zeros((6, len(layouts)), dtype=np.int64)
    weights, session, token = _per_kind(model, layouts, tokens)
    ends = _ends(model, layouts)
    for stages in np.unique(layouts.degree("pp")).tolist():
        rows = np.flatnonzero(layouts.degree("pp") == stages)
        counts, numbers = _stages(model, stages)
        per_stage = tuple(column[rows] @ counts[:, :-2].T for column in (weights, session, token))
        fixed = per_stage[0] + ends[rows] @ counts[:, -2:].T
        held[:, rows] = _fullest(fixed, per_stage[1], per_stage[2], sessions[rows], capacity_bytes - workspace_bytes, numbers)
    stage, parameters, kv_cache, total, max_sessions, max_tokens = held
    return Ledger(
        stage=stage,
        parameters=parameters,
        kv_cache=kv_cache,
        workspace=np.full(len(layouts), workspace_bytes, dtype=np.int64),
        total=total + workspace_bytes,
        max_sessions=max_sessions,
        max_kv_tokens=max_tokens,
    )


def state_bytes_per_token(model: Model, kind: int) -> int:
    """Bytes that one cached position adds to one layer of a kind, whole."""
    elements = sum(tensor.elements for tensor in model.kinds[kind].mixer.token_state())
    return elements * model.kv.bits // 8


def stored_columns(model: Model, tensors: tuple[Tensor, ...], layouts: Layouts) -> Ints:
    """Stored bytes of tensors on the fullest rank of their stage, one row a layout."""
    total = np.zeros(len(layouts), dtype=np.int64)
    for tensor in tensors:
        total = total + cast("Ints", model.format_of(tensor).stored_bytes(local_sizes(tensor, layouts)))
    return total


def _fullest(  # noqa: PLR0913, PLR0917 - columns of one computation
    fixed: Ints, session: Ints, token: Ints, sessions: Ints, room: int, numbers: Ints
) -> Ints:
    """Rows: stage, parameters, kv_cache, total, max_sessions, max_kv_tokens; the first of equally full stages."""
    cached = session * sessions[:, None]
    worst = np.argmax(fixed + cached, axis=1)
    rows = np.arange(len(worst))
    free = np.maximum(room - fixed, 0)
    return np.stack(
        [
            numbers[worst],
            fixed[rows, worst],
            cached[rows, worst],
            (fixed + cached)[rows, worst],
            _room_for(free, session),
            _room_for(free, token),
        ]
    )


def _room_for(free: Ints, each: Ints) -> Ints:
    """How many of `each` bytes fit, on the stage with the least room; a stage that keeps no state does not bound it."""
    counts = np.where(each > 0, free // np.maximum(each, 1), _UNLIMITED)
    return counts.min(axis=1)


def _per_kind(model: Model, layouts: Layouts, tokens: int) -> tuple[Ints, Ints, Ints]:
    """[rows, kinds] of one layer's weight bytes, bytes of one session's state, and bytes of one cached position."""
    weights, session, token = [], [], []
    for kind, block in enumerate(model.kinds):
        mixer = block.mixer
        weights.append(stored_columns(model, block_weights(model, kind), layouts))
        per_token = np.zeros(len(layouts), dtype=np.int64)
        for tensor in mixer.token_state():
            per_token = per_token + local_elements(tensor, layouts) * model.kv.bits // 8
        kept = tokens if mixer.window is None else min(tokens, mixer.window)
        token.append(per_token)
        session.append(per_token * kept)
    return np.stack(weights, axis=1), np.stack(session, axis=1), np.stack(token, axis=1)


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
    """[distinct stages, kinds + 2] of layers of each kind, is first, is last; and the first number of each distinct stage.

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
