"""`meshwright run train --model MODEL --layout tp=2,pp=2,dp_shard=2 --schedule zero_bubble_h1 --steps N`."""

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
from meshwright.model.arithmetic import arithmetic_of
from meshwright.model.reader import config_of
from meshwright.runtime.checks import check
from meshwright.runtime.job import RunJob, RunOptions, completed, launcher_of
from meshwright.scenarios.mfu import utilisation_of
from meshwright.scenarios.slot_orders import slot_orders

if TYPE_CHECKING:
    from meshwright.base.result import Result
    from meshwright.runtime.job import Launcher

_JOB: Final = ("steps", "global_batch", "sequence", "recipe", "lr", "clip", "ragged")


@click.command("train")
@click.option("--model", "name", required=True, metavar="MODEL", help="A dense Llama, Qwen2 or Qwen3 decoder.")
@click.option("--download", is_flag=True, help="Ask the Hugging Face hub when the id is nowhere else.")
@layout_option
@click.option("--schedule", default=None, help="Of the pipeline, by name [one_f_one_b].")
@click.option("--steps", type=int, default=10, show_default=True, help="Of the optimizer.")
@click.option("--global-batch", type=int, default=16, show_default=True, help="Samples of a step, over all ranks.")
@click.option("--sequence", default="64", show_default=True, help="Positions of a sample, as in 4K.")
@click.option("--recipe", default="fp32-adamw", show_default=True, help="Formats and optimizer, by name.")
@click.option("--lr", type=float, default=8e-4, show_default=True, help="Learning rate of AdamW.")
@click.option("--clip", type=float, default=1.0, show_default=True, help="Largest norm of the whole gradient.")
@click.option("--ragged", is_flag=True, help="Samples of unequal length.")
@click.option("--devices", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option("--nproc", type=int, default=None, help="Processes on this machine [the ranks of the layout].")
@click.option("--timeout", default="60s", show_default=True, help="The longest a rank may stand in one place.")
@click.option("--weights", default=None, metavar="DIR", help="Safetensors to begin with [drawn from the seed].")
@click.option("--save-weights", "save", default=None, metavar="DIR", help="Where to write them behind the last step.")
@click.option("--peak-flops", default=None, help="Of a device, as in 1TFLOP/s [the catalog's, for CUDA].")
@output_options
def command(output: Output, name: str, download: bool, layout: str, schedule: str | None, **given: Any) -> int:  # noqa: FBT001 - click passes by name
    """Train a model on real processes, and report loss, tokens a second and MFU.

    Processes are started here, one a rank; under torchrun this process joins the others, and rank 0 prints the answer.
    """
    under = launcher_of(os.environ)
    try:
        choice = ModelChoice(name=name, weights=None, kv=None, download=download)
        result = _train(output, choice, fixed_of(layout, {}), schedule, given, under)
    except MeshwrightError as problem:
        if under is None or under.rank == 0:
            raise
        click.echo(problem.message, err=True)  # stdout carries one answer, which is that of rank 0
        return problem.exit_code
    if under is not None and under.rank > 0:
        return result.verdict.exit_code
    return show(result, output)


def _train(  # noqa: PLR0917 - what was typed
    output: Output,
    choice: ModelChoice,
    fixed: dict[str, Any],
    schedule: str | None,
    given: dict[str, Any],
    under: Launcher | None,
) -> Result:
    job = build(RunJob, {**{key: given.pop(key) for key in _JOB}, "seed": output.seed}, "job")
    options = build(RunOptions, {**given, "peak_flops": _rate(given["peak_flops"])}, "run train")
    layout, defaulted = completed(fixed, schedule)
    model = model_of(choice, {})
    shape = check(model, layout, job, options, under)
    config = config_of(choice.name, cache=hub_cache(), download=choice.download)
    arithmetic = arithmetic_of(config)
    slots = slot_orders(layout.schedule or "", shape)
    if find_spec("torch") is None:
        raise RunError(1, "a run needs the extra torch, and it is not installed", "pip install 'meshwright[torch]'")
    from meshwright.runtime.train import Question, told_of, train  # noqa: PLC0415 - loads torch

    question = Question(
        model=model,
        arithmetic=arithmetic,
        config=config,
        layout=layout,
        slots=slots,
        job=job,
        options=options,
        defaulted=defaulted,
    )
    with lines(output, told_of) as told:
        return train(question, utilisation_of(model, job.sequence, layout.world_size), told, under)


def _rate(text: str | None) -> str | None:
    """A rate without its unit is FLOP/s, as other tools print it: `1e12`."""
    if text is None:
        return None
    try:
        float(text)
    except ValueError:
        return text
    return f"{text.strip()}FLOP/s"
