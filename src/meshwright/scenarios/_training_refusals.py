"""Layouts that the user asked for go in; which of them can not be launched, and why, comes out.

The search itself only makes layouts that can: what is refused contradicts a field of `--layout`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from meshwright.base.result import Excluded
from meshwright.cost.pipelines import takes
from meshwright.layout.layouts import distinct
from meshwright.layout.rules import first_broken, keeps_all
from meshwright.scenarios._engine import engine_refusal
from meshwright.scenarios._training_choices import has_pieces
from meshwright.scenarios._training_context import broken_context_rule, takes_cp
from meshwright.scenarios._training_space import micro_batches
from meshwright.search.candidates import divisors
from meshwright.workload.slots import Shape, read_schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshwright.base.numbers import Bools
    from meshwright.job.train import TrainJob
    from meshwright.layout.layout import Layout
    from meshwright.layout.layouts import Layouts
    from meshwright.layout.rules import Rule
    from meshwright.model.model import Model
    from meshwright.system.system import System
    from meshwright.workload.context_split import ContextPlan


def refused(model: Model, job: TrainJob, context: ContextPlan, layouts: Layouts, engine: Sequence[Rule] = ()) -> Bools:
    """Where `refusal` finds a reason."""
    count = micro_batches(job, layouts)
    few, place = distinct(
        layouts.changed({"num_micro_batches": count}), ("schedule", "pp", "virtual_stages", "num_micro_batches")
    )
    counts = few.columns["num_micro_batches"].tolist()
    names, stages_of, pieces_of = (few.columns[name].tolist() for name in ("schedule", "pp", "virtual_stages"))
    rows = zip(names, stages_of, pieces_of, counts, strict=True)
    taken = [
        _refused_schedule(model, name, Shape(stages=stages, micro_batches=max(batches, 1), virtual_stages=pieces))
        is None
        for name, stages, pieces, batches in rows
    ]
    kept = keeps_all(model, layouts, engine) & (count > 0)
    kept &= takes_cp(model, job, context, layouts.degree("tp"), layouts.degree("cp"))
    return ~(kept & np.array(taken, dtype=np.bool_)[place])


def refusal(  # noqa: PLR0917 - the nouns, and which row
    model: Model,
    system: System,
    job: TrainJob,
    context: ContextPlan,
    layouts: Layouts,
    row: int,
    engine: Sequence[Rule] = (),
) -> Excluded | None:
    """The first rule that a layout breaks: of an engine, of its degrees, its micro-batches, its schedule."""
    layout = layouts.row(row)
    broken = first_broken(model, layouts.take([row]), system.devices, engine)[0]
    if broken is not None:
        return engine_refusal(broken)
    rule = broken_context_rule(model, job, context, layout)
    if rule is not None:
        taken = [cp for cp in divisors(system.devices) if bool(takes_cp(model, job, context, layout.tp, cp))]
        near = min(taken, key=lambda cp: abs(cp - layout.cp))
        reason = rule.sentence(model, job, context, layout)
        return Excluded(code=rule.code, reason=reason, nearest=f"cp={near}", limit="rule")
    count = int(micro_batches(job, layouts.take([row]))[0])
    if not count:
        return _uneven(job, layout)
    shape = Shape(stages=layout.pp, micro_batches=count, virtual_stages=layout.virtual_stages)
    found = _refused_schedule(model, layout.schedule, shape)
    if found is None or found.code != "SCH001":
        return found
    return replace(found, nearest=_nearest_micro_batch(model, job, layout, shape) or found.nearest)


def _nearest_micro_batch(model: Model, job: TrainJob, layout: Layout, shape: Shape) -> str | None:
    """The size of a micro-batch that leaves as many as the schedule takes, nearest to the layout's."""
    share = job.global_batch // (layout.dp_shard * layout.dp_replicate)
    taken = (
        size
        for size in divisors(share)
        if _refused_schedule(model, layout.schedule, replace(shape, micro_batches=share // size)) is None
    )
    near = min(taken, key=lambda size: (abs(size - layout.micro_batch), size), default=None)
    return None if near is None else f"micro_batch={near}"


def _uneven(job: TrainJob, layout: Layout) -> Excluded:
    copies = layout.dp_shard * layout.dp_replicate
    reason = f"{job.global_batch} sequences are no whole number of micro-batches of {layout.micro_batch}"
    sizes = [size for size in divisors(job.global_batch) if job.global_batch % (copies * size) == 0]
    near = min(sizes, key=lambda size: (abs(size - layout.micro_batch), size), default=None)
    nearest = None if near is None else f"micro_batch={near}"
    return Excluded(code="LAY033", reason=f"{reason} on {copies} copies", nearest=nearest, limit="rule")


def _refused_schedule(model: Model, schedule: str | None, shape: Shape) -> Excluded | None:
    """Why a schedule does not take the shape. Without one, a single stage runs its micro-batches in turn."""
    if shape.stages == 1 and shape.virtual_stages == 1:
        return None
    name = schedule or "one_f_one_b"
    program = read_schedule(name)
    if shape.virtual_stages > 1 and not has_pieces(name):
        reason = f"{name}: the virtual stages of its ranks are its own, not {shape.virtual_stages}"
        return Excluded(code="SCH010", reason=reason, nearest="virtual_stages=1", limit="schedule")
    found = program.refusal(shape)
    if found is not None:
        near = None if found.nearest is None else f"num_micro_batches={found.nearest}"
        near = f"pp={found.nearest}" if found.code == "SCH004" and found.nearest is not None else near
        return Excluded(code=found.code, reason=f"{name}: {found.reason}", nearest=near, limit="schedule")
    if not takes(model.layers, name, shape):
        stages = program.placement(shape).shape[1]
        reason = f"{name}: {stages} virtual stages are more than {model.layers} layers"
        most = model.layers // shape.stages
        nearest = f"virtual_stages={most}" if has_pieces(name) and most else None
        return Excluded(code="SCH005", reason=reason, nearest=nearest, limit="schedule")
    return None
