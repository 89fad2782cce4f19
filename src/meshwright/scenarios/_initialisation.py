"""A model, a job and a capacity go in; what a rank holds that builds the whole model before it is sharded comes out.

The steady peak says nothing of it: a script that loads all parameters on every device, and shards them afterwards,
needs room for all of them, however many devices there are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from meshwright.job.recipe import Recipe
from meshwright.scenarios._training_table import whole_state

if TYPE_CHECKING:
    from meshwright.job.train import TrainJob
    from meshwright.model.model import Model

AVOIDED_BY: Final = "parameters made on the meta device, or on the host, and given memory when they are sharded"
_FP32: Final = Recipe(compute="fp32", parameters="fp32", gradients="fp32", master="none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Initialisation:
    """Bytes of a rank on which the whole model is built before anything is sharded, parameters alone.

    fp32_bytes: in float32, in which modules are made unless told otherwise.   parameters_bytes: in the format that the
    recipe keeps.   fp32_fits, parameters_fit: whether a device has room for them.   avoided_by: what makes it needless.
    """

    fp32_bytes: int
    parameters_bytes: int
    fp32_fits: bool
    parameters_fit: bool
    avoided_by: str


def initialisation(model: Model, job: TrainJob, capacity_bytes: int) -> Initialisation:
    """Of every rank, whatever the layout: tp, pp and zero cut only what exists.

    Source: meta-llama/llama-cookbook issue 100, where 8 cards of 24 GB end inside the constructor of FSDP.
    """
    single = whole_state(model, replace(job, recipe=_FP32))["parameters"]
    kept = whole_state(model, job)["parameters"]
    return Initialisation(
        fp32_bytes=single,
        parameters_bytes=kept,
        fp32_fits=single <= capacity_bytes,
        parameters_fit=kept <= capacity_bytes,
        avoided_by=AVOIDED_BY,
    )
