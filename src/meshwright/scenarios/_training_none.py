"""A space of layouts of which none can run goes in; the error that says why, with what works, comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meshwright.base.errors import EngineError, LayoutError
from meshwright.layout.layouts import Layouts
from meshwright.layout.rules import first_broken
from meshwright.scenarios._shared import rule_error
from meshwright.scenarios._training_space import MESH
from meshwright.search.candidates import divisors

if TYPE_CHECKING:
    from meshwright.job.train import TrainJob
    from meshwright.model.model import Model
    from meshwright.scenarios._training_space import Space
    from meshwright.system.system import System


def none_found(
    model: Model, system: System, job: TrainJob, space: Space, micro_batch: int | None
) -> LayoutError | EngineError:
    """The rule that every mesh breaks (its own code), a micro-batch that no mesh takes (LAY033), or else LAY032.

    micro_batch: as fixed, None where it is free.
    """
    sharded = Layouts(columns={**space.meshes.columns, "sp": np.ones(len(space.meshes), dtype=np.bool_)})
    engine = [rule for rule in space.engine if set(rule.reads) <= set(MESH)]
    broken = first_broken(model, sharded, system.devices, engine)
    if broken and all(item is not None for item in broken):
        first = next(item for item in broken if item is not None)
        return rule_error(first)
    copies = space.meshes.degree("dp_shard") * space.meshes.degree("dp_replicate")
    left = sorted({job.global_batch // int(each) for each in copies if job.global_batch % int(each) == 0})
    if micro_batch is not None and left and not any(each % micro_batch == 0 for each in left):
        near = min({part for each in left for part in divisors(each)}, key=lambda part: (abs(part - micro_batch), part))
        cause = f"micro_batch={micro_batch} divides no share of {job.global_batch} sequences, over any number of copies"
        return LayoutError(33, cause, f"--layout micro_batch={near}")
    if not left:
        fewest = int(copies.min())
        batch = -(-job.global_batch // fewest) * fewest
        cause = f"{job.global_batch} sequences a step are no whole number on {fewest} copies, the fewest there can be"
        return LayoutError(32, cause, f"--global-batch {batch}")
    cause = f"no layout of {system.devices} devices that keeps these fields takes {job.global_batch} sequences a step"
    return LayoutError(32, cause, "leave fields out of --layout, or give a --global-batch with more divisors")
