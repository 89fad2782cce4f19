"""`meshwright schedule --stages N --micro-batches N --forward T --backward T ...`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from meshwright.base.parse import build
from meshwright.cli.options import Output, output_options
from meshwright.cli.show import check_files, show, write_file
from meshwright.scenarios.schedule import ScheduleOptions, schedule, simulated

if TYPE_CHECKING:
    from meshwright.base.result import Result
    from meshwright.cli.options import Verb


def _times(verb: Verb) -> Verb:
    """What slots and messages take."""
    decorators = (
        click.option(
            "--forward", required=True, help="Of a micro-batch over a whole stage, as in 10ms; or one a stage."
        ),
        click.option("--backward", required=True, help="As --forward; both halves together."),
        click.option("--weight-grad", default="50%", show_default=True, help="The part of a backward that can wait."),
        click.option("--send", default="0s", show_default=True, help="Of an activation over a link; or one a link."),
        click.option("--send-back", default=None, help="Of a gradient over a link [as --send]."),
        click.option(
            "--update", default="0s", show_default=True, help="Of every rank, after the last gradient of all."
        ),
    )
    return _with(verb, decorators)


def _memory(verb: Verb) -> Verb:
    """What a rank keeps."""
    decorators = (
        click.option("--saved", default="0B", help="Kept of a micro-batch by a whole stage [0B]; or one a stage."),
        click.option("--saved-head", default="0B", help="Kept beside by the last virtual stage [0B]."),
        click.option("--forward-message", default="0B", help="Bytes of an activation between ranks [0B]."),
        click.option("--backward-message", default="0B", help="Bytes of a gradient between ranks [0B]."),
        click.option("--memory-limit", default=None, help="Most of these that a rank may hold, as in 1GB."),
    )
    return _with(verb, decorators)


def _with(verb: Verb, decorators: tuple[Any, ...]) -> Verb:
    for decorator in reversed(decorators):
        verb = decorator(verb)
    return verb


@click.command("schedule")
@click.option("--stages", type=int, required=True, help="Ranks in line.")
@click.option("--micro-batches", type=int, required=True, help="Of one step.")
@_times
@click.option("--layers", type=int, default=None, help="Of the model; stages and chunks take their share [even].")
@click.option("--virtual-stages", type=int, default=2, show_default=True, help="Of a rank, where interleaved.")
@_memory
@click.option("--schedule", default="all", show_default=True, help="By name, several by comma; or all.")
@click.option("--buffers", type=int, default=None, help="Activations a stage can have waiting [any number].")
@click.option(
    "--ties",
    type=click.Choice(["direction", "micro-batch"]),
    default="direction",
    show_default=True,
    help="Of two directions on one stream, what goes first.",
)
@click.option(
    "--cells",
    type=click.Choice(["divisible", "indivisible"]),
    default="divisible",
    show_default=True,
    help="A forward beside a backward: apart, or as one slot.",
)
@click.option("--trace", default=None, metavar="FILE", help="Write the chosen timeline as a Perfetto trace.")
@click.option("--svg", default=None, metavar="FILE", help="Write the chosen timeline as a picture.")
@output_options
def command(output: Output, trace: str | None, svg: str | None, **given: Any) -> int:
    """Run a step under every pipeline schedule: which fits, which is the fastest, and what the others would cost.

    The timeline is that of the chosen schedule, or of the fastest where none fits.
    """
    check_files(trace, svg, output.file)
    given |= {"ties": given["ties"].replace("-", "_")}
    options = build(ScheduleOptions, given, "schedule")
    result = schedule(options)
    if trace is not None or svg is not None:
        _draw(result, options, trace, svg)
    return show(result, output)


def _draw(result: Result, options: ScheduleOptions, trace: str | None, svg: str | None) -> None:
    """The files that were asked for."""
    name = result.body["chosen"] or result.body["schedules"][0].schedule
    timeline = simulated(name, options)
    if trace is not None:
        from meshwright.output.traces import as_perfetto  # noqa: PLC0415 - a form is loaded when it is asked for

        write_file(Path(trace), as_perfetto(timeline, name))
    if svg is not None:
        from meshwright.output.svg import as_svg  # noqa: PLC0415 - as traces

        write_file(Path(svg), as_svg(timeline, name).encode())
