"""`meshwright verify parity --model MODEL [--layout tp=2,pp=2] [--schedule NAME] [--numbers float64|bf16]`."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import click

from meshwright.base.errors import MeshwrightError, RunError
from meshwright.base.parse import build
from meshwright.cli.nouns import fixed_of, hub_cache, model_of
from meshwright.cli.options import ModelChoice, Output, layout_option, output_options
from meshwright.cli.progress import lines
from meshwright.cli.show import show
from meshwright.model.reader import read_arithmetic
from meshwright.runtime.checks import check
from meshwright.runtime.job import Launcher, RunJob, RunOptions, check_number, completed, launcher_of
from meshwright.scenarios.slot_orders import slot_orders

if TYPE_CHECKING:
    from meshwright.base.result import Defaulted, Result
    from meshwright.layout.layout import Layout
    from meshwright.model.model import Model

_JOB: Final = ("steps", "global_batch", "sequence")
_PROCESSES: Final = 4


@click.command("parity")
@click.option("--model", "name", default="tiny-qwen3", show_default=True, metavar="MODEL", help="As run train takes.")
@click.option("--download", is_flag=True, help="Ask the Hugging Face hub when the id is nowhere else.")
@layout_option
@click.option("--schedule", default=None, help="Of the pipeline, by name [one_f_one_b].")
@click.option("--steps", type=int, default=3, show_default=True, help="Updates before weights are compared.")
@click.option("--global-batch", type=int, default=16, show_default=True, help="Samples of a step, over all ranks.")
@click.option("--sequence", default="16", show_default=True, help="Positions of a sample; their lengths vary.")
@click.option("--numbers", type=click.Choice(["float64", "bf16"]), default="float64", show_default=True)
@click.option("--allowed", type=float, default=None, help="A difference, or under bf16 a multiple [1e-9, or 2].")
@click.option("--devices", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option("--nproc", type=int, default=None, help="Ranks, where no --layout says them [4].")
@click.option("--timeout", default="60s", show_default=True, help="The longest a rank may stand in one place.")
@output_options
def command(output: Output, name: str, download: bool, layout: str, schedule: str | None, **given: Any) -> int:  # noqa: FBT001 - click passes by name
    """Train for a few steps under a layout and in one process, and compare every loss and every weight.

    Without --layout a sample of layouts runs: every schedule, policy and axis, and every pair of axes, that the ranks
    hold. Under torchrun this process joins the others, and rank 0 prints the answer.
    """
    under = launcher_of(os.environ)
    rank = 0 if under is None else under.rank
    try:
        choice = ModelChoice(name=name, weights=None, kv=None, download=download)
        result = _verify(output, choice, (layout, schedule), given, under)
    except MeshwrightError as problem:
        if rank == 0:
            raise
        click.echo(problem.message, err=True)  # stdout carries one answer, which is that of rank 0
        return problem.exit_code
    return show(result, output) if rank == 0 else result.verdict.exit_code


def _verify(
    output: Output, choice: ModelChoice, asked: tuple[str, str | None], given: dict[str, Any], under: Launcher | None
) -> Result:
    numbers, allowed = given.pop("numbers"), given.pop("allowed")
    if allowed is not None:
        check_number("allowed", allowed, 0.0, 1e30)
    job = build(RunJob, {**{key: given.pop(key) for key in _JOB}, "seed": output.seed, "ragged": True}, "job")
    options = build(RunOptions, given, "verify parity")
    model = model_of(choice, {})
    layouts, defaulted = _layouts(model, asked, job, options, under)
    shapes = [check(model, layout, job, options, under) for layout in layouts]
    arithmetic = read_arithmetic(choice.name, cache=hub_cache(), download=choice.download)
    slots = [slot_orders(layout.schedule or "", shape) for layout, shape in zip(layouts, shapes, strict=True)]
    if find_spec("torch") is None:
        raise RunError(1, "a run needs the extra torch, and it is not installed", "pip install 'meshwright[torch]'")
    from meshwright.verify.parity_run import ALLOWED, ParityQuestion, verify_parity  # noqa: PLC0415 - loads torch

    question = ParityQuestion(
        model=model,
        arithmetic=arithmetic,
        runs=tuple(zip(layouts, slots, strict=True)),
        job=job,
        options=options,
        format=numbers,
        allowed=ALLOWED[numbers] if allowed is None else allowed,
        defaulted=defaulted,
    )
    with lines(output, lambda done: f"ran {done}") as told:
        return verify_parity(question, told, under)


def _layouts(
    model: Model, asked: tuple[str, str | None], job: RunJob, options: RunOptions, under: Launcher | None
) -> tuple[list[Layout], tuple[Defaulted, ...]]:
    """The layout that was asked for, or a sample of those of so many ranks. Raises RUN012 where there is none."""
    layout, schedule = asked
    if layout or schedule:
        one, defaulted = completed(fixed_of(layout, {}), schedule)
        return [one], defaulted
    from meshwright.verify.parity_grid import axes_of, covering, grid  # noqa: PLC0415 - a folder that torch stands in

    ranks = under.ranks if under is not None else options.nproc or _PROCESSES
    known = [item for item in grid({model.name: model}, ranks, job.global_batch) if item.layout.world_size == ranks]
    if not known:
        cause = f"{model.name}: no layout of {ranks} ranks with --global-batch {job.global_batch}"
        raise RunError(12, cause, "give --nproc 2, 4 or 8, or a --layout")
    return [item.layout for item in covering(known, axes_of)], ()
