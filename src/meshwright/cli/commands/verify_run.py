"""`meshwright verify run --model MODEL --layout k=v,...`: one layout is run and compared with its plan."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import click

from meshwright.base.errors import RunError
from meshwright.base.parse import build
from meshwright.base.units import Tokens
from meshwright.cli.nouns import hub_cache
from meshwright.cli.options import Output, layout_option, output_options
from meshwright.cli.show import show
from meshwright.job.recipe import read_recipe
from meshwright.layout.layout import read_fixed
from meshwright.model.reader import read_arithmetic, read_model
from meshwright.runtime.job import completed


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Of a run. global_batch: samples of a step.   sequence: positions of one.   steps: before one is recorded."""

    global_batch: int
    sequence: Tokens
    steps: int


@click.command("run")
@click.option("--model", "name", required=True, metavar="MODEL", help="A path or an id, as tiny-qwen3.")
@click.option("--schedule", default=None, help="Of the pipeline, by name [one_f_one_b].")
@click.option("--global-batch", type=int, default=8, show_default=True, help="Samples of a step, over all ranks.")
@click.option("--sequence", default="64", show_default=True, help="Positions of a sample, as in 2K.")
@click.option("--recipe", default="fp32-adamw", show_default=True, help="fp32-adamw, or fsdp2-adamw.")
@click.option("--steps", type=int, default=2, show_default=True, help="That are timed, before one is recorded.")
@layout_option
@output_options
def command(name: str, schedule: str | None, recipe: str, output: Output, layout: str, **given: Any) -> int:
    """A layout run for real on this machine: its bytes, messages and FLOPs, as predicted or not."""
    if find_spec("torch") is None:
        raise RunError(1, "a run needs the extra torch, and it is not installed", "pip install 'meshwright[torch]'")
    from meshwright.verify.run import verify_run  # noqa: PLC0415 - torch may be absent, which is said above
    from meshwright.verify.setting import setting_of  # noqa: PLC0415 - as above

    options = build(RunOptions, given, "verify run")
    fixed, _ = completed(read_fixed(layout), schedule)
    setting = setting_of(
        read_model(name, cache=hub_cache()),
        fixed,
        read_recipe(recipe),
        options.global_batch,
        options.sequence,
        options.steps,
        output.seed,
    )
    return show(verify_run(setting, read_arithmetic(name, cache=hub_cache())), output)
