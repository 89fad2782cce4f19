"""`meshwright calibrate local [--nproc 4] [--devices cpu|cuda] [-o FILE.toml]`: this machine, measured."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from meshwright.base.errors import FileError, RunError
from meshwright.base.parse import build
from meshwright.base.units import parse_quantity
from meshwright.cli.options import Output, output_options
from meshwright.cli.show import show, write_file
from meshwright.layout.layout import Layout, read_fixed
from meshwright.model.reader import read_arithmetic, read_model

if TYPE_CHECKING:
    from meshwright.verify.local.runs import RealRun

_SUFFIX: Final = ".toml"


@click.command("local")
@click.option("--nproc", type=int, default=4, show_default=True, help="Processes; on cuda each has its own device.")
@click.option("--devices", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option("--groups", default=None, metavar="N,...", help="Ranks that exchange [2 and --nproc].")
@click.option("--quick", is_flag=True, help="Three sizes to 1 MiB and three rounds, in place of 64 MiB and five.")
@click.option("--timeout", default="30min", show_default=True, help="After which processes that hang are ended.")
@click.option("--check", "layouts", multiple=True, metavar="k=v,...", help="A layout to run and predict; repeatable.")
@click.option("--model", default="tiny-qwen3", show_default=True, help="Of --check, in float32.")
@click.option("--sequence", default="64", show_default=True, help="Of --check: tokens of one sequence.")
@click.option("--global-batch", type=int, default=16, show_default=True, help="Of --check: sequences of one step.")
@click.option("--date", "day", default=None, metavar="YYYY-MM-DD", help="Stated in the files of -o [today].")
@output_options
def command(output: Output, quick: bool, layouts: tuple[str, ...], day: str | None, **given: Any) -> int:  # noqa: FBT001 - click's flag
    """Exchanges, rates, overlap and step overheads of this machine, with their spread.

    -o FILE.toml writes a system for --on, and FILE.calibration.toml with every size and spread beside it; any other
    name takes the answer.
    """
    if find_spec("torch") is None:
        raise RunError(1, "a run needs the extra torch, and it is not installed", "pip install 'meshwright[torch]'")
    from meshwright.verify.calibrate import calibrate_local  # noqa: PLC0415 - torch is loaded only by verbs that run
    from meshwright.verify.local.cases import LocalOptions, check_whole  # noqa: PLC0415 - as above
    from meshwright.verify.local.files import calibration_text, system_text  # noqa: PLC0415 - as above

    stated = _day(day)
    groups = [] if given["groups"] is None else [part.strip() for part in given["groups"].split(",")]
    fields = {
        "nproc": given["nproc"],
        "devices": given["devices"],
        "groups": groups,
        "seed": output.seed,
        "timeout": given["timeout"],
    }
    options = build(LocalOptions, {**fields, "depth": "quick" if quick else "full"}, "calibrate local")
    if _writes_system(output):
        check_whole(options)
    runs = [_run(text, given["model"], given["sequence"], given["global_batch"]) for text in layouts]
    result, found = calibrate_local(options, runs)
    if output.file is None or not _writes_system(output):
        return show(result, output)
    beside = Path(output.file.removesuffix(_SUFFIX) + ".calibration" + _SUFFIX)
    for file, text in ((beside, calibration_text(found, stated)), (Path(output.file), system_text(found, stated))):
        write_file(file, text.encode())
        if not output.quiet:
            click.echo(f"wrote {file}", err=True)
    return show(result, replace(output, file=None))


def _writes_system(output: Output) -> bool:
    """Whether -o names a system file, and not the answer."""
    return output.file is not None and output.file.endswith(_SUFFIX)


def _day(text: str | None) -> str:
    """The day that the files state. Raises IO036 for a text that is no date."""
    try:
        return (datetime.now(tz=UTC).date() if text is None else date.fromisoformat(text)).isoformat()
    except ValueError as problem:
        raise FileError(36, f"--date {text}: {problem}", "give a date as in --date 2026-11-30") from problem


def _run(text: str, name: str, sequence: str, global_batch: int) -> RealRun:
    """A layout on the model of --model. Raises LAY001 and the codes of rules for one that it cannot have."""
    from meshwright.runtime.loop.trainer import Batch  # noqa: PLC0415 - loads torch
    from meshwright.verify.local.runs import RealRun, checked_run  # noqa: PLC0415 - as above

    fields: dict[str, Any] = {"attention": "data_parallel", **read_fixed(text)}
    layout = Layout(**fields)
    positions = int(parse_quantity(sequence, "length", "--sequence"))
    batch = Batch(global_batch=global_batch, sequence=positions)
    run = RealRun(model=read_model(name), arithmetic=read_arithmetic(name), layout=layout, batch=batch)
    return checked_run(run)
