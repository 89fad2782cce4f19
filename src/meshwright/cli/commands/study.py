"""`meshwright study list` and `meshwright study run NAME [--step STEP] [--set PATH=VALUE]`."""

from __future__ import annotations

import click

from meshwright.cli.options import Output, output_options, pairs
from meshwright.cli.show import show
from meshwright.sweep.study import run_study, studies


@click.group("study")
def command() -> None:
    """Packaged studies: public functions with the inputs of a worked example."""


@command.command("list")
@output_options
def listing(output: Output) -> int:
    """Every study: its name, what it answers and the function behind it."""
    return show(studies(), output)


@command.command("run")
@click.argument("name")
@click.option("--set", "settings", multiple=True, metavar="PATH=VALUE", help="An input, or a field of it, otherwise.")
@click.option("--step", "steps", multiple=True, metavar="STEP", help="Only this step of it; repeatable.")
@output_options
def run(name: str, settings: tuple[str, ...], steps: tuple[str, ...], output: Output) -> int:
    """Run one study, with some inputs set otherwise."""
    return show(run_study(name, dict(pairs(settings)), steps), output)
