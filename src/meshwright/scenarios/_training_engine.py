"""A training job and its options go in; the rules of the engine that they name come out, none without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshwright.scenarios._engine import training_rules
from meshwright.scenarios._training_space import micro_batches

if TYPE_CHECKING:
    from meshwright.base.numbers import Ints
    from meshwright.job.train import TrainJob
    from meshwright.layout.engine_rules import Numbers
    from meshwright.layout.layouts import Layouts
    from meshwright.layout.rules import Rule
    from meshwright.scenarios._training_options import TrainOptions


def asked_rules(job: TrainJob, options: TrainOptions) -> tuple[Rule, ...]:
    """What the named engine refuses of this job. Raises ENG001 (unknown) and ENG006 (it does not train)."""

    def batches(layouts: Layouts) -> Ints:
        return micro_batches(job, layouts)

    numbers: Numbers = {"sequence": job.sequence, "global_batch": job.global_batch, "micro_batches": batches}
    return training_rules(options.engine, numbers)
