"""What changes from hundreds of billions of parameters to trillions? Models and a box go in; bytes and rows come out.

Capacity first: whether the weights fit a box, and how many boxes hold them. Then what one row costs on its way to an
expert: a model with latent experts may project it before it leaves, or behind.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from meshwright.base.errors import JobError, suggest
from meshwright.base.units import Bytes
from meshwright.job.serve import check_range
from meshwright.system.system import System
from meshwright.workload.messages import row_bytes

_MOST: Final = 2**50
_MOST_COUNT: Final = 2**31
LEFT_OUT: Final = (
    "layers and experts as stages and groups take them: whole bytes over whole boxes",
    "state: fixed a session in linear layers, growing with the context in attention",
    "shared experts, which work on the full row beside the exchange",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeModel:
    """Facts of a model.

    parameter_bytes: of one, as stored.   attention_layers: whose state grows with the context; linear_layers: whose
    state is fixed.   hidden: width of a row.   latent: in which its routed experts work, 0 where on the row itself.
    """

    name: str
    parameters: float
    parameter_bytes: float
    attention_layers: int
    linear_layers: int = 0
    experts: int
    top_k: int
    shared_experts: int
    hidden: int
    latent: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeRow:
    """One model. left_bytes: of a box, beside the weights; below zero where they do not fit.   boxes: that hold them.

    row_bytes: of a row of the trunk, what is sent when the receiver projects it.   sent_row_bytes: of what an expert
    works on, projected before it is sent.   token_bytes: dispatch of one token of one layer, a copy an expert.
    """

    model: str
    weights_bytes: float
    left_bytes: float
    fits: bool
    boxes: int
    layers: int
    experts: int
    top_k: int
    row_bytes: float
    sent_row_bytes: float
    times_fewer_bytes: float
    token_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeModels:
    """capacity_bytes: of all cards of the box; usable_bytes: less the workspace of each."""

    capacity_bytes: int
    usable_bytes: int
    rows: tuple[LargeRow, ...]
    not_modelled: tuple[str, ...]


def larger_models(
    models: tuple[LargeModel, ...],
    compared: tuple[str, ...],
    system: System,
    workspace_bytes: Bytes,
    element_bytes: Bytes,
) -> LargeModels:
    """Those of `models` that are named in `compared`, in that order, on one box of the system.

    Raises JOB134 (a name, facts that cannot be), JOB001 (sizes). Source: chapter "Supernodes", section 6.3.3 and
    footnote 2.
    """
    check_range("workspace_bytes", workspace_bytes, 0, _MOST)
    check_range("element_bytes", element_bytes, 1, _MOST_COUNT)
    known = {model.name: model for model in models}
    for name in compared:
        if name not in known:
            raise JobError(134, f"{name!r} is none of the models", suggest(name, list(known)))
        _check(known[name])
    cards = system.devices_per_node
    capacity = cards * int(system.accelerator.memory)
    usable = capacity - cards * workspace_bytes
    if usable <= 0:
        raise JobError(134, f"a workspace of {workspace_bytes} bytes leaves nothing of a card", "give less")
    rows = tuple(_row(known[name], usable, element_bytes) for name in compared)
    return LargeModels(capacity_bytes=capacity, usable_bytes=usable, rows=rows, not_modelled=LEFT_OUT)


def _row(model: LargeModel, usable: int, element_bytes: int) -> LargeRow:
    weights = model.parameters * model.parameter_bytes
    whole = float(row_bytes(1, model.hidden, element_bytes))
    sent = float(row_bytes(1, model.latent or model.hidden, element_bytes))
    return LargeRow(
        model=model.name,
        weights_bytes=weights,
        left_bytes=usable - weights,
        fits=weights <= usable,
        boxes=math.ceil(weights / usable),
        layers=model.attention_layers + model.linear_layers,
        experts=model.experts,
        top_k=model.top_k,
        row_bytes=whole,
        sent_row_bytes=sent,
        times_fewer_bytes=whole / sent,
        token_bytes=sent * model.top_k,
    )


def _check(model: LargeModel) -> None:
    for name in ("experts", "top_k", "hidden"):
        check_range(name, getattr(model, name), 1, _MOST_COUNT)
    for name in ("shared_experts", "latent", "attention_layers", "linear_layers"):
        check_range(name, getattr(model, name), 0, _MOST_COUNT)
    if not 0 < model.parameters <= _MOST or not 0 < model.parameter_bytes <= _MOST_COUNT:
        cause = f"{model.name}: {model.parameters:g} parameters of {model.parameter_bytes:g} bytes"
        raise JobError(134, cause, "give both above zero")
