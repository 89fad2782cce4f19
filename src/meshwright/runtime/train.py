"""A model, a layout, slot orders and a job go in; the job runs on real processes, and its `Result` comes out."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import torch
import torch.distributed._functional_collectives  # pyright: ignore[reportUnusedImport] - loaded once, before a fork
import torch.distributed.fsdp  # pyright: ignore[reportUnusedImport] - as above

from meshwright.base.errors import RunError
from meshwright.base.result import Basis, Defaulted, Result, Source, Verdict
from meshwright.layout.axes import PIPELINE_OUTSIDE
from meshwright.layout.layout import fields_of
from meshwright.layout.mesh import coordinates
from meshwright.runtime.checks import check, recipe_of
from meshwright.runtime.job import Devices, Launcher, RunJob, RunOptions
from meshwright.runtime.launch.member import BACKENDS, Member, Told
from meshwright.runtime.launch.supervisor import Crew, launch
from meshwright.runtime.launch.under import run_under
from meshwright.runtime.loop.samples import SyntheticTokens
from meshwright.runtime.loop.trainer import Batch, Recipe, trainer_of
from meshwright.runtime.parallel.shards import Precision
from meshwright.runtime.state.replicas import check_replicas
from meshwright.runtime.state.safetensors import INDEX, SINGLE, stored_values, write_weights
from meshwright.runtime.state.weights import made_up, ranges_of, shapes_of
from meshwright.runtime.world import join
from meshwright.system.accelerator import accelerator_called

if TYPE_CHECKING:
    from meshwright.job.recipe import Recipe as Kept
    from meshwright.layout.layout import Layout
    from meshwright.model.arithmetic import Arithmetic
    from meshwright.model.model import Model
    from meshwright.runtime.launch.whereabouts import Whereabouts
    from meshwright.runtime.state.weights import Values
    from meshwright.workload.slots import Slots

Utilisation: TypeAlias = Callable[[float, float], float]
"""MFU from the tokens a second of all ranks and the peak of one device in FLOP/s."""

LOG: Final = logging.getLogger(__name__)
_FORMATS: Final = {"fp32": torch.float32, "bf16": torch.bfloat16}
_AXES: Final = ("pp", "dp_replicate", "dp_shard", "tp")
_NOT_MODELLED: Final = (
    "weights and samples are drawn from the seed: the loss says that the layout computes, not what a model learns",
    "tokens a second are of positions with a label; under ragged samples the padding is computed too and not counted",
    "a process computes on one thread",
    "dropout, whatever the config says",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a run is of. slots: one order a rank, of the layout's schedule.   defaulted: what nobody said.

    config: as Hugging Face has it, to be written beside saved weights.
    """

    model: Model
    arithmetic: Arithmetic
    config: Mapping[str, Any]
    layout: Layout
    slots: Slots
    job: RunJob
    options: RunOptions
    defaulted: tuple[Defaulted, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """A step. loss: a token, None where it is no number.   gradient_norm: before clipping, None as that.

    tokens: with a label, over all ranks.   seconds: on rank 0, from its samples to its update.
    """

    step: int
    loss: float | None
    gradient_norm: float | None
    tokens: int
    seconds: float
    tokens_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a rank returns: its steps, and what its device is called, "" for a CPU."""

    steps: tuple[StepRow, ...]
    device: str


def train(question: Question, utilisation: Utilisation, told: Told, under: Launcher | None) -> Result:
    """Run the job. told: takes every `StepRow` of rank 0.   under: the launcher that started this process, if one did.

    The verdict is no where the loss is no number. Raises as `check`, RUN002 (no CUDA), RUN010 and RUN011 (a rank that
    failed, or stood), RUN015 (copies of a weight that differ behind the last step).
    """
    layout, options = question.layout, question.options
    check(question.model, layout, question.job, options, under)
    check_devices(options.devices, 1 if under is not None else layout.world_size)
    _check_folders(question)
    crew = crew_of(layout, options)
    if under is None:
        _tell_of_cores(layout, options)
        ran = cast("Ran", launch(run_rank, question, crew, told)[0])
    else:
        ran = cast("Ran", run_under(under, run_rank, question, crew, told))
    return _result(question, recipe_of(question.job.recipe), ran, utilisation)


def crew_of(layout: Layout, options: RunOptions) -> Crew:
    """The ranks of a layout by their places along its axes."""
    every = (coordinates(layout, rank, PIPELINE_OUTSIDE) for rank in range(layout.world_size))
    places = tuple({axis: place[axis] for axis in _AXES} for place in every)
    return Crew(places=places, devices=options.devices, timeout_s=options.timeout)


def run_rank(member: Member, question: Question) -> Ran:
    """One rank's part: its stages, then step after step. Rank 0 tells each."""
    layout, job = question.layout, question.job
    member.where.does("building its stages")
    world = join(layout, member.rank, member.device)
    kept = recipe_of(job.recipe)
    recipe = Recipe(precision=precision_of(kept), rate=job.lr, clip=job.clip)
    batch = Batch(global_batch=job.global_batch, sequence=job.sequence)
    values = _noted(_values(question), member.where)
    trainer = trainer_of(question.model, question.arithmetic, world, question.slots, batch, recipe, values)
    trainer.pipeline.wire.where = member.where
    data = SyntheticTokens(seed=job.seed, vocab=question.model.vocab, sequence=job.sequence, ragged=job.ragged)
    rows: list[StepRow] = []
    for number in range(job.steps):
        member.where.enters_step(number)
        begun = time.perf_counter()
        report = trainer.step(number, data.sample)
        if member.device.type == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - begun
        rows.append(_row(number, report.loss, report.norm, report.tokens, seconds))
        if member.rank == 0:
            member.tell(rows[-1])
    member.where.does("comparing copies of weights")
    owned = ranges_of(question.model, layout, member.rank, "optimizer_state")
    check_replicas(world, trainer.parameters, owned)
    if question.options.save is not None:
        member.where.does("writing weights")
        write_weights(Path(question.options.save), world, trainer.parameters, owned, question.model, question.config)
    device = torch.cuda.get_device_name(member.device) if member.device.type == "cuda" else ""
    return Ran(steps=tuple(rows), device=device)


def precision_of(recipe: Kept) -> Precision:
    """The formats of a recipe that runs."""
    return Precision(
        compute=_FORMATS[recipe.compute], kept=_FORMATS[recipe.parameters], reduced=_FORMATS[recipe.gradients]
    )


def _values(question: Question) -> Values:
    """Of the folder that was given, or drawn from the seed."""
    model, folder = question.model, question.options.weights
    if folder is None:
        return made_up(model, question.job.seed)
    return stored_values(Path(folder), shapes_of(model), tied=model.tied)


def _noted(values: Values, where: Whereabouts) -> Values:
    """The same values, each weight noted: drawing those of a large model takes long."""

    def found(name: str, ranges: tuple[range, ...]) -> torch.Tensor:
        where.does(f"filling {name}")
        return values(name, ranges)

    return found


def _row(number: int, loss: float, norm: float, tokens: int, seconds: float) -> StepRow:
    return StepRow(
        step=number,
        loss=loss if math.isfinite(loss) else None,
        gradient_norm=norm if math.isfinite(norm) else None,
        tokens=tokens,
        seconds=seconds,
        tokens_per_s=tokens / seconds,
    )


def check_devices(devices: Devices, here: int) -> None:
    """Raises RUN002 where CUDA is asked for and is not there, or has fewer devices than ranks of this machine."""
    if devices != "cuda":
        return
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if there == 0:
        raise RunError(2, "--devices cuda, and torch finds no CUDA device here", "--devices cpu")
    if there < here:
        cause = f"{here} ranks, and this machine has {there} CUDA devices"
        raise RunError(2, cause, f"a layout of {there} ranks, or torchrun on more machines")


def _check_folders(question: Question) -> None:
    """Raises RUN016 and RUN017 for weights that can not be read, RUN019 for a folder that can not be written anew."""
    options = question.options
    if options.weights is not None:
        _values(question)
    if options.save is not None and any(Path(options.save, name).exists() for name in (SINGLE, INDEX)):
        raise RunError(19, f"--save-weights {options.save} holds weights already", "give a new folder")


def _tell_of_cores(layout: Layout, options: RunOptions) -> None:
    """A warning where ranks have less than a core each."""
    cores = os.cpu_count() or 1
    if options.devices == "cpu" and layout.world_size > cores:
        LOG.warning("%d processes share %d cores: the run is right, and slow", layout.world_size, cores)


# ---------------------------------------------------------------------------------------------------------- the answer


def _result(question: Question, recipe: Kept, ran: Ran, utilisation: Utilisation) -> Result:
    job, options, layout = question.job, question.options, question.layout
    timed = ran.steps[1:] or ran.steps
    rate = median(row.tokens_per_s for row in timed)
    peak, sources, of = _peak(options, recipe, ran.device)
    broken = next((row.step for row in ran.steps if row.loss is None or row.gradient_norm is None), None)
    stated = {item.name: getattr(job, item.name) for item in fields(job)}
    return Result(
        command="run train",
        verdict=_verdict(question, ran, broken),
        inputs={
            "model": question.model,
            "system": None,
            "job": {**stated, "formats": recipe},
            "layout": fields_of(layout),
            "options": {
                "devices": options.devices,
                "nproc": layout.world_size,
                "timeout": options.timeout,
                "peak_flops": options.peak_flops,
                "weights": options.weights,
                "save_weights": options.save,
                "arithmetic": question.arithmetic,
            },
        },
        defaulted=(*question.model.defaulted, *question.defaulted),
        not_modelled=_NOT_MODELLED,
        sources=(*(() if question.model.source is None else (question.model.source,)), *sources),
        basis=dict.fromkeys(("loss", "gradient_norm", "tokens", "seconds", "tokens_per_s", "mfu"), Basis.MEASURED),
        body={
            "layout_id": layout.id,
            "ranks": layout.world_size,
            "processes": layout.world_size,
            "backend": BACKENDS[options.devices],
            "device": ran.device or "cpu",
            "schedule": layout.schedule,
            "micro_batches": question.slots.micro_batches,
            "tokens_per_s": rate,
            "step_time_s": median(row.seconds for row in timed),
            "peak_flops_per_s": peak,
            "peak_of": of,
            "mfu": None if peak is None else utilisation(rate, peak),
            "steps": ran.steps,
        },
    )


def _verdict(question: Question, ran: Ran, broken: int | None) -> Verdict:
    ranks = question.layout.world_size
    name = f"{question.model.name} on {'1 process' if ranks == 1 else f'{ranks} processes'} ({question.layout.id})"
    if broken is not None:
        return Verdict(answer="no", text=f"{name}: the loss or the gradient of step {broken} is no number")
    first, last = ran.steps[0].loss, ran.steps[-1].loss
    count = f"{len(ran.steps)} steps" if len(ran.steps) > 1 else "1 step"
    return Verdict(answer="yes", text=f"{name}: {count}, loss {first:.4f} to {last:.4f}")


def _peak(options: RunOptions, recipe: Kept, device: str) -> tuple[float | None, tuple[Source, ...], str | None]:
    """FLOP/s of one device as it was said, or as the catalog has it; where that was read; and of what it is."""
    if options.peak_flops is not None:
        return options.peak_flops, (), "--peak-flops"
    known = accelerator_called(device)
    if known is None or recipe.compute not in known.peak:
        return None, (), None
    return known.peak[recipe.compute], known.facts.sources, f"{known.name}, {recipe.compute}"


def told_of(row: Any) -> str:
    """A step as a line of progress."""
    loss = "no number" if row.loss is None else f"{row.loss:.4f}"
    return f"step {row.step}: loss {loss}, {row.tokens_per_s:,.0f} tokens/s"
