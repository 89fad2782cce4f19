"""Groups of layouts go in; what none of a group's layouts can do better than comes out, from the same cost columns.

The slowest rank takes no less than the mean of all ranks, whatever the schedule; what a schedule adds (bubbles), and
what waits for weights and gradients, is no less than nothing. Bytes are bounded by a rank that holds no more than one
does in any of the schedules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from meshwright.base.numbers import maximum, where
from meshwright.base.traced import values
from meshwright.cost.kept import in_operands
from meshwright.cost.pipelines import bounding_pipelines
from meshwright.cost.training import estimate_training
from meshwright.cost.training_activations import activation_columns
from meshwright.cost.training_memory import training_ledger
from meshwright.cost.training_offload import gradient_cast, moved_columns
from meshwright.cost.training_state import state_columns
from meshwright.scenarios._training_host import host_path
from meshwright.scenarios._training_space import micro_batches
from meshwright.scenarios._training_table import capacity_bytes, finish_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshwright.base.numbers import Bools, Floats, Ints
    from meshwright.cost.pipelines import Line
    from meshwright.job.train import TrainJob
    from meshwright.layout.layouts import Layouts
    from meshwright.model.model import Model
    from meshwright.scenarios._training_options import TrainOptions
    from meshwright.system.system import System

ROUNDING: Final = 1e-9
"""Two ways to add up the same seconds differ by less than this share."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Goals:
    """What ranks layouts: those that fit first, these by their finish, the others by their bytes."""

    too_large: Bools
    goal: Floats

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.goal)

    def take(self, rows: Any) -> Goals:
        """The chosen rows."""
        return Goals(too_large=self.too_large[rows], goal=self.goal[rows])

    def likeliest(self) -> Ints:
        """Rows, the best first."""
        return np.lexsort([self.goal, self.too_large])

    def in_time(self, finish_s: Floats) -> Bools:
        """Where what ends no sooner than that may be within the one row of these, if it fits."""
        return self.too_large | (finish_s <= self.goal * (1 + ROUNDING))

    def within(self, bound: Goals) -> Bools:
        """Where a row ranks no worse than the one row of `bound`, but for rounding."""
        near = self.goal <= bound.goal * (1 + ROUNDING)
        return np.where(bound.too_large, ~self.too_large | near, ~self.too_large & near)


def least_goals(  # noqa: PLR0917 - the nouns, groups, and what is one
    model: Model, system: System, job: TrainJob, options: TrainOptions, layouts: Layouts, lines: Sequence[Line]
) -> tuple[Goals, Floats]:
    """No layout that differs from a row in nothing but its line, one of `lines`, has a lower goal, or ends sooner.

    The second holds for every offload.
    """
    count = maximum(micro_batches(job, layouts), 1)
    mean, least = bounding_pipelines(model, layouts, count, lines)
    state = state_columns(model, layouts, job.recipe, shards=options.shards)
    kept = activation_columns(
        in_operands(model, job.recipe),
        layouts,
        sequence=job.sequence,
        kernel=options.kernel,
        loss=options.loss,
        elementwise=options.elementwise,
        experts=options.experts,
        context=options.context,
        stages="least",
    )
    ahead = 1 if options.prefetch == "on" else 0
    path = host_path(system)
    cast = None if path is None else gradient_cast(job.recipe, path)
    moved = moved_columns(model, layouts, job.recipe, least, state, kept, cast, options.shards)
    ledger = training_ledger(layouts, least, state, kept, options.workspace, options.activation_budget, ahead, moved)
    step = estimate_training(model, system, job, layouts, options.assumptions, count, mean, state)
    seconds: Any = step.compute_s + step.layer_exchange_s + step.boundary_s + step.update_s
    finish: Any = values(finish_of(model, system, job, options, seconds * (1 - ROUNDING)))
    held: Any = values(ledger.total)
    too_large = held > capacity_bytes(system, options)
    return Goals(too_large=too_large, goal=where(too_large, held * 1.0, finish)), finish
