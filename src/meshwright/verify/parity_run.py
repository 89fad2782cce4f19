"""A model and layouts go in; each is run on real processes and in one, and how far the two lie apart comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import torch

from meshwright.base.result import Basis, Defaulted, Result, Verdict
from meshwright.layout.layout import fields_of
from meshwright.runtime.launch.member import Member, Told
from meshwright.runtime.launch.supervisor import launch
from meshwright.runtime.launch.under import run_under
from meshwright.runtime.loop.trainer import Batch, Recipe
from meshwright.runtime.parallel.shards import Precision
from meshwright.runtime.train import check_devices, crew_of
from meshwright.verify.parity import Case, Difference, Whole, compared, whole_run

if TYPE_CHECKING:
    from meshwright.layout.layout import Layout
    from meshwright.model.arithmetic import Arithmetic
    from meshwright.model.model import Model
    from meshwright.runtime.job import Launcher, RunJob, RunOptions
    from meshwright.workload.slots import Slots

Format: TypeAlias = Literal["float64", "bf16"]

_DOUBLE: Final = Precision(compute=torch.float64, kept=torch.float64, reduced=torch.float64)
_HALF: Final = Precision(compute=torch.bfloat16, kept=torch.float32, reduced=torch.float32)
ALLOWED: Final[dict[Format, float]] = {"float64": 1e-9, "bf16": 2.0}
"""In float64 a difference, of a weight or relative of a loss; in bf16 a multiple of the error of one process."""
_NOT_MODELLED: Final = (
    "every rank runs the whole model alone besides: a model that one device does not hold can not be compared",
    "samples and weights are drawn from the seed",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParityQuestion:
    """What is compared. runs: layouts with their slots, one order a rank.   allowed: in place of `ALLOWED`."""

    model: Model
    arithmetic: Arithmetic
    runs: Sequence[tuple[Layout, Slots]]
    job: RunJob
    options: RunOptions
    format: Format
    allowed: float
    defaulted: tuple[Defaulted, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ParityRow:
    """One layout. loss, norm, weight: the largest of all ranks (`verify.parity.Difference`), null for no number.

    weight_name: of the weight that differs most.   differs: the first weight, of the lowest rank, that differs by more
    than is allowed; null where none does.   differs_on_rank: that rank.
    """

    layout_id: str
    ranks: int
    schedule: str
    loss: float | None
    norm: float | None
    weight: float | None
    weight_name: str
    differs: str | None
    differs_on_rank: int | None
    agrees: bool


def verify_parity(question: ParityQuestion, told: Told, under: Launcher | None) -> Result:
    """Run every layout, and one process. told: takes the id of each layout behind its run.

    The verdict is no where a loss, a norm or a weight differs by more than is allowed. Raises as `train`.
    """
    largest = max(layout.world_size for layout, _ in question.runs)
    check_devices(question.options.devices, 1 if under is not None else largest)
    rows: list[ParityRow] = []
    by_size = sorted(question.runs, key=lambda run: run[0].world_size)
    for _, group in groupby(by_size, lambda run: run[0].world_size):
        cases = [_case(question, layout, slots) for layout, slots in group]
        crew = crew_of(cases[0].layout, question.options)
        payload = (cases, question.format, question.allowed)
        if under is None:
            by_rank = launch(compare_rank, payload, crew, told)
        else:
            by_rank = run_under(under, compare_all, payload, crew, told)
        rows += [_row(case, [found[place] for found in by_rank], question) for place, case in enumerate(cases)]
    return _result(question, rows)


def compare_rank(member: Member, payload: tuple[Sequence[Case], Format, float]) -> list[Difference]:
    """One rank's part in every case; one process's run is that of the first case, as it is for all."""
    cases, kind, allowed = payload
    member.where.does("training in one process")
    whole = whole_run(_in(cases[0], _DOUBLE), member.device)
    rounded: Whole | None = None if kind == "float64" else whole_run(cases[0], member.device)
    found: list[Difference] = []
    for number, case in enumerate(cases):
        member.where.enters_step(number)
        found.append(compared(case, member.rank, member.device, whole, allowed, rounded))
        if member.rank == 0:
            member.tell(case.layout.id)
    return found


def compare_all(member: Member, payload: tuple[Sequence[Case], Format, float]) -> list[list[Difference]]:
    """As `compare_rank`, and what it found on every rank."""
    mine = compare_rank(member, payload)
    found: list[list[Difference]] = [[] for _ in range(member.ranks)]
    torch.distributed.all_gather_object(found, mine)
    return found


def _in(case: Case, precision: Precision) -> Case:
    return replace(case, recipe=replace(case.recipe, precision=precision))


def _case(question: ParityQuestion, layout: Layout, slots: Slots) -> Case:
    job = question.job
    precision = _DOUBLE if question.format == "float64" else _HALF
    return Case(
        model=question.model,
        arithmetic=question.arithmetic,
        layout=layout,
        slots=slots,
        batch=Batch(global_batch=job.global_batch, sequence=job.sequence),
        recipe=Recipe(precision=precision, rate=job.lr, clip=job.clip),
        steps=job.steps,
        seed=job.seed,
    )


def _row(case: Case, by_rank: Sequence[Difference], question: ParityQuestion) -> ParityRow:
    first = next((item for item in by_rank if item.name is not None), None)
    largest = max(by_rank, key=lambda item: item.weight)
    values = {name: max(getattr(item, name) for item in by_rank) for name in ("loss", "norm", "weight")}
    agrees = first is None and max(values.values()) <= question.allowed
    finite = {name: value if value < float("inf") else None for name, value in values.items()}
    return ParityRow(
        layout_id=case.layout.id,
        ranks=case.layout.world_size,
        schedule=case.layout.schedule or "",
        **finite,
        weight_name=largest.largest,
        differs=None if first is None else first.name,
        differs_on_rank=None if first is None else first.rank,
        agrees=agrees,
    )


def _result(question: ParityQuestion, rows: Sequence[ParityRow]) -> Result:
    job, model = question.job, question.model
    only = question.runs[0][0] if len(question.runs) == 1 else None
    return Result(
        command="verify parity",
        verdict=_verdict(question, rows),
        inputs={
            "model": model,
            "system": None,
            "job": job,
            "layout": None if only is None else fields_of(only),
            "options": {
                "layouts": [fields_of(layout) for layout, _ in question.runs],
                "format": question.format,
                "allowed": question.allowed,
                "devices": question.options.devices,
                "timeout": question.options.timeout,
                "arithmetic": question.arithmetic,
            },
        },
        defaulted=(*model.defaulted, *question.defaulted),
        not_modelled=_NOT_MODELLED,
        sources=() if model.source is None else (model.source,),
        basis=dict.fromkeys(("loss", "norm", "weight"), Basis.MEASURED),
        body={"format": question.format, "allowed": question.allowed, "layouts": tuple(rows)},
    )


def _verdict(question: ParityQuestion, rows: Sequence[ParityRow]) -> Verdict:
    name, bound = question.model.name, question.allowed
    unit = "" if question.format == "float64" else " times the error of one process in bf16"
    count = f"{len(rows)} layouts train" if len(rows) > 1 else f"{rows[0].layout_id} trains"
    wrong = next((row for row in rows if not row.agrees), None)
    if wrong is None:
        worst = max(max(row.loss or 0.0, row.norm or 0.0, row.weight or 0.0) for row in rows)
        return Verdict(
            answer="yes",
            text=f"{name}: {count} as one process does; at most {worst:.2g}{unit} apart, {bound:g} are allowed",
        )
    where = f"{wrong.differs} on rank {wrong.differs_on_rank}" if wrong.differs else "the loss or the gradient's norm"
    failed = sum(not row.agrees for row in rows)
    more = f" ({failed} of {len(rows)} layouts differ)" if len(rows) > 1 else ""
    return Verdict(answer="no", text=f"{name}: {wrong.layout_id} differs first in {where}{more}")
