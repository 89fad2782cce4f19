"""The ledger's weights by part: a model, a layout and a stage go in; each part on the fullest rank comes out."""

from __future__ import annotations

from meshwright.base.traced import cell
from meshwright.cost.memory import stored_columns
from meshwright.layout.layout import Layout
from meshwright.layout.layouts import table
from meshwright.layout.ownership import stage_of_layers
from meshwright.model.model import Model, block_weights, first_weights, last_weights
from meshwright.model.tensors import PARTS


def parts_bytes(model: Model, layout: Layout, stage: int) -> dict[str, int]:
    """Stored weight bytes by part on the fullest rank of one stage; they add up to the ledger's parameters."""
    layouts = table([layout])
    own = model.kind_of_layer[slice(*_bounds(model, layout.pp, stage))]
    held = [tensor for kind in own for tensor in block_weights(model, kind)]
    held += first_weights(model) if stage == 0 else ()
    held += last_weights(model) if stage == layout.pp - 1 else ()
    sizes: dict[str, int] = dict.fromkeys(PARTS, 0)
    for tensor in held:
        if tensor.alias is None or layout.pp > 1:
            sizes[tensor.part] += cell(stored_columns(model, (tensor,), layouts), 0)
    return sizes


def _bounds(model: Model, stages: int, stage: int) -> tuple[int, int]:
    layers = stage_of_layers(model.layers, stages)[stage]
    return layers.start, layers.stop
