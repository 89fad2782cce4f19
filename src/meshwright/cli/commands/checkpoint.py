"""`meshwright checkpoint interval --size S --write R --job-mtbf T --restart T`, and `checkpoint timeline`."""

from __future__ import annotations

from typing import Any, Final

import click

from meshwright.base.errors import FileError
from meshwright.base.parse import build
from meshwright.cli.nouns import model_of
from meshwright.cli.options import ModelChoice, Output, output_options
from meshwright.cli.show import show
from meshwright.job.recipe import read_recipe
from meshwright.scenarios.checkpoint_interval import IntervalOptions, checkpoint_interval
from meshwright.scenarios.checkpointing import SaveOptions, checkpoint_timeline


@click.group("checkpoint")
def command() -> None:
    """Saves of a training run: how often, when they are durable, and what a failure loses."""


_LISTS: Final = ("intervals", "common_mode_mtbf")


@command.command("interval")
@click.option("--size", default=None, help="Bytes of one save, as in 112GB.")
@click.option("--model", default=None, metavar="MODEL", help="Or of this model's state, without gradients.")
@click.option("--recipe", default="bf16-adamw", show_default=True, help="Of --model: formats and optimizer, by name.")
@click.option("--write", required=True, help="What the storage takes, as in 7GB/s.")
@click.option("--devices", type=int, default=1, show_default=True, help="Of the job.")
@click.option("--job-mtbf", default=None, help="Between failures of the whole job, as in 7.9h.")
@click.option("--card-mtbf", default=None, help="Or of one device, as in 337d.")
@click.option("--common-mode-mtbf", default=None, metavar="T,...", help="Beside --card-mtbf: what stops all of them.")
@click.option("--spike-interval", default=None, help="Between loss spikes of the job, as in 7d.")
@click.option("--restart", required=True, help="From a failure until training runs again, as in 120s.")
@click.option("--intervals", default=None, metavar="T,...", help="To be compared [300s,900s,1800s].")
@click.option("--mode", type=click.Choice(["sync", "async"]), default="sync", show_default=True)
@click.option("--copy", default="0s", show_default=True, help="Of a save to its buffer; training stands.")
@click.option("--commit", default="0s", show_default=True, help="Of the record that follows the data.")
@click.option(
    "--recovery", type=click.Choice(["safe", "exposed"]), default="safe", show_default=True, help="May it fail too?"
)
@click.option("--within", default="1%", show_default=True, help="Points above the best that count as flat.")
@click.option("--work", default="25d", show_default=True, help="Useful training time of the run.")
@click.option("--reserve", default="0s", show_default=True, help="Planned stops within the run.")
@click.option("--runs", type=int, default=1000, show_default=True, help="Of the simulation; 0 for none.")
@output_options
def interval(output: Output, model: str | None, **given: Any) -> int:
    """The interval between saves that costs least, what others cost, and the run simulated at each."""
    stated = {name: value for name, value in given.items() if value is not None}
    stated["recipe"] = read_recipe(given["recipe"])
    lists = {name: [part.strip() for part in stated[name].split(",")] for name in _LISTS if name in stated}
    options = build(IntervalOptions, {**stated, **lists, "seed": output.seed}, "checkpoint interval")
    choice = None if model is None else ModelChoice(name=model, weights=None, kv=None, download=False)
    return show(checkpoint_interval(options, None if choice is None else model_of(choice, {})), output)


@command.command("timeline")
@click.option("--size", required=True, help="Bytes of one save, as in 112GB.")
@click.option("--write", required=True, help="What the storage takes, as in 7GB/s.")
@click.option("--captures", default=None, metavar="T,...", help="When saves are due, as in 20s,40s.")
@click.option("--every", default=None, help="Or their interval, as in 30min.")
@click.option("--count", type=int, default=None, help="How many, with --every [2].")
@click.option("--copy", default="0s", show_default=True, help="Of a save to its buffer; training stands.")
@click.option("--commit", default="0s", show_default=True, help="Of the record that follows the data.")
@click.option("--mode", type=click.Choice(["async", "sync"]), default="async", show_default=True)
@click.option("--staging", type=int, default=None, help="Buffers for saves under way [as many as it takes].")
@click.option(
    "--when-full", type=click.Choice(["block", "drop"]), default=None, help="No buffer free: wait, or skip [block]."
)
@click.option("--fail", default=None, help="When the job stops, its uploads with it, as in 50s.")
@click.option("--clock", type=click.Choice(["wall", "training"]), default="wall", show_default=True)
@output_options
def timeline(output: Output, captures: str | None, **given: Any) -> int:
    """When each save is captured, copied, written and committed, and what a failure goes back to."""
    for name, other in (("count", "every"), ("when_full", "staging")):
        if given[name] is None:
            del given[name]
        elif given[other] is None:
            cause = f"--{name.replace('_', '-')} belongs to --{other}"
            raise FileError(36, cause, f"give --{other} too, or leave it out")
    due = [] if captures is None else [part.strip() for part in captures.split(",")]
    options = build(SaveOptions, {**given, "captures": due}, "checkpoint timeline")
    return show(checkpoint_timeline(options), output)
