"""A model that no layout of a system holds goes in; the least number of boxes of the same kind that holds it comes out.

Holding is by the bound of memory, without offload unless one is fixed; an offload or a simulated peak may need less.
Only layouts that need least are tried: micro-batches of one sequence, and policies that keep nothing of a layer but its
input, or that of the first of some layers; and every field that the user fixed.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Final

from meshwright.base.errors import LayoutError
from meshwright.layout.rules import keeps_all
from meshwright.scenarios._training_engine import asked_rules
from meshwright.scenarios._training_refusals import refused
from meshwright.scenarios._training_space import chunks, training_space
from meshwright.scenarios._training_table import capacity_bytes, training_table, whole_state

if TYPE_CHECKING:
    from meshwright.job.train import TrainJob
    from meshwright.model.model import Model
    from meshwright.scenarios._training_options import TrainOptions
    from meshwright.system.system import System

_LEAST_KEPT: Final = ("full", "uniform_2", "uniform_4")
_MOST_TIMES: Final = 16
_MOST_TRIED: Final = 64
_MOST_BOXES: Final = 100_000
_FEW: Final = 4096
COPIES: Final = ("dp_shard", "dp_replicate")
"""Degrees that grow with the boxes."""


def least_boxes(model: Model, system: System, job: TrainJob, options: TrainOptions) -> int | None:
    """Boxes, more than the system has; None where up to 16 times as many do not hold it, or none may be added.

    The state of the model, spread over all devices, says where to begin: fewer boxes hold it in no layout.
    """
    if system.scale_out is None or system.nics_per_node < 1:
        return None
    state = sum(whole_state(model, job).values())
    beside = options.workspace if options.activation_budget is None else options.activation_budget
    room = capacity_bytes(system, options) - beside
    if room <= 0:
        return None
    begin = ceil(state / (room * system.devices_per_node))
    begin = max(begin, system.nodes + 1)
    last = min(max(begin, system.nodes) * _MOST_TIMES, begin + _MOST_TRIED)
    for nodes in range(begin, last + 1):
        larger = replace(system, nodes=nodes, id=f"{system.id} ({nodes} boxes)", fault_domains={})
        tried = _LEAST_KEPT if options.activation_budget is None else _LEAST_KEPT[:1]
        if any(_holds(model, larger, job, options, recompute) for recompute in tried):
            return nodes
    return None


def boxes_in_time(model: Model, system: System, job: TrainJob, options: TrainOptions, times: float) -> int | None:
    """The first number of boxes, at least `times` as many, that takes the global batch; None where none may be added.

    A guess of what would be in time: computation is that much shorter, and the rest is not.
    """
    if system.scale_out is None or system.nics_per_node < 1 or times * system.nodes > _MOST_BOXES:
        return None
    fixed = {name: value for name, value in options.layout.items() if name not in COPIES}
    begin = max(ceil(times * system.nodes), system.nodes + 1)
    for nodes in range(begin, begin + _MOST_TRIED):
        larger = replace(system, nodes=nodes, fault_domains={})
        try:
            space = training_space(model, larger, job, fixed, options.context, engine=asked_rules(job, options))
        except LayoutError:
            continue
        first = next(chunks(space, model, _FEW), None)
        if first is not None and bool(keeps_all(model, first).any()):
            return nodes
    return None


def _holds(model: Model, system: System, job: TrainJob, options: TrainOptions, recompute: str) -> bool:
    """Whether some layout fits; one that the user fixed and that has other devices does not."""
    fixed = {"micro_batch": 1, "recompute": recompute, **options.layout}
    engine = asked_rules(job, options)
    try:
        space = training_space(model, system, job, fixed, options.context, engine=engine)
        space = space if space.size else training_space(model, system, job, fixed, options.context, "asked", engine)
    except LayoutError:
        return False
    for layouts in chunks(space, model):
        table = training_table(model, system, job, options, layouts)
        if bool((table.fits & ~refused(model, job, options.context, layouts, engine)).any()):
            return True
    return False
