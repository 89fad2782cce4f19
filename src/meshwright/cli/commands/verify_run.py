"""`meshwright verify run --model MODEL --layout k=v,...`: one layout is run and compared with its plan.

With `--check` its calls are compared with each other; with `--sleep` stages sleep, to measure what ranks wait.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from meshwright.base.errors import RunError
from meshwright.base.parse import build
from meshwright.base.units import Seconds, Tokens
from meshwright.cli.nouns import hub_cache
from meshwright.cli.options import Output, layout_option, output_options
from meshwright.cli.show import show
from meshwright.job.recipe import read_recipe
from meshwright.layout.layout import read_fixed
from meshwright.model.reader import read_arithmetic, read_model
from meshwright.runtime.job import check_alone, check_number, completed

if TYPE_CHECKING:
    from meshwright.base.result import Result

_SLEPT: Final = ("stages", "micro_batches", "virtual_stages", "repeats")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Of a run. global_batch: samples of a step.   sequence: positions of one.   steps: before one is recorded."""

    global_batch: int
    sequence: Tokens
    steps: int
    timeout: Seconds


@click.command("run")
@click.option("--model", "name", default="tiny-qwen3", show_default=True, metavar="MODEL", help="As run train takes.")
@click.option("--schedule", default=None, help="Of the pipeline, by name [one_f_one_b; under --sleep all].")
@click.option("--global-batch", type=int, default=8, show_default=True, help="Samples of a step, over all ranks.")
@click.option("--sequence", default="64", show_default=True, help="Positions of a sample, as in 2K.")
@click.option("--recipe", default="fp32-adamw", show_default=True, help="fp32-adamw, or fsdp2-adamw.")
@click.option("--steps", type=int, default=2, show_default=True, help="That are timed, before one is recorded.")
@click.option("--timeout", default="60s", show_default=True, help="The longest a rank may stand in one place.")
@click.option("--calibration", default=None, metavar="FILE", help="Of calibrate local: predicts the time of a step.")
@click.option("--check", is_flag=True, help="Compare the calls of all ranks: order, sizes, waits, buffers.")
@click.option(
    "--turns",
    type=click.Choice(["free", "pair"]),
    default="pair",
    show_default=True,
    help="Of --check: whether what two ranks of a group send each other runs in one order, as NCCL's does.",
)
@click.option("--sleep", default=None, metavar="forward=T,backward=T,...", help="Stages sleep instead: measured waits.")
@click.option("--stages", type=int, default=4, show_default=True, help="Of --sleep: as many processes.")
@click.option("--micro-batches", type=int, default=8, show_default=True, help="Of --sleep.")
@click.option("--virtual-stages", type=int, default=2, show_default=True, help="Of --sleep: of interleaved.")
@click.option("--repeats", type=int, default=3, show_default=True, help="Of --sleep: steps of which the median counts.")
@layout_option
@output_options
def command(name: str, schedule: str | None, recipe: str, output: Output, layout: str, **given: Any) -> int:
    """A layout run for real on this machine: its bytes, messages and FLOPs, as predicted or not."""
    if find_spec("torch") is None:
        raise RunError(1, "a run needs the extra torch, and it is not installed", "pip install 'meshwright[torch]'")
    sleep, check, turns, file = (given.pop(key) for key in ("sleep", "check", "turns", "calibration"))
    slept = {key: given.pop(key) for key in _SLEPT}
    if sleep is not None:
        check_alone("--sleep", {"--check": check, "--layout": layout}, "stages that sleep have neither")
        return show(_slept(sleep, schedule, slept), output)
    from meshwright.verify.local.files import read_calibration  # noqa: PLC0415 - as below
    from meshwright.verify.run import verify_run  # noqa: PLC0415 - torch may be absent, which is said above
    from meshwright.verify.run_calls import verify_calls  # noqa: PLC0415 - as above
    from meshwright.verify.setting import setting_of  # noqa: PLC0415 - as above

    options = build(RunOptions, given, "verify run")
    check_number("timeout", options.timeout, 0.1, 86_400.0)
    fixed, defaulted = completed(read_fixed(layout), schedule)
    setting = setting_of(
        read_model(name, cache=hub_cache()),
        fixed,
        read_recipe(recipe),
        options.global_batch,
        options.sequence,
        options.steps,
        output.seed,
    )
    arithmetic = read_arithmetic(name, cache=hub_cache())
    if check:
        found = verify_calls(setting, arithmetic, turns, timeout_s=options.timeout)
    else:
        rates = None if file is None else read_calibration(Path(file))
        found = verify_run(setting, arithmetic, timeout_s=options.timeout, rates=rates)
    return show(replace(found, defaulted=(*setting.model.defaulted, *defaulted)), output)


def _slept(sleep: str, schedule: str | None, given: dict[str, Any]) -> Result:
    from meshwright.verify.bubbles import BubbleOptions, bubbles, read_sleep  # noqa: PLC0415 - as above

    return bubbles(BubbleOptions(sleep=read_sleep(sleep), schedule=schedule or "all", **given))
