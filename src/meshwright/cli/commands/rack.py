"""`meshwright rack --on SYSTEM --power P [--air-limit P --fixed P --grouped N]`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from meshwright.base.parse import build
from meshwright.cli.nouns import system_of
from meshwright.cli.options import Output, output_options, set_option, split_settings, system_options
from meshwright.cli.show import check_files, show, write_file
from meshwright.scenarios.rack import RackOptions, rack

_LISTS: Final = ("devices", "boxes")


@click.command("rack")
@system_options
@click.option("--power", required=True, help="Of everything, as in 150kW.")
@click.option("--fixed", default="0W", show_default=True, help="Of what is there anyway: storage, the hall.")
@click.option("--cooling", default="air", show_default=True, help="By name: air, liquid.")
@click.option("--air-limit", default=None, help="Most that a rack cooled by air may take [40 kW, assumed].")
@click.option("--rack-limit", default=None, help="Most that one rack may take [what its cooling is held to].")
@click.option("--grouped", type=int, default=1, show_default=True, help="Boxes come in groups of so many.")
@click.option("--devices", default=None, metavar="N,...", help="Counts of accelerators to be judged.")
@click.option("--boxes", default=None, metavar="N,...", help="Counts of boxes to be judged.")
@click.option("--radix", type=int, default=64, show_default=True, help="Ports of a switch between boxes.")
@click.option("--switch-power", default="0W", show_default=True, help="Of each such switch.")
@click.option("--box-price", type=float, default=None, help="In any one currency; with --switch-price a staircase.")
@click.option("--switch-price", type=float, default=None, help="In the same currency.")
@click.option("--distance", default=None, help="Between boxes, as in 30m: which media reach it.")
@click.option("--svg", default=None, metavar="FILE", help="Write the staircase as a picture.")
@set_option
@output_options
def command(system: str, svg: str | None, settings: tuple[str, ...], output: Output, **given: Any) -> int:
    """How many accelerators a power budget carries, in whole boxes, racks, groups and tiers of switches."""
    check_files(svg, output.file)
    stated = {name: value for name, value in given.items() if value is not None}
    lists = {name: [part.strip() for part in stated[name].split(",")] for name in _LISTS if name in stated}
    options = build(RackOptions, {**stated, **lists}, "rack")
    result = rack(system_of(system, split_settings(settings, ("system",))["system"]), options)
    if svg is not None:
        from meshwright.output.rack_svg import as_svg  # noqa: PLC0415 - a form is loaded when it is asked for

        write_file(Path(svg), as_svg(result).encode())
    return show(result, output)
