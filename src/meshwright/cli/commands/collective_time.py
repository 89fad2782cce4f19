"""`meshwright collective time OP --bytes S --on SYSTEM|SPEC`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from meshwright.base.errors import FileError
from meshwright.base.parse import build
from meshwright.base.units import parse_quantity
from meshwright.cli.nouns import fixed_of, system_of
from meshwright.cli.options import Output, layout_option, output_options, set_option, split_settings, system_options
from meshwright.cli.show import check_files, show, write_file
from meshwright.layout.layout import Layout
from meshwright.scenarios.collective_time import CollectiveOptions, collective_curves, collective_time
from meshwright.system.fabric import is_topology, read_topology, system_fabric

if TYPE_CHECKING:
    from meshwright.system.graph import Fabric
    from meshwright.system.system import System


@click.command("time")
@click.argument("operation", metavar="OP")
@click.option("--bytes", "size", required=True, help="Of the message as nccl-tests counts it, as in 64MiB.")
@click.option("--ranks", type=int, default=None, help="The first devices of the system [all].")
@system_options
@click.option("--algorithm", default="all", show_default=True, help="By name, several by comma; or all.")
@click.option(
    "--depth",
    type=click.Choice(["alpha-beta", "rounds", "flows"]),
    default="rounds",
    show_default=True,
    help="Ports alone, the busiest link of each round, or flows that share links fairly.",
)
@layout_option
@click.option("--channels", type=int, default=None, help="Of rings and trees over boxes [one a rank of a box].")
@click.option("--ports", is_flag=True, help="List the links that the fastest uses, and what crosses boxes.")
@click.option(
    "--beside", default=None, metavar="A>B[@RATE],...", help="Other traffic from device A to B, as in 0>8@20GB/s."
)
@click.option("--svg", default=None, metavar="FILE", help="Write time against size of every algorithm as a picture.")
@set_option
@output_options
def command(  # noqa: PLR0917 - options arrive by name
    operation: str,
    system: str,
    layout: str,
    settings: tuple[str, ...],
    beside: str | None,
    svg: str | None,
    output: Output,
    **given: Any,
) -> int:
    """How long OP takes by every algorithm on a system or a topology (torus:8x8x8), and where another is faster."""
    check_files(svg, output.file)
    if svg is not None and layout:
        raise FileError(36, "--svg draws one group", "leave --layout out")
    changes = split_settings(settings, ("system", "layout"))
    parse_quantity(given["size"], "bytes", "--bytes")  # named as it was typed where it is wrong
    fabric, known = _fabric(system, changes["system"], output.seed)
    fixed = fixed_of(layout, changes["layout"])
    asked = {**given, "operation": operation.replace("-", "_"), "on": system, "seed": output.seed}
    options = build(CollectiveOptions, {**asked, "beside": _beside(beside)}, "collective time")
    fields: dict[str, Any] = {"attention": "data_parallel"} | fixed
    result = collective_time(options, fabric, known, Layout(**fields) if fixed else None)
    if svg is not None:
        _draw(options, fabric, known, svg)
    return show(result, output)


def _fabric(text: str, settings: dict[str, str], seed: int) -> tuple[Fabric, System | None]:
    """The fabric of a topology or of a system, and that system. Raises IO032 for --set on a topology.

    seed: of what hashes flows, where its spec does not say.
    """
    if not is_topology(text):
        system = system_of(text, settings)
        return system_fabric(system, seed), system
    if settings:
        raise FileError(32, f"--set system.{next(iter(settings))}: {text} is a topology", "give the option in its spec")
    return read_topology(text, {"seed": seed}), None


def _beside(text: str | None) -> list[dict[str, Any]]:
    """Other traffic as records. Raises IO032."""
    found: list[dict[str, Any]] = []
    for part in (item.strip() for item in (text or "").split(",") if item.strip()):
        match = re.fullmatch(r"(\d{1,9})\s*>\s*(\d{1,9})(?:\s*@\s*(.+))?", part)
        if match is None:
            raise FileError(32, f"--beside {part}: not A>B or A>B@RATE", "write as in --beside 0>8@20GB/s")
        sender, receiver, rate = match.groups()
        found.append({"sender": int(sender), "receiver": int(receiver), "rate": rate})
    return found


def _draw(options: CollectiveOptions, fabric: Fabric, system: System | None, file: str) -> None:
    from meshwright.output.curves_svg import Mark, as_curves  # noqa: PLC0415 - a form is loaded when it is asked for

    drawn = collective_curves(options, fabric, system)
    ranks = options.ranks or len(fabric.devices)
    title = f"{options.operation} over {ranks} ranks, {fabric.title}, by {options.depth}"
    curves = {name: [(point.size_bytes, point.time_s) for point in curve] for name, curve in drawn["curves"].items()}
    marks = [Mark(at=int(options.size), told=f"asked: {options.size:,} B")]
    for item in drawn["crossovers"]:
        told = f"{item.size_bytes:,} B: {item.below} to {item.above}"
        marks.append(Mark(at=item.size_bytes, told=told, curve=item.above))
    picture = as_curves(title, "bytes", curves, marks)
    write_file(Path(file), picture.encode())
