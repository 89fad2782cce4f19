"""`meshwright checkpoint timeline --size S --write R --captures T,... [--copy T] [--fail T]`."""

from __future__ import annotations

from typing import Any

import click

from meshwright.base.errors import FileError
from meshwright.base.parse import build
from meshwright.cli.options import Output, output_options
from meshwright.cli.show import show
from meshwright.scenarios.checkpointing import SaveOptions, checkpoint_timeline


@click.group("checkpoint")
def command() -> None:
    """Saves of a training run: when they are durable, and what a failure loses."""


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
