"""The ledger of training: a model and columns of layouts go in; bytes on the fullest rank of each row come out.

State is resident; activations of the micro-batches in flight, gathered modules, gradients on their way and the logits
come and go. The closed form adds what may be alive together on a rank: no less than what the simulated step finds, but
for copies of messages, virtual stages of uneven size, and schedules whose ranks have two slot orders.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.numbers import ceil, maximum, where, whole
from meshwright.base.traced import named
from meshwright.cost.pipelines import largest, of_entry
from meshwright.layout.ownership import ZERO_OF_STATE

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints
    from meshwright.cost.pipelines import Pipelines
    from meshwright.cost.training_activations import ActivationColumns
    from meshwright.cost.training_offload import Moved
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
    moved: Moved | None,
) -> TrainingLedger:
    """The ledger of every row.

    budget_bytes: in place of activations, gathered modules, transients and workspace, where it is given.
    modules_ahead: 1 where the next is gathered while another is in use (prefetch), else 0.   Source: chapter "Training
    systems", sections 10.2.1 to 10.2.4.   moved: what is offloaded; None for nothing.
    """
    entries = {name: of_layers(lines, getattr(state, name)) for name in ("parameters", "gradients", "optimizer_state")}
    activations = _activations(lines, kept)
    if moved is not None:
        entries, activations = moved.left(entries, activations)
    resident = entries["parameters"] + entries["gradients"] + entries["optimizer_state"]
    gathered = _gathered(layouts, lines, state, modules_ahead)
    transient = _transient(lines, kept)
    workspace = np.full(len(layouts), workspace_bytes)
    computed = resident + activations + gathered + transient + workspace[:, None]
    judged = computed if budget_bytes is None else resident + budget_bytes
    judged = where(lines.ranks > 0, judged, np.full(1, -1))
    worst = largest(judged)
    parts = {
        **entries,
        "activations": activations,
        "gathered": gathered,
        "transient": transient,
        "resident": resident,
        "computed": computed,
        "total": judged,
    }
    found = {name: named(of_entry(column, worst), f"{name}_bytes") for name, column in parts.items()}
    return TrainingLedger(stage=of_entry(lines.number, worst), workspace=workspace, **found)


def of_layers(lines: Pipelines, columns: Any) -> Any:
    """[rows, entries]: of one layer or end, all that a rank holds."""
    total: Any = columns[:, 0, None] * lines.layers[:, :, 0]
    for kind in range(1, lines.layers.shape[2]):
        total = total + columns[:, kind, None] * lines.layers[:, :, kind]
    return total


def _activations(lines: Pipelines, kept: ActivationColumns) -> Any:
    """[rows, entries]: of all micro-batches that a rank has in flight; whole bytes."""
    layers: Any = kept.saved[:, 0, None] * lines.layers[:, :, 0]
    for kind in range(1, kept.saved.shape[1]):
        layers = layers + kept.saved[:, kind, None] * lines.layers[:, :, kind]
    first = kept.embedding[:, None] * lines.layers[:, :, -2]
    flight = (layers + first) * lines.sets
    # rounded up: a set of uneven virtual stages is a mean
    return whole(ceil(flight + kept.head[:, None] * lines.last_sets))


def _gathered(layouts: Layouts, lines: Pipelines, state: StateColumns, ahead: int) -> Any:
    """[rows, entries]: the largest modules that are whole at once, and the largest whole gradients on their way.

    Under zero 3 the one in use, the next `ahead` and, as it computes nothing, the embedding between them; under zero 2
    and 3 a module's gradient and the one being reduced.
    """
    zero, alone = layouts.degree("zero")[:, None], (layouts.degree("pp") == 1)[:, None]
    layer, first, last = _largest(lines, state.gathered)
    if ahead:
        # of a single rank the last end never stands beside the first: a backward follows its forward
        modules = where(alone, maximum(layer * 2 + first, layer + last), maximum(layer * 2, layer + last) + first)
    else:
        modules = maximum(layer, maximum(first, last))
    layer, first, last = _largest(lines, state.gradient_buffer)
    gradients = layer * ahead + maximum(layer, maximum(first, last))
    none = np.zeros(1, dtype=np.int64)
    return where(zero == _PARAMETERS, modules, none) + where(zero >= _GRADIENTS, gradients, none)


def _largest(lines: Pipelines, columns: Any) -> tuple[Any, Any, Any]:
    """[rows, entries]: bytes of a layer of the largest kind that is held, of the first end, and of the last."""
    none = np.zeros(1, dtype=np.int64)
    held = [
        where(lines.layers[:, :, place] > 0, columns[:, place, None], none) for place in range(lines.layers.shape[2])
    ]
    layer: Any = held[0]
    for other in held[1:-2]:
        layer = maximum(layer, other)
    return layer, held[-2], held[-1]


def _transient(lines: Pipelines, kept: ActivationColumns) -> Any:
    """[rows, entries]: the most that a backward makes beside: of one layer, or of the loss."""
    most: Any = np.zeros(lines.layers.shape[:2], dtype=np.int64)
    for kind in range(kept.rebuilt.shape[1]):
        own = where(lines.layers[:, :, kind] > 0, kept.rebuilt[:, kind, None], np.zeros(1, dtype=np.int64))
        most = maximum(most, own)
    loss = where(lines.layers[:, :, -1] > 0, kept.head_transient[:, None], np.zeros(1, dtype=np.int64))
    return maximum(most, loss)
