"""The ledger of training: a model and columns of layouts go in; bytes on the fullest rank of each row come out.

State is resident; activations of the micro-batches in flight, gathered modules, gradients on their way and the logits
come and go. The closed form adds what may be alive together on a rank: no less than what the simulated step finds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.numbers import ceil, maximum, where, whole
from meshwright.base.traced import named, values
from meshwright.layout.ownership import ZERO_OF_STATE

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints
    from meshwright.cost.pipelines import Pipelines
    from meshwright.cost.training_activations import ActivationColumns
    from meshwright.cost.training_state import StateColumns
    from meshwright.layout.layouts import Layouts

_GRADIENTS: Final = ZERO_OF_STATE["gradients"]
_PARAMETERS: Final = ZERO_OF_STATE["parameters"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingLedger:
    """Columns, one row a layout: bytes on the fullest rank.

    stage: its pipeline rank.   resident: parameters, gradients and optimizer state.   activations: kept from forward to
    backward.   gathered: modules brought together, and whole gradients before they are reduced.   transient: what a
    backward makes beside, the logits or a layer's.   total: resident, and either the next four or the given budget.
    computed: with the computed parts, whatever is given.
    """

    stage: Ints
    parameters: Ints
    gradients: Ints
    optimizer_state: Ints
    activations: Ints
    gathered: Ints
    transient: Ints
    workspace: Ints
    resident: Ints
    computed: Ints
    total: Ints


def training_ledger(  # noqa: PLR0917 - the columns of what is kept
    layouts: Layouts,
    lines: Pipelines,
    state: StateColumns,
    kept: ActivationColumns,
    workspace_bytes: int,
    budget_bytes: int | None,
    modules_ahead: int,
) -> TrainingLedger:
    """The ledger of every row.

    budget_bytes: in place of activations, gathered modules, transients and workspace, where it is given.
    modules_ahead: gathered while another is in use (prefetch).   Source: chapter "Training systems", sections 10.2.1 to
    10.2.4.
    """
    entries = {name: _of_layers(lines, getattr(state, name)) for name in ("parameters", "gradients", "optimizer_state")}
    resident = entries["parameters"] + entries["gradients"] + entries["optimizer_state"]
    activations = _activations(lines, kept)
    gathered = _gathered(layouts, lines, state, modules_ahead)
    transient = _transient(lines, kept)
    workspace = np.full(len(layouts), workspace_bytes)
    computed = resident + activations + gathered + transient + workspace[:, None]
    judged = computed if budget_bytes is None else resident + budget_bytes
    judged = where(lines.ranks > 0, judged, np.full(1, -1))
    worst = np.argmax(values(judged), axis=1)
    rows = np.arange(len(worst))
    parts = {
        **entries,
        "activations": activations,
        "gathered": gathered,
        "transient": transient,
        "resident": resident,
        "computed": computed,
        "total": judged,
    }
    found = {name: named(column[rows, worst], f"{name}_bytes") for name, column in parts.items()}
    return TrainingLedger(stage=lines.number[rows, worst], workspace=workspace, **found)


def _of_layers(lines: Pipelines, columns: Any) -> Any:
    """[rows, entries]: of one layer or end, all that a rank holds."""
    total: Any = columns[:, 0, None] * lines.layers[:, :, 0]
    for kind in range(1, lines.layers.shape[2]):
        total = total + columns[:, kind, None] * lines.layers[:, :, kind]
    return total


def _activations(lines: Pipelines, kept: ActivationColumns) -> Any:
    """[rows, entries]: of all micro-batches that a rank has in flight; whole bytes."""
    layers: Any = np.zeros(lines.layers.shape[:2], dtype=np.int64)
    for kind in range(kept.saved.shape[1]):
        layers = layers + kept.saved[:, kind, None] * lines.layers[:, :, kind]
    first = kept.embedding[:, None] * lines.layers[:, :, -2]
    flight = (layers + first) * lines.sets
    # rounded up: a set of uneven virtual stages is a mean
    return whole(ceil(flight + kept.head[:, None] * lines.last_sets))


def _gathered(layouts: Layouts, lines: Pipelines, state: StateColumns, ahead: int) -> Any:
    """[rows, entries]: the largest modules that are whole at once, and the largest whole gradients on their way.

    Under zero 3 the one in use, and the next `ahead`; under zero 2 and 3 a module's gradient and the one being reduced.
    """
    zero = layouts.degree("zero")[:, None]
    modules, gradients = (_largest(lines, column, 1 + ahead) for column in (state.gathered, state.gradient_buffer))
    none = np.zeros(1, dtype=np.int64)
    return where(zero == _PARAMETERS, modules, none) + where(zero >= _GRADIENTS, gradients, none)


def _largest(lines: Pipelines, columns: Any, count: int) -> Any:
    """[rows, entries]: bytes of the largest run of `count` modules: layers of the largest kind, and an end at most."""
    layer: Any = np.zeros(lines.layers.shape[:2], dtype=np.int64)
    for kind in range(lines.layers.shape[2] - 2):
        layer = maximum(layer, where(lines.layers[:, :, kind] > 0, columns[:, kind, None], np.zeros(1, dtype=np.int64)))
    end: Any = np.zeros_like(layer)
    for place in (-2, -1):
        end = maximum(end, where(lines.layers[:, :, place] > 0, columns[:, place, None], np.zeros(1, dtype=np.int64)))
    return layer * (count - 1) + maximum(layer, end)


def _transient(lines: Pipelines, kept: ActivationColumns) -> Any:
    """[rows, entries]: the most that a backward makes beside: of one layer, or of the loss."""
    most: Any = np.zeros(lines.layers.shape[:2], dtype=np.int64)
    for kind in range(kept.rebuilt.shape[1]):
        own = where(lines.layers[:, :, kind] > 0, kept.rebuilt[:, kind, None], np.zeros(1, dtype=np.int64))
        most = maximum(most, own)
    loss = where(lines.layers[:, :, -1] > 0, kept.head_transient[:, None], np.zeros(1, dtype=np.int64))
    return maximum(most, loss)
