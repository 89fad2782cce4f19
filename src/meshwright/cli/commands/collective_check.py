"""`meshwright collective check FILE --on SYSTEM ...`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from meshwright.base.parse import build, read_text
from meshwright.cli.nouns import system_of
from meshwright.cli.options import Output, output_options, set_option, split_settings, system_options
from meshwright.cli.show import show
from meshwright.scenarios.collective_check import CheckOptions, collective_check
from meshwright.system.nccl_tests import PROGRAMS, read_measurement


@click.command("check")
@click.argument("log", metavar="FILE")
@system_options
@click.option(
    "--place",
    type=click.Choice(["out_of_place", "in_place"]),
    default="out_of_place",
    show_default=True,
    help="Which times.",
)
@click.option("--operation", type=click.Choice(list(PROGRAMS.values())), default=None, help="Where the file is silent.")
@click.option("--ranks", type=int, default=None, help="Where the file does not list them.")
@click.option("--boxes", type=int, default=None, help="Hosts that they stand on, as --ranks.")
@click.option("--nics", type=int, default=None, metavar="N", help="In use by each box [all of the system's].")
@click.option("--family", default="nccl", show_default=True, help="How it was done and timed: framework, in_switch...")
@click.option("--algorithm", default="auto", show_default=True, help="A registered one, as ring or in_switch.")
@click.option("--wire", default=None, help="Of a link, expected where nobody measured [78% in a box, 94% between].")
@click.option("--least", default=None, help="Of a link, normal at least there [70% in a box, 90% between].")
@click.option("--within", default="10%", show_default=True, help="Around an archived time of this platform.")
@click.option("--chunk", default=None, help="Bytes of one step of a rail, as in 128KiB.")
@click.option("--step-latency", default=None, help="And what a step takes, as in 11us.")
@click.option("--stated", default=None, help="The bus bandwidth that somebody expected, as in 900GB/s.")
@click.option("--partial", is_flag=True, help="Take a table whose end is missing.")
@set_option
@output_options
def command(output: Output, log: str, system: str, settings: tuple[str, ...], **given: Any) -> int:
    """Whether each size of a run of nccl-tests is normal for the system, and why it may be low."""
    options = build(
        CheckOptions, {name: value for name, value in given.items() if value is not None}, "collective check"
    )
    on = system_of(system, split_settings(settings, ("system",))["system"])
    return show(collective_check(read_measurement(read_text(Path(log)), log), on, options), output)
